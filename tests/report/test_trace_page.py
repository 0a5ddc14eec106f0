"""The page of traces in Chromium: accessibility by axe, width, themes, order of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from embercoach.fixes.source_file import LineIndex
from embercoach.report.excerpt import visible
from embercoach.report.html.trace_page import render_trace
from tests.report.chromium import MARKS, SCHEMES, WIDTHS, browser, close_accessible, opened

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["browser"]
pytestmark = MARKS
SOURCE = '# é <b>bold</b>\ndef f(x):\n    "text"\n    return x.item() + 1\n' + "pass\n" * 20
SHARES = (0.0, 0.005, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.8)


def site(line: int, seconds: float, **more: Any) -> dict[str, Any]:
    made = {"path": "train.py", "line": line, "function": "f", "kind": "item", "waits": True}
    costs = {
        "count": line,
        "seconds": seconds,
        "most_seconds": seconds,
        "bytes": 4,
        "operations": 7,
    }
    static = {"codes": ["GRAPH-BREAK-001"], "check": "found", "details": []}
    words = {"operation": "array.item", "text": "return x.item() + " + "long " * 20}
    words["label"] = more.get("operation", "array.item")
    return {**made, **costs, **static, **words, **more}


def document() -> dict[str, Any]:
    retrace = {"kind": "retrace", "waits": False, "details": ["argument 0: 1, then 2"]}
    finding = {"path": "train.py", "line": 4, "code": "GRAPH-BREAK-001", "message": "`.item()`"}
    costs = {"count": 1, "seconds": 0.5, "bytes": 4}
    summary = {"program": "<b>train.py</b>", "device": "Device(gpu, 0)", "mlx": "0.31.2"}
    totals = {"exit_code": 0, "seconds": 1.0, "waited_seconds": 0.9, "events": 9}
    return {
        "sites": [
            *(site(line, share) for line, share in enumerate(SHARES, start=4)),
            site(20, 0.2, operation="mx.compile of f", codes=[], check=None, **retrace),
            site(22, 0.001, codes=[], check="not-found"),
        ],
        "findings": [
            {**finding, **costs, "confirmed": True, "state": "confirmed"},
            {**finding, **costs, "confirmed": False, "state": "not-reached"},
        ],
        "problems": [{"path": "other.py", "line": 1, "column": 1, "message": "invalid syntax"}],
        "summary": {
            **summary, **totals,
            "peak_bytes": 1 << 30, "findings": 2, "confirmed": 1, "not_found": 1,
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("trace") / "trace.html"
    text = render_trace(document(), sources={"train.py": LineIndex(SOURCE)}, shown=visible)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_page_is_accessible(browser: Any, page_file: Path, scheme: str, width: int) -> None:
    close_accessible(opened(browser, page_file, "", scheme, width))


def test_rows_are_sorted_under_the_policy(browser: Any, page_file: Path) -> None:
    page = browser.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.goto(page_file.as_uri())

    def counts() -> list[int]:
        cells = page.locator("#sites tbody td:nth-child(5)").all_text_contents()
        return [int(cell) for cell in cells]

    first = counts()
    page.get_by_role("button", name="Count").first.click()
    falling = counts()
    page.get_by_role("button", name="Count").first.click()
    rising = counts()
    colors = page.locator(".heat pre span").count()
    bold = page.locator("main b").count()
    page.close()
    assert first[0] == 12  # the longest wait
    assert falling == sorted(first, reverse=True)
    assert rising == sorted(first)
    assert (errors, bold) == ([], 0)
    assert colors > 3
