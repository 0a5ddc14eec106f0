"""Places of findings: as people read them, in the file itself, and as a forge names the file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from embercoach.files import relative_path
from embercoach.notebooks import is_notebook

if TYPE_CHECKING:
    from embercoach.finding import Finding, Fix, Problem, Step
    from embercoach.report.outcome import SourceTexts

    #: Something with a place in a file.
    Placed: TypeAlias = Finding | Problem


def in_repository(path: str, root: str | None) -> str:
    """Return a path from the repository's root, with slashes; as it is where it lies elsewhere.

    Args:
        path: as it is shown.
        root: the repository's folder; the current one by default.
    """
    relative = relative_path(path or os.curdir, root or os.curdir)
    above = relative == os.pardir or relative.startswith(f"{os.pardir}{os.sep}")
    outside = above or os.path.isabs(relative)  # noqa: PTH117  (another drive)
    return (os.path.normpath(path) if outside else relative).replace(os.sep, "/")


def quoted(path: str) -> str:
    """Return a path as a part of a URL; bytes that are not text keep their values."""
    from urllib.parse import quote

    return quote(_encoded(path.replace(os.sep, "/")))


def file_url(path: str) -> str:
    """Return the URL of a file by its absolute path; a Windows drive keeps its colon."""
    from urllib.parse import quote

    return f"file:///{quote(_encoded(path), safe='/:').lstrip('/')}"


def _encoded(path: str) -> bytes:
    try:
        return path.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # in a saved report: no file system gives such a name
        return path.encode(errors="surrogatepass")


def line_of(one: Placed) -> str:
    """File and line: ``a.py:12``, or ``a.ipynb:cell 3:12``."""
    return f"{one.path}:{_line(one)}"


def _line(one: Placed | Step) -> str:
    return str(one.line) if one.cell is None else f"cell {one.cell}:{one.line}"


def within_cell(one: Placed | Step, message: str) -> str:
    """A message for who shows the lines of the file: in a notebook it begins with the cell's."""
    return message if one.cell is None else f"cell {one.cell}, line {one.line}: {message}"


def place_of(one: Placed) -> str:
    """File, line and column: ``a.py:12:5``, or ``a.ipynb:cell 3:12:5``."""
    return f"{one.path}:{position_of(one)}"


def position_of(one: Placed | Step) -> str:
    """Line and column in the file: ``12:5``, or ``cell 3:12:5``."""
    return f"{_line(one)}:{one.column}"


def start_in_file(one: Placed, sources: SourceTexts) -> tuple[int, int]:
    """Line and column in the file itself, from 1."""
    return _in_file(one.path, one.cell, one.line, one.column, sources)


def region_in_file(
    path: str, one: Finding | Step, sources: SourceTexts
) -> tuple[int, int, int, int]:
    """Line and column in the file itself of the start and of the end, which is exclusive."""
    start = _in_file(path, one.cell, one.line, one.column, sources)
    return (*start, *_in_file(path, one.cell, one.end_line, one.end_column, sources))


def fix_in_file(fix: Fix, path: str, sources: SourceTexts) -> Fix | None:
    """Return a finding's fix as one of the file itself; None if it can't be made there any more."""
    if not is_notebook(path):
        return fix
    from embercoach.notebooks import editing

    notebook = sources.notebook(path)
    return None if notebook is None else editing.fix_in_file(fix, notebook)


def _in_file(
    path: str, cell: int | None, line: int, column: int, sources: SourceTexts
) -> tuple[int, int]:
    if cell is None:
        return line, column
    notebook = sources.notebook(path)
    if notebook is None or not notebook.holds(cell, line):
        return 1, 1  # the file was changed since
    return notebook.place_in_file(cell, line, column)
