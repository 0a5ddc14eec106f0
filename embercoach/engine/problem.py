"""What kept a file from being checked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """A place and a reason: a syntax error, an unreadable file, a crash of a check."""

    path: str
    line: int
    column: int
    message: str

    @property
    def sort_key(self) -> tuple[str, int, int, str]:
        """Order of problems in every report."""
        return (self.path, self.line, self.column, self.message)
