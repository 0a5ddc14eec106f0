"""Edits of a notebook's module reach the file, inside of a cell's source alone."""

from __future__ import annotations

import json
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach.finding import Edit, Fix
from embercoach.fixes.application import apply
from embercoach.notebooks.cell_module import Notebook, parse
from embercoach.notebooks.editing import fix_in_file, unified_cells
from tests.notebooks.written import code, notebook, prose, sources, written


def parsed(text: str) -> Notebook:
    found = parse(text)
    assert found is not None
    return found


def edited(text: str, start: int, end: int, new: str) -> str | None:
    """A file after an edit of its module; None where it is refused."""
    fix = fix_in_file(Fix("edit", safe=True, edits=(Edit(start, end, new),)), parsed(text))
    return None if fix is None else apply(text, [fix])[0]


def edited_at(text: str, word: str, new: str) -> str | None:
    start = parsed(text).source.index(word)
    return edited(text, start, start + len(word), new)


FILE = written(notebook(prose("# Title"), "import mlx\n\nx = 1  # why\n", "y = 2\nz = 3"))


@pytest.mark.parametrize(
    ("word", "new", "before", "after"),
    [
        ("1  #", "'é\"\\' #", '"x = 1  # why\\n"', '"x = \'é\\"\\\\\' # why\\n"'),
        ("x = 1", "a\nx = 1", '    "x = 1  # why\\n"', '    "a\\n",\n    "x = 1  # why\\n"'),
        ("x = 1  # why\n", "", '"\\n",\n    "x = 1  # why\\n"', '"\\n"'),
        ("import mlx\n", "", '"import mlx\\n",\n    "\\n"', '"\\n"'),
        # The last line goes with its line end, which the file does not have.
        ("z = 3\n", "", '"y = 2\\n",\n    "z = 3"', '"y = 2"'),
        ("z = 3\n", "z = 4\n", '"z = 3"', '"z = 4"'),
        ("z = 3", "z = 3\n", '"z = 3"', '"z = 3\\n"'),
        ("z = 3", "a\nb", '"z = 3"', '"a\\n",\n    "b"'),
        ("y = 2\nz = 3", "", '"y = 2\\n",\n    "z = 3"', '""'),
        ("2\nz", "2 + z", '"y = 2\\n",\n    "z = 3"', '"y = 2 + z = 3"'),
    ],
)
def test_edits(word: str, new: str, before: str, after: str) -> None:
    assert FILE.count(before) == 1
    assert edited_at(FILE, word, new) == FILE.replace(before, after)


def test_no_edit_goes_from_cell_to_cell() -> None:
    assert edited_at(FILE, "why\n\ny", "") is None
    assert edited_at(FILE, "3\n", "3") is None


@pytest.mark.parametrize(
    ("cell", "start", "end", "new", "after"),
    [
        ("%%time\nx = 1", 0, 0, "import a\n", None),
        ("%%time\nx = 1", 6, 6, "\nimport a", None),
        ("%%time\nx = 1", 7, 7, "import a\n", "%%time\nimport a\nx = 1"),
        ("%pip a\nx = 1", 0, 0, "import a\n", "import a\n%pip a\nx = 1"),
        ("%pip a\nx = 1", 0, 0, "import a;", None),
        ("%pip a\nx = 1", 6, 6, "  # embercoach: ignore", None),
        ("%pip a\nx = 1", 3, 4, "", None),
        ("x = 1\n%pip a", 0, 6, "", "%pip a"),
        ("x = 1\n%pip a", 5, 6, ";", None),
        ("%time f(x)", 6, 10, "g(x)", "%time g(x)"),
        ("%time f(x)", 10, 10, "  # why", "%time f(x)  # why"),
        ("%time f(x)", 8, 9, "\nx\n", None),
        ("y = !ls", 0, 1, "z", "z = !ls"),
        ("y = !ls", 4, 5, "z", None),
    ],
)
def test_magics_stay_whole(cell: str, start: int, end: int, new: str, after: str | None) -> None:
    text = edited(written(notebook(cell)), start, end, new)
    assert (None if text is None else sources(text)) == (None if after is None else [after])


def test_the_file_keeps_its_form() -> None:
    """Indentation, escapes, order of keys, line ends, numbers and what nobody knows stay."""
    data = notebook(code("s = 'é'\nx = 1", outputs=[{"data": 1e100}]), odd={"b": 1, "a": [1.50]})
    for text in (
        json.dumps(data),
        json.dumps(data, indent=4).replace("\n", "\r\n"),
        json.dumps(data, indent="\t", ensure_ascii=False, separators=(" ,", " : ")),
        json.dumps(data | {"cells": [code("x = 1", source="s = 'é'\nx = 1")]}, sort_keys=True),
    ):
        new = edited_at(text, "1", "'ü'")
        assert new is not None
        wanted = "ü" if "é" in text else "\\u00fc"
        assert new == text.replace("x = 1", f"x = '{wanted}'")


LINES = ("x = 1", "y = 'é\"\\'", "", "%time f(x)", "!ls", "def f():", "    pass", "%%time")
SOURCES = st.lists(st.sampled_from(LINES), max_size=4).map("\n".join)
SHAPES = st.sampled_from([None, 1, 4])


@given(
    cells=st.lists(SOURCES, min_size=1, max_size=3),
    indent=SHAPES,
    as_string=st.booleans(),
    place=st.tuples(st.integers(0, 60), st.integers(0, 12)),
    new=st.sampled_from(["", "z", "z\n", "a\nb", "\n", "'\"\\é'"]),
)
def test_an_edit_changes_one_source_and_no_more(
    cells: list[str], indent: int | None, as_string: bool, place: tuple[int, int], new: str
) -> None:
    data = notebook(*(code(cell, **({"source": cell} if as_string else {})) for cell in cells))
    text = json.dumps(data, indent=indent)
    found = parse(text)
    if found is None or place[0] > len(found.source):
        return
    start, end = place[0], min(sum(place), len(found.source))
    after = edited(text, start, end, new)
    if after is None:
        return
    part = found.part_at(start)
    low, high = start - part.start, end - part.start
    expected = part.text[:low] + new + part.text[high:]
    now: dict[str, Any] = json.loads(after)
    cell = now["cells"][part.cell.number - 1]
    reported = cell["source"] if as_string else "".join(cell["source"])
    if high > len(part.text):  # the line end behind the cell is in the module alone
        expected = expected.removesuffix("\n")
    assert reported.rstrip("\n") == expected.rstrip("\n")
    cell["source"] = data["cells"][part.cell.number - 1]["source"]
    assert now == data
    nbformat.validate(nbformat.reads(after, as_version=4))


def test_diffs_are_of_cells() -> None:
    after = edited_at(FILE, "2", "20")
    assert after is not None
    assert unified_cells(FILE, after, "a.ipynb") == (
        "--- a.ipynb:cell 3\n+++ a.ipynb:cell 3\n@@ -1,2 +1,2 @@\n-y = 2\n+y = 20\n z = 3\n"
    )
