"""Notebooks from the command line, with the real checks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from embercoach.cli.commands.check import FORMATS
from embercoach.fixes.source_file import LineIndex
from tests.cli.conftest import Ran
from tests.cli.test_formats import COUNTS
from tests.notebooks.written import notebook, prose, sources, written

Cli = Callable[..., Ran]

IMPORTS = "%pip install mlx\nimport mlx.core as mx\nfiles = !ls"
HALF = "x = mx.ones((3, 3), dtype=mx.float16)\n%time y = x + 1\nz = x * mx.array(0.5)\n"
PULL = "%%time\nfor i in range(3):\n    loss = mx.sum(x * i)\n    t =x*(loss.item())"
LOOP = "while True: a = mx.full(2, x.max().item())"
CELLS = (prose("# Training on `mx`"), IMPORTS, "%%bash\nls mlx", HALF, PULL)
FILE = written(notebook(*CELLS))
FOUND = [("a.ipynb:cell 4:3:9", "DTYPE-001"), ("a.ipynb:cell 5:4:11", "GRAPH-BREAK-001")]


@pytest.fixture
def file(project: Path) -> Path:
    path = project / "a.ipynb"
    path.write_text(FILE, encoding="utf-8")
    return path


def found(ran: Ran) -> list[tuple[str, str]]:
    """Place and rule of each finding that is listed."""
    lines = (line for line in ran.out.splitlines() if line.startswith("a.ipynb:"))
    return [(line.partition(": ")[0], line.partition(": ")[2].split()[0]) for line in lines]


def test_findings_name_cell_and_line(embercoach: Cli, file: Path) -> None:
    ran = embercoach(".", "--output-format", "concise")
    assert (ran.code, found(ran)) == (1, FOUND)
    # The second run has it from the cache.
    again = embercoach(".", "--output-format", "concise")
    assert again.out == ran.out
    assert "4 | print(loss" not in ran.out
    assert "\n4 |     t =x*(loss.item())\n  |           ^^^^^^^^^^^\n" in embercoach("a.ipynb").out


def test_all_formats_tell_of_the_same_findings(embercoach: Cli, file: Path) -> None:
    text = written(notebook(*CELLS, "def f(:"))
    assert text.count('"def f(:"') == 1
    (file.parent / "broken.ipynb").write_text(text)
    for form in FORMATS:
        ran = embercoach(".", "--output-format", form)
        assert ran.code == 2
        if form not in ("text", "full", "concise"):
            assert COUNTS[form](ran.out) >= len(FOUND)
    concise = embercoach(".", "--output-format", "concise").out
    assert "broken.ipynb:cell 6:1:7: syntax error: invalid syntax\n" in concise


def test_places_for_forges_are_those_of_the_file(embercoach: Cli, file: Path) -> None:
    """What people read names the cell; what is looked up is a line of the JSON."""
    lines = FILE.splitlines()
    (row,) = (n for n, line in enumerate(lines, 1) if "loss.item()" in line)
    column = lines[row - 1].index("loss.item()") + 1

    result = json.loads(embercoach(".", "--output-format", "sarif").out)["runs"][0]["results"][-1]
    (location,) = result["locations"]
    assert location["physicalLocation"]["region"] == {
        "startLine": row,
        "startColumn": column,
        "endLine": row,
        "endColumn": column + len("loss.item()"),
    }
    (logical,) = location["logicalLocations"]
    assert logical["properties"] == {"cell": 5, "line": 4, "column": 11}
    assert result["message"]["text"].startswith("cell 5, line 4: `.item()` synchronizes")

    github = embercoach(".", "--output-format", "github").out.splitlines()[-1]
    assert f"file=a.ipynb,line={row},col={column},endLine={row}," in github
    assert "::a.ipynb:cell 5:4:11: GRAPH-BREAK-001" in github

    entry = json.loads(embercoach(".", "--output-format", "gitlab").out)[-1]
    assert entry["location"] == {"path": "a.ipynb", "lines": {"begin": row}}
    assert entry["description"].startswith("GRAPH-BREAK-001: cell 5, line 4: `.item()`")

    junit = embercoach(".", "--output-format", "junit").out
    assert (
        f'name="GRAPH-BREAK-001 at cell 5:4:11" classname="a.ipynb" file="a.ipynb" line="{row}"'
        in junit
    )
    assert (
        f"[a.ipynb:cell 5:4](a.ipynb#L{row})" in embercoach(".", "--output-format", "markdown").out
    )


def test_fixes_change_the_source_alone(embercoach: Cli, file: Path) -> None:
    diff = embercoach(".", "--diff", "--unsafe-fixes")
    fixed = "z = x * mx.array(0.5, dtype=x.dtype)\n"
    assert diff.out.startswith("--- a.ipynb:cell 4\n+++ a.ipynb:cell 4\n@@ ")
    assert f"\n-z = x * mx.array(0.5)\n+{fixed}" in diff.out
    ran = embercoach(".", "--fix", "--unsafe-fixes", "--output-format", "concise")
    assert (ran.code, found(ran)) == (1, FOUND[1:])
    text = file.read_text(encoding="utf-8")
    assert text == FILE.replace('"z = x * mx.array(0.5)\\n"', json.dumps(fixed))
    nbformat.validate(nbformat.reads(text, as_version=4))
    piped = embercoach(
        "-", "--stdin-filename", "x.ipynb", "--fix", "--unsafe-fixes", stdin=FILE.encode()
    )
    assert piped.out == text
    assert "x.ipynb:cell 5:4:11" in piped.err


def test_suppressions(embercoach: Cli, file: Path) -> None:
    ran = embercoach(".", "--add-noqa")
    assert ran.code == 0
    now = sources(file.read_text(encoding="utf-8"))
    assert now == [
        *sources(FILE)[:3],
        HALF.replace("(0.5)", "(0.5)  # embercoach: ignore[DTYPE-001]"),
        f"{PULL}  # embercoach: ignore[GRAPH-BREAK-001]",
    ]
    assert embercoach(".", "--output-format", "concise").code == 0
    # Without what it suppresses a comment goes again.
    file.write_text(file.read_text(encoding="utf-8").replace("loss.item()", "i"))
    assert "cell 5:4:15: NOQA-001" in embercoach(".", "--output-format", "concise").out
    assert embercoach(".", "--fix").code == 0
    assert sources(file.read_text(encoding="utf-8"))[4] == PULL.replace("loss.item()", "i")


@pytest.mark.parametrize(
    ("cells", "listed"),
    [
        (["# embercoach: skip-file", *CELLS[1:]], []),
        ([*CELLS, "# embercoach: ignore-file[GRAPH-BREAK, DTYPE]"], []),
        # A comment of its own line holds for the next one, yet not for that of the next cell.
        ([IMPORTS, "x = mx.ones(3)\n# embercoach: ignore", LOOP], ["cell 2:2:1", "cell 3:1:28"]),
        ([IMPORTS, "x = mx.ones(3)", f"# embercoach: ignore\n{LOOP}"], []),
    ],
)
def test_comments_in_cells(
    embercoach: Cli, file: Path, cells: list[Any], listed: list[str]
) -> None:
    file.write_text(written(notebook(*cells)), encoding="utf-8")
    ran = embercoach(".", "--output-format", "concise")
    assert [place for place, _ in found(ran)] == [f"a.ipynb:{place}" for place in listed]


def test_what_cannot_be_checked(embercoach: Cli, file: Path) -> None:
    cut = FILE[: FILE.index("loss")]
    file.write_text(cut)
    ran = embercoach(".", "--output-format", "concise")
    assert ran.code == 2
    line, column = LineIndex(cut).place(len(cut))
    said = "truncated notebook: the file ends within its JSON"
    assert f"a.ipynb:{line}:{column}: {said}\n" in ran.out
    file.write_text("{")
    assert "a.ipynb:1:2: truncated notebook" in embercoach(".").out
    # What does not mention MLX is not read, and a notebook of another language is passed over.
    file.write_text("{]}")
    assert embercoach(".").code == 0
    file.write_text(written(notebook(*CELLS, metadata={"language_info": {"name": "julia"}})))
    assert "Nothing to check in 1 file" in embercoach(".").out


def test_explain_at_a_place(embercoach: Cli, file: Path) -> None:
    ran = embercoach("explain", "a.ipynb:cell 5:4")
    assert (ran.code, "GRAPH-BREAK-001 (item-call)" in ran.out) == (0, True)
    reported = json.loads(embercoach("explain", "a.ipynb:cell 5:4", "--output-format", "json").out)
    assert (reported["cell"], reported["findings"][0]["cell"]) == (5, 5)
    for word, said in (
        ("a.ipynb:4", "use 'NOTEBOOK:cell N:LINE'"),
        ("a.ipynb:cell 1:1", "a.ipynb has no Python cell 1"),
        ("a.ipynb:cell 5:9", "cell 5 of a.ipynb has 4 lines, got line 9"),
        ("a.py:cell 5:9", "use FILE:LINE"),
    ):
        ran = embercoach("explain", word)
        assert (ran.code, said in ran.err) == (2, True), ran.err


def test_html_shows_the_cells(embercoach: Cli, file: Path) -> None:
    embercoach(".", "--output-format", "json", "-o", "saved.json")
    for arguments in ((".",), ("--from", "saved.json")):
        assert embercoach("report", *arguments).code in (0, 1)
        page = (file.parent / "embercoach-report.html").read_text(encoding="utf-8")
        data = json.loads(page.partition('id="data"')[2].partition(">")[2].partition("</script")[0])
        source = data["files"][0]["source"]
        assert source["cells"] == [[2, 1], [4, 4], [5, 8]]
        assert source["parts"][0][1][7:] == PULL.splitlines()
        assert [(row[1], row[12]) for row in data["findings"] if row[6] < 2] == [(3, 4), (4, 5)]
