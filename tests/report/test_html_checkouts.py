"""The HTML report of several checkouts: which files are whose, their totals, and the filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from embercoach.report import json_report
from embercoach.report.html.data import checkout_rows
from embercoach.report.outcome import Checkout, RunOrigin, SourceTexts
from embercoach.report.statistics import owners
from tests.report.conftest import FINDINGS, Outcome, Problem
from tests.report.test_html_browser import opened
from tests.report.test_html_browser import pytestmark as browser

if TYPE_CHECKING:
    from tests.report.test_html_browser import Open

__all__ = ["opened"]


@pytest.mark.parametrize(
    ("path", "tops", "owner"),
    [
        ("a/x.py", ["a", "b"], "a"),
        ("ab/x.py", ["a", "b"], None),
        ("a/b/c/x.py", ["a", "a/b"], "a/b"),
        ("x.py", [".", "a"], "."),
        ("b/x.py", [".", "a"], "."),
        ("/else/x.py", [".", "a"], None),
        ("/one/x.py", ["/one", "/two"], "/one"),
        ("/x.py", ["/", "/two"], "/"),
        ("../one/x.py", ["../one", "."], "../one"),
        ("a", ["a", "b"], "a"),
    ],
)
def test_a_file_is_the_innermost_checkouts(path: str, tops: list[str], owner: str | None) -> None:
    assert owners([path], tops) == {path: owner}


def document(*tops: str) -> dict[str, Any]:
    found = [replace(FINDINGS[0], path=path) for path in ("a/x.py", "a/y.py", "data/a/x.py")]
    problems = (Problem("a/z.py", 1, 1, "syntax error"),)
    origin = RunOrigin("0", "p", tuple(Checkout(top, 3, 2, 1) for top in tops))
    return json_report.document(
        Outcome(tuple(found), problems), SourceTexts(), show_notes=True, origin=origin
    )


def test_totals() -> None:
    made = checkout_rows(document("a", "b", "data"))
    assert [(row.key, row.counts) for row in made] == [
        ("a", (2, 0, 0, 3, 2, 1)),
        ("data", (1, 0, 0, 3, 2, 0)),
        ("b", (0, 0, 0, 3, 2, 0)),
    ]
    assert [[part.length for part in row.parts] for row in made] == [[100.0], [50.0], []]
    assert checkout_rows(document("a")) == checkout_rows(document()) == []


@pytest.mark.browser
@browser[1]
@pytest.mark.parametrize(("checkout", "count"), [("a", 2), ("data", 1), ("b", 0)])
def test_the_list_can_be_filtered(opened: Open, checkout: str, count: int) -> None:
    page = opened(document("a", "b", "data"), f"view=findings&checkout={checkout}")
    assert len(page.css("#list > li")) == count
    assert page.css_first("#status").text().startswith(f"{count} finding")
