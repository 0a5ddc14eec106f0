"""Findings, fixes and steps: plain data for checks, engine and reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class PlacedError(Exception):
    """An error at a location of a source: line and column count from 1."""

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
class Step:
    """A place that explains a finding, in the words of ``message``.

    ``path`` is empty in a :class:`RawFinding`, whose steps are all in the file of the finding.
    ``cell`` is that of :class:`Finding`.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class RawFinding:
    """A finding of a check, before a profile gives it a severity.

    Lines and columns count from 1, columns in characters; the end is exclusive. ``flow`` has
    where the value that is meant came from, the earliest place first and as far as it is known;
    ``related`` are other places that belong to it: where its context begins, a second access.
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
    flow: tuple[Step, ...] = ()
    related: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding as users see it: a place in a file, what, why it hurts, and the way out.

    ``flow`` and ``related`` are those of :class:`RawFinding`. In a notebook ``cell`` is the number
    of the cell, from 1, and lines are the cell's; offsets of edits are those of the module that
    the notebook's code cells make.
    """

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
    flow: tuple[Step, ...] = ()
    related: tuple[Step, ...] = ()
    cell: int | None = None

    @property
    def sort_key(self) -> tuple[str, int, int, int, str, int, int, str]:
        """Order of findings in every report: the same whenever the findings are."""
        place = (self.path, self.cell or 0, self.line, self.column)
        return (*place, self.code, self.end_line, self.end_column, self.message)
