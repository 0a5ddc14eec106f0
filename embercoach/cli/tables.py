"""Tables of the commands that run programs, and the quantities in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from embercoach.report.styled import STYLES, wants_color, width_of
from embercoach.terminal_text import without_commands

if TYPE_CHECKING:
    from rich.table import Table

_MOST_OF_LINE = 40
#: Characters of a place or an event up to which a table does not fold it.
_UNFOLDED = 30
#: Characters between two columns, and of a table that goes to a file or another program.
_PADDING, _UNLIMITED = 3, 1000


def new_table() -> Table:
    """Return a table in the style of the reports."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style=STYLES["head"])


def add_folding(table: Table, name: str, texts: Sequence[str]) -> None:
    """Add a column, such as of places, which folds only texts that are long."""
    table.add_column(name, overflow="fold", min_width=folding_width(name, texts) - _PADDING)


def folding_width(name: str, texts: Sequence[str]) -> int:
    """Return the characters that a folding column takes at least, and those after it."""
    return min(max(map(len, [name, *texts])), _UNFOLDED) + _PADDING


def fitting(columns: Mapping[str, Sequence[str]], width: int) -> list[str]:
    """Choose the columns that hold something and that fit next to those before them."""
    kept = []
    for name, texts in columns.items():
        needed = max(map(len, [name, *texts])) + _PADDING
        if any(texts) and needed <= width:
            kept.append(name)
            width -= needed
    return kept


def table_width(stream: TextIO) -> int:
    """Return the columns of a terminal; what isn't one takes lines of any length."""
    return width_of(stream) if stream.isatty() else _UNLIMITED


def print_table(table: Table, stream: TextIO) -> None:
    """Write a table and an empty line, with escapes for a terminal alone."""
    from rich.console import Console

    color = wants_color(stream)
    drawn = StringIO()
    console = Console(
        file=drawn,
        width=table_width(stream),
        force_terminal=color,
        no_color=not color,
        markup=False,
    )
    console.print(table)
    lines = (line.rstrip() for line in drawn.getvalue().splitlines())
    # Folding a name may put text at the start of a line, where it becomes a command.
    stream.writelines(f"{without_commands(line)}\n" for line in lines if line)
    stream.write("\n")


def shortened(text: str) -> str:
    """Get the first characters of a source line, so that numbers next to it keep their columns."""
    return text if len(text) <= _MOST_OF_LINE else f"{text[: _MOST_OF_LINE - 3]}..."


def duration(seconds: float) -> str:
    """Three digits, in seconds or a part of them."""
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
