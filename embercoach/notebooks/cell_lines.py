"""Lines of the module that a notebook's cells make, as lines of the cells."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CellTable:
    """The code cells in order: the number of each, and its first line in the module.

    Cells are counted as Jupyter's users count them: from 1, those of text among them.
    """

    numbers: tuple[int, ...]
    first_lines: tuple[int, ...]

    def place(self, line: int) -> tuple[int, int]:
        """The cell's number and the line in it, from 1, of a line of the module."""
        at = self._at(line)
        return self.numbers[at], line - self.first_lines[at] + 1

    def end(self, line: int, end_line: int, end_column: int) -> tuple[int, int]:
        """Where what starts in a line of the module ends in that line's cell: with it at last."""
        at = self._at(line)
        if self._at(end_line) == at:
            return end_line - self.first_lines[at] + 1, end_column
        return self.first_lines[at + 1] - self.first_lines[at] + 1, 1

    def lines(self, line: int) -> tuple[int, int | None]:
        """First and last line in the module of the cell of a line; the last cell is open."""
        at = self._at(line)
        last = self.first_lines[at + 1] - 1 if at + 1 < len(self.first_lines) else None
        return self.first_lines[at], last

    def line_of(self, cell: int, line: int) -> int:
        """The line of the module that a cell's line is; the inverse of :meth:`place`.

        Raises:
            ValueError: there is no such code cell.
        """
        return self.first_lines[self.numbers.index(cell)] + line - 1

    def _at(self, line: int) -> int:
        return max(bisect_right(self.first_lines, line) - 1, 0)
