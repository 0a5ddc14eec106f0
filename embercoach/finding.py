"""What a check reports and what a report prints: plain data at the bottom of the house."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

FindingTuple = tuple[Any, ...]


class PlacedError(Exception):
    """What is wrong with a source, and where: line and column count from 1."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.line = line
        self.column = column
        self.message = message


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``source[start:end]`` by ``text``; offsets count characters of the decoded source."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A proposed change. ``safe`` means that the program computes the same afterwards."""

    title: str
    safe: bool
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class RawFinding:
    """What a check found, before a profile gives it a severity.

    Lines and columns count from 1, columns in characters; the end is exclusive.
    """

    code: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    help: str
    context: str
    fix: Fix | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding as users see it: a place in a file, what, why it hurts, and the way out."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    code: str
    severity: Severity
    message: str
    help: str
    context: str
    fix: Fix | None = None

    @property
    def sort_key(self) -> tuple[str, int, int, str, int, int, str]:
        """Order of findings in every report: the same whenever the findings are."""
        place = (self.path, self.line, self.column)
        return (*place, self.code, self.end_line, self.end_column, self.message)

    def to_tuple(self) -> FindingTuple:
        """Nested plain tuples: cheap to pickle between processes and to store as JSON."""
        fix = self.fix and (
            self.fix.title,
            self.fix.safe,
            tuple((e.start, e.end, e.text) for e in self.fix.edits),
        )
        return (
            self.path,
            self.line,
            self.column,
            self.end_line,
            self.end_column,
            self.code,
            self.severity,
            self.message,
            self.help,
            self.context,
            fix,
        )

    @classmethod
    def from_tuple(cls, data: FindingTuple) -> Finding:
        """The inverse of :meth:`to_tuple`; accepts lists too, as JSON yields them."""
        *values, fix = data
        if fix is not None:
            title, safe, edits = fix
            fix = Fix(title, safe, tuple(Edit(*e) for e in edits))
        values.append(fix)
        return cls(*values)
