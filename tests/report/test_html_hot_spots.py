"""The report's hot spots: dense files, and functions that stall in loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from selectolax.lexbor import LexborHTMLParser

from embercoach.report.html import data
from embercoach.report.html.rendering import render
from tests.report.conftest import FINDINGS
from tests.report.test_html import data_of, document_of

if TYPE_CHECKING:
    from pathlib import Path

    from embercoach.finding import Finding

LOOPS = """\
class Trainer:
    def step(self, batches):
        for batch in batches:
            batch.item()
            batch.tolist()

def once(x):
    x.item()

for y in z:
    y.item()
"""


def hot(*findings: Finding) -> dict[str, Any]:
    page = render(document_of(*findings), readable=lambda _: True)
    found: dict[str, Any] = data_of(LexborHTMLParser(page))["hot"]
    return found


def at(line: int, path: Path | str, **changes: Any) -> Finding:
    place = {"line": line, "column": 1, "end_line": line, "end_column": 2, "path": str(path)}
    return replace(FINDINGS[1], fix=None, **(place | changes))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loops.py").write_text(LOOPS, encoding="utf-8")
    for name, lines in (("a.py", 200), ("b.py", 50), ("short.py", 49)):
        (tmp_path / name).write_text("x = 1\n" * lines, encoding="utf-8")
    return tmp_path


def test_functions_are_counted_by_stalls_in_loops(project: Path) -> None:
    found = hot(
        at(4, "loops.py"),
        at(5, "loops.py", code="HOST-PULL-001"),
        at(5, "loops.py", code="HOST-PULL-001", context="minor"),
        at(8, "loops.py", context="default"),
        at(5, "loops.py", code="DTYPE-001"),
        at(11, "loops.py"),
    )
    assert found["functions"] == [[0, "Trainer.step", 2, 1, 0], [0, "top level", 1, 0, 5]]


def test_files_are_sorted_by_errors_and_warnings_a_line(project: Path) -> None:
    found = hot(
        *(at(line, "a.py") for line in (1, 2)),
        at(1, "b.py"),
        *(at(line, "b.py", severity="note") for line in (2, 3, 4)),
        at(1, "short.py", severity="error"),
    )
    assert found["files"] == [[1, 50, 0, 1, 3], [0, 200, 0, 2, 0]]


def test_harmful_files_have_colors_first(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "MOST_COLORED", 450)
    findings = (
        at(1, "a.py", severity="note", context="default"),
        at(1, "b.py", severity="error"),
        at(4, "loops.py", severity="note"),
        at(1, "short.py", severity="error", code="DTYPE-001"),
    )
    page = LexborHTMLParser(render(document_of(*findings), readable=lambda _: True))
    colored = {
        file["path"]: any(map(any, file["source"]["tokens"])) for file in data_of(page)["files"]
    }
    assert colored == {"a.py": False, "b.py": True, "loops.py": True, "short.py": False}


def test_files_that_cannot_be_read_are_left_out(project: Path) -> None:
    assert hot(at(1, "gone.py")) == {"files": [], "functions": []}
