"""The shapes of a program's arrays, as ``shapes`` and ``explain`` print them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from embercoach.analysis.shapes.arrays import ArrayShape
    from embercoach.analysis.shapes.size_integers import Integer
    from embercoach.engine.name_shapes import NameShape
    from embercoach.fixes.source_file import LineIndex
    from embercoach.report.styled import Line

TAB = 4
#: Characters of a program's line, of a shape and of the shapes of a line that are shown at most.
MOST_OF_LINE, MOST_OF_SHAPE, MOST_OF_SHAPES = 240, 120, 400
#: Characters of the line that makes an array.
MOST_OF_MAKER = 80
#: Comments are in one column: after the longest line that is no longer than this.
LAST_COLUMN = 80


def program_lines(
    shapes: Sequence[NameShape], index: LineIndex, numbers: Iterable[int]
) -> Iterator[Line]:
    """Yield lines of a program, each with its arrays in a comment; the comments are aligned."""
    from rich.cells import cell_len

    comments = {
        line: quoted(", ".join(map(_labelled, group)), MOST_OF_SHAPES)
        for line, group in groupby(shapes, key=lambda one: one.line)
    }
    shown = [(number, _shown(index.line(number))) for number in numbers]
    widths = {number: cell_len(text) for number, text in shown if number in comments}
    column = max((width for width in widths.values() if width <= LAST_COLUMN), default=0)
    for number, text in shown:
        line: Line = [(text, "")]
        if number in comments:
            line += [
                (" " * max(column - widths[number], 0), ""),
                (f"  # {comments[number]}", "faint"),
            ]
        yield line


def maker_lines(shapes: Iterable[NameShape], index: LineIndex) -> Iterator[Line]:
    """Yield each array with the line of the call or operation that makes it."""
    for one in shapes:
        line: Line = [(_labelled(one), "code")]
        if one.array.made_at:
            source = quoted(index.line(one.array.made_at).strip(), MOST_OF_MAKER)
            line += [(f", made at line {one.array.made_at}: ", ""), (f"`{source}`", "faint")]
        yield line


def document(one: NameShape) -> dict[str, Any]:
    """Return an array in the form of ``shapes.schema.json``."""
    dtype = one.array.dtype
    return {
        "line": one.line,
        "column": one.column,
        "end_column": one.end_column,
        "name": one.name,
        "shape": _sizes(one.array.shape),
        "dtype": dtype if isinstance(dtype, str) else None,
        "text": one.array.text,
        "made_at": one.array.made_at or None,
    }


def _sizes(shape: ArrayShape) -> list[int | str | None]:
    """Return the sizes of a shape: names and formulas as text, None for unknown ones."""
    found = [*map(_size, shape.head)]
    if shape.middle is not None:
        found += ["...", *map(_size, shape.tail)]
    return found


def _size(size: Integer) -> int | str | None:
    from embercoach.analysis.shapes.size_integers import ANY_INT

    if size is ANY_INT:
        return None
    return size if isinstance(size, int) else str(size)


def _labelled(one: NameShape) -> str:
    return f"{quoted(one.name)}: {quoted(one.array.text, MOST_OF_SHAPE)}"


def _shown(line: str) -> str:
    """Return a line of the program, with spaces for tabs, and cut where it is long."""
    return quoted(line[: MOST_OF_LINE + 1].expandtabs(TAB), MOST_OF_LINE)
