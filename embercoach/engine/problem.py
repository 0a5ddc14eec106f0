"""Problems: files that could not be checked, and why."""

from __future__ import annotations

from msgspec import Struct


class Problem(Struct, frozen=True):
    """A place and a reason: a syntax error, an unreadable file, a crash of a check.

    Attributes:
        cell: the number of a notebook's cell, whose line is meant; without it, the file's is.
        is_unchecked: the file has no findings for this reason.
    """

    path: str
    line: int
    column: int
    message: str
    cell: int | None = None
    is_unchecked: bool = False

    @property
    def sort_key(self) -> tuple[str, int, int, int, str]:
        """Order of problems in every report."""
        return (self.path, self.cell or 0, self.line, self.column, self.message)
