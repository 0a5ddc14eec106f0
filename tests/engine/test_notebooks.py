"""Notebooks in the engine: any of them is checked, and each finding is where its words are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embercoach.config import Settings
from embercoach.engine.check_run import RunResult, run
from embercoach.engine.fixing import Fixer
from embercoach.engine.inspection import Inspector
from embercoach.report.outcome import SourceTexts
from tests.notebooks.test_magics import LINES
from tests.notebooks.written import notebook, sources, written

NAME = "a.ipynb"


def checked(text: str) -> RunResult:
    return run((), Settings(root=Path.cwd()), stdin=(NAME, text.encode()))


WORDS = ("bad_pull", "x = bad_shape", "  bad_scalar", "%time bad_pull", "é = bad_twice  # why")


@pytest.mark.usefixtures("planted")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cells=st.lists(
        st.lists(st.sampled_from((*WORDS, "!ls", "y = !ls", "", "# bad_bound\u2028", "%%bash")))
        .map("\n".join)
        .map(lambda cell: cell.replace("\n  ", "\nif a:\n  ")),
        max_size=4,
    )
)
def test_findings_stand_where_their_words_are(cells: list[str]) -> None:
    text = written(notebook("import mlx", *cells))
    result = checked(text)
    if result.problems:
        return
    words = {"GRAPH-BREAK-001": "bad_pull", "DTYPE-001": "bad_twice", "HOST-PULL-009": "bad_shape"}
    texts = sources(text)
    files = SourceTexts({NAME: text})
    for finding in result.findings:
        assert finding.cell is not None
        line = texts[finding.cell - 1].split("\n")[finding.line - 1]
        found = line[finding.column - 1 : finding.end_column - 1]
        assert found.startswith("bad_")
        assert words.get(finding.code, found) == found
        assert files.index(NAME, finding.cell).line(finding.line) == line
    order = [(f.cell, f.line, f.column) for f in result.findings]
    assert order == sorted(order)


@settings(max_examples=60)
@given(cells=st.lists(st.lists(LINES, max_size=6).map("\n".join), max_size=4))
def test_no_notebook_breaks_the_checks(cells: list[str]) -> None:
    """With the real checks; fixing is tried as well."""
    text = written(notebook("import mlx.core as mx\nx = mx.ones(3)", *cells))
    path = Path.cwd() / NAME
    inspection = Inspector(debug=True).inspect(text.encode(), path)
    assert inspection.kind in ("checked", "broken")
    if inspection.kind == "checked":
        fixed = Fixer(Settings(root=Path.cwd()), unsafe=True, debug=True)((NAME, text.encode()))
        assert fixed.trouble is None
        assert len(json.loads(fixed.new)["cells"]) == len(cells) + 1


@pytest.mark.usefixtures("planted")
def test_fixes_go_round_by_round() -> None:
    """A fix that shows another finding, and one that would break the cell."""
    settings = Settings(root=Path.cwd())
    text = written(notebook("import mlx", "bad_twice\n%time bad_twice", "bad_scalar"))
    fixed = Fixer(settings, unsafe=False, debug=True)((NAME, text.encode()))
    assert fixed.new == text.replace("bad_twice", "good_shape")
    assert (fixed.applied, fixed.trouble) == (4, None)
    broken = Fixer(settings, unsafe=False, debug=True)(
        (NAME, text.replace("bad_twice", "bad_break").encode())
    )
    assert (broken.applied, broken.new) == (0, broken.old)
    assert broken.trouble is not None
    assert broken.trouble.startswith("a fix would break the file")


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("cell", ["  x = 1\n  bad_shape", "%%time\n\n  x = 1\nbad_shape"])
def test_a_cell_that_is_indented_as_a_whole(cell: str) -> None:
    """IPython takes it, as it comes from a function's body; other cells keep their places."""
    text = written(notebook("import mlx", cell, "bad_shape"))
    result = checked(text)
    assert result.problems == ()
    line = cell.count("\n") + 1
    assert [(f.cell, f.line) for f in result.findings] == [(2, line), (3, 1)]
    fixed = Fixer(Settings(root=Path.cwd()), unsafe=False, debug=True)((NAME, text.encode()))
    assert fixed.new == text.replace("bad_shape", "good_shape")
