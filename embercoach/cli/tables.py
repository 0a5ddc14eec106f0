"""Tables of the commands that run programs, and the quantities in them."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, TextIO

from embercoach.report.styled import STYLES, wants_color, width_of
from embercoach.terminal_text import without_commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

_MOST_OF_LINE = 40
#: Characters of a place up to which a table does not fold it.
_WIDTH_OF_PLACE = 30


def new_table() -> Table:
    """Return a table in the style of the reports."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style=STYLES["head"])


def add_place(table: Table, places: Sequence[str]) -> None:
    """Add a column of files and lines, which folds only those that are long."""
    widest = max(map(len, places), default=0)
    table.add_column("place", overflow="fold", min_width=min(widest, _WIDTH_OF_PLACE))


def print_table(table: Table, stream: TextIO) -> None:
    """Write a table and an empty line, with escapes for a terminal alone."""
    from rich.console import Console

    color = wants_color(stream)
    drawn = StringIO()
    console = Console(
        file=drawn, width=width_of(stream), force_terminal=color, no_color=not color, markup=False
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
