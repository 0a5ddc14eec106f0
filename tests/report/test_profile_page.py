"""The page of profiles in Chromium: accessibility by axe, width, themes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from embercoach.report.excerpt import visible
from embercoach.report.html.profile_page import render_profiles
from tests.cli.test_simulate_profile import WORK
from tests.report.chromium import MARKS, SCHEMES, WIDTHS, browser, close_accessible, opened

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["browser"]
pytestmark = MARKS
SHARES = (0.0, 0.005, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.8, 1.0)


def profile(name: str, flops: int) -> dict[str, Any]:
    """A kernel with a line of each shade."""
    texts = [f"float v{n} = x[i + {n}]; // {'long ' * 12}" for n in range(len(SHARES))]
    cost = {
        **WORK,
        "instructions": {"float32": 4},
        "active_lanes": 12.5,
        "device_bytes_moved": 4096,
        "device_bytes_requested": 512,
    }
    return {
        "kernel": name,
        "launched_at": {"path": "model.py", "line": 7},
        "launches": 3,
        "grid": [256, 1, 1],
        "threadgroup": [64, 1, 1],
        "threadgroup_bytes": 0,
        "registers": 20,
        **cost,
        "flops": flops,
        "device_bytes": 1 << 16,
        "predicted_seconds": 2e-5,
        "gpu": "M2 Max",
        "gpu_bandwidth": 4e11,
        "gpu_flops": 1.3e13,
        "gpu_sources": ["https://www.example.com/m2"],
        "bound": "memory",
        "bound_at": {"part": "body", "line": 10},
        "occupancy": {"simdgroups": 96, "most": 96, "limit": "threads"},
        "source": {"body": texts},
        "source_at": {},
        "lines": [
            {"part": "body", "line": n, "share": share, **cost}
            for n, share in enumerate(SHARES, start=1)
        ],
    }


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("profile") / "profile.html"
    profiles = [profile("rows", 1 << 18), profile("<b>products</b>", 1 << 24)]
    note = {
        "kernel": "rows",
        "code": "SIM-COST-001",
        "severity": "note",
        "path": "model.py",
        "line": 7,
        "message": "2 memory transactions, where 1 would do",
        "help": "Let neighbouring threads use neighbouring elements",
    }
    text = render_profiles(
        profiles,
        [note, {**note, "kernel": "other"}],
        program="train.py",
        resources={"memory": "memory bandwidth"},
        shown=visible,
    )
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_page_is_accessible(browser: Any, page_file: Path, scheme: str, width: int) -> None:
    close_accessible(opened(browser, page_file, "", scheme, width))


def test_hot_lines_stand_out_under_the_policy(browser: Any, page_file: Path) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    color = "getComputedStyle(document.querySelector('{} pre')).backgroundColor"
    colors = [page.evaluate(color.format(row)) for row in (".heat-0", ".heat-1", ".heat-8")]
    circles = page.locator("svg.roofline circle").count()
    bold = page.locator("main b").count()
    notes = page.locator("#kernel-1 p", has_text="SIM-COST-001 note model.py:7").count()
    page.close()
    assert (len(set(colors)), circles, bold, notes) == (3, 2, 0, 1)
