"""Every view of the report in Chromium: accessibility by axe, width, time, tables and excerpts."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from embercoach.report.html.rendering import render, run_details
from tests.report.chromium import MARKS, SCHEMES, WIDTHS, browser, close_accessible, opened
from tests.report.conftest import FINDINGS, PROBLEMS
from tests.report.test_html import document_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["browser"]
pytestmark = MARKS
VIEWS = {
    "opening": "",
    "overview": "#view=overview",
    "findings": "#view=findings&severity=error,warning,note",
    "nothing": "#view=findings&search=nothing",
    "hot spots": "#view=hotspots",
    "file": "#view=file&file=0&finding=0",
    "lost file": "#view=file&file=1",
    "rule": "#view=findings",
    "places": "#view=findings",
    "keys": "#view=overview",
}
OPENING = {
    "rule": "#list button.rule >> nth=0",
    "places": "#list details:last-child summary >> nth=0",
    "keys": "#keys",
}
OPEN_SECONDS = 1.0


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every part: a changed baseline, an earlier run, checkouts, problems."""
    folder = tmp_path_factory.mktemp("views")
    model = folder / "model.py"
    line = "            total = total + batch.item()  # " + "wide " * 40 + "\n"
    text = "import mlx.core as mx\n\n\ndef step(batches):\n    for batch in batches:\n" + line * 60
    model.write_text(text, encoding="utf-8")
    place = {"path": str(model), "column": 13, "end_column": 20, "fix": None}
    found = [
        replace(one, line=n, end_line=n, context="avoidable", **place)
        for n, one in zip(range(6, 18), FINDINGS[:3] * 4, strict=True)
    ]
    gone = replace(FINDINGS[1], path=str(folder / "other/gone.py"), fix=None)
    marks = [f"{n:032x}" for n in range(len(found) + 1)]
    document = document_of(*found, gone, marks=marks)
    earlier = document_of(*found[:6], marks=marks[:6])
    document["problems"] = [
        {"path": p.path, "line": p.line, "column": p.column, "message": p.message} for p in PROBLEMS
    ]
    counted = {"files_checked": 2, "files_skipped": 0, "suppressed": 0}
    document["checkouts"] = [{"path": str(path), **counted} for path in (folder, folder / "other")]
    changes = [{"path": str(model), "code": "GRAPH-BREAK-001", "known": 3, "fixed": 1}]
    document["summary"]["baseline"] = {"known": 3, "fixed": 1, "changes": changes}
    document["summary"] |= {"fixable": 1, "fixable_unsafe": 5}
    details = run_details(document, seconds=0.0, command="embercoach report .")
    file = folder / "report.html"
    page = render(
        document, readable=lambda _: True, earlier=[("before.json", earlier)], details=details
    )
    file.write_text(page, encoding="utf-8")
    return file


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("view", VIEWS)
def test_views_are_accessible(
    browser: Any, report: Path, view: str, scheme: str, width: int
) -> None:
    page = opened(browser, report, VIEWS[view], scheme, width)
    if view in OPENING:
        page.click(OPENING[view])
    close_accessible(page)


def test_the_theme_is_the_readers(browser: Any, report: Path) -> None:
    colors = []
    for scheme in ("light", "dark"):
        page = opened(browser, report, "#view=file&file=0", scheme)
        colors.append(page.evaluate("getComputedStyle(document.querySelector('.token-k')).color"))
        page.close()
    assert len(set(colors)) == 2


def test_findings_have_an_excerpt_with_tokens_and_their_place(browser: Any, report: Path) -> None:
    page = opened(browser, report, "#view=findings")
    first = page.locator("#list > li").first
    shown = first.locator(".excerpt .no").all_inner_texts()
    marked = first.locator(".excerpt .row.error .token-c, .excerpt .row.error mark").count()
    overflow = page.evaluate(
        "[...document.querySelectorAll('.excerpt')].some((e) => e.scrollWidth > e.clientWidth)"
    )
    page.close()
    assert (shown[1], marked >= 2, overflow) == ("6", True, False)


def test_tables_of_hot_spots_are_sorted_by_their_heads(browser: Any, report: Path) -> None:
    page = opened(browser, report, "#view=hotspots")
    head = page.locator("#hot-functions th", has_text="Function")
    assert page.locator("#hot-functions th[aria-sort]").inner_text() == "Avoidable"
    orders = []
    for _ in range(2):
        head.locator("button").click()
        orders.append(head.get_attribute("aria-sort"))
    sorted_heads = page.locator("#hot-functions th[aria-sort]").count()
    link = page.locator("#hot-functions tbody a").first
    assert link.inner_text() == "step"
    link.click()
    page.wait_for_selector("#file:not([hidden])")
    page.close()
    assert (orders, sorted_heads) == (["ascending", "descending"], 1)


def test_five_thousand_findings_open_in_under_a_second(browser: Any, tmp_path: Path) -> None:
    found = []
    for number in range(50):
        path = tmp_path / f"module_{number}.py"
        path.write_text("x = mx.max(y).item()  # pulled\n" * 500, encoding="utf-8")
        place = {"path": str(path), "column": 5, "end_column": 21, "fix": None}
        found += [replace(FINDINGS[1], line=n, end_line=n, **place) for n in range(1, 500, 5)]
    assert len(found) == 5000
    file = tmp_path / "report.html"
    file.write_text(render(document_of(*found), readable=lambda _: True), encoding="utf-8")
    seconds = []
    for _ in range(5):
        page = opened(browser, file, "")
        # Two frames after the script: the list is drawn, and clicks are handled.
        drawn = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
        seconds.append(page.evaluate(f"{drawn}.then(() => performance.now())") / 1000)
        assert page.locator("#list > li").count() == 1
        page.close()
    assert statistics.median(seconds) < OPEN_SECONDS
