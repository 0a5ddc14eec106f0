"""Findings and problems: made by checks and the engine, printed by reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from embercoach.terminal_text import MOST_PROPOSED, MOST_SAID, bounded

#: What is decoded must be in these bounds; `suppressions.LAST_LINE` is the largest number.
MOST = 1 << 31
Position = Annotated[int, Meta(ge=1, le=MOST)]
Offset = Annotated[int, Meta(ge=0, le=MOST)]
Said = Annotated[str, Meta(max_length=MOST_SAID)]


class Problem(Struct, frozen=True, array_like=True):
    """A place and a reason: a syntax error, an unreadable file, a crash of a check.

    Attributes:
        cell: the number of a notebook's cell, whose line is meant; without it, the file's is.
        is_unchecked: the file has no findings for this reason.
    """

    path: str
    line: Position
    column: Position
    message: Said
    cell: Position | None = None
    is_unchecked: bool = False

    @property
    def sort_key(self) -> tuple[str, int, int, int, str]:
        """Order of problems in every report."""
        return (self.path, self.cell or 0, self.line, self.column, self.message)


Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class PlacedError(Exception):
    """An error in a source, with its line and column, both from 1."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.line = line
        self.column = column
        self.message = message


class Edit(Struct, frozen=True, array_like=True):
    """Replace ``source[start:end]`` by ``text``; offsets count characters of the decoded source."""

    start: Offset
    end: Offset
    text: str


class Fix(Struct, frozen=True, array_like=True):
    """A proposed change. A ``safe`` one does not change what the program computes."""

    title: str
    safe: bool
    edits: tuple[Edit, ...]


class Step(Struct, frozen=True, array_like=True):
    """A place in the file of a finding that explains it. ``cell`` is that of :class:`Finding`."""

    line: Position
    column: Position
    end_line: Position
    end_column: Position
    message: Said
    cell: Position | None = None


class ReadPlace(Struct, frozen=True, array_like=True):
    """A place in a file that the checked one reads, as the source of a kernel.

    Attributes:
        path: absolute.
        related: other places in that file.
        suppressed: whether a comment there suppresses the finding.
    """

    path: str
    line: Position
    column: Position
    end_line: Position
    end_column: Position
    related: tuple[Step, ...] = ()
    suppressed: bool = False


class Finding(Struct, frozen=True, array_like=True):
    """A finding, from the check that makes it to the report that prints it.

    Lines and columns count from 1, columns in characters; the end is exclusive. In a notebook
    lines are those of ``cell``, and edits count in the module that the code cells make.

    Attributes:
        flow: where the value comes from, as far as it is known, the earliest place first.
        related: other places: where the context begins, a second access.
        path: the file as the user named it. The engine sets it, and the severity: a check's
            results are cached and do not depend on settings.
        cell: the number of a notebook's cell, from 1.
        within: the place that is meant, where the finding's own is that of reading the file.
    """

    code: str
    line: Position
    column: Position
    end_line: Position
    end_column: Position
    message: Said
    help: Said
    context: str = "default"
    fix: Fix | None = None
    flow: tuple[Step, ...] = ()
    related: tuple[Step, ...] = ()
    path: str = ""
    severity: Severity = "note"
    cell: Position | None = None
    within: ReadPlace | None = None

    def with_steps(self, change: Callable[[Any], Any]) -> Finding:
        """Return the finding with one change of it and of each of its steps."""
        flow, related = (tuple(map(change, steps)) for steps in (self.flow, self.related))
        changed: Finding = change(self)
        return replace(changed, flow=flow, related=related)

    def bounded(self) -> Finding:
        """The finding with bounded texts, whatever code they quote."""
        fix = self.fix
        return replace(
            self.with_steps(lambda one: replace(one, message=bounded(one.message))),
            help=bounded(self.help, MOST_PROPOSED),
            fix=fix and replace(fix, title=bounded(fix.title, MOST_PROPOSED)),
        )

    @property
    def is_fixed_safely(self) -> bool:
        """Return whether ``--fix`` alone applies the fix: a note's code is good elsewhere."""
        return self.fix is not None and self.fix.safe and self.severity != "note"

    @property
    def sort_key(self) -> tuple[str, int, int, int, str, int, int, str]:
        """Order of findings in every report."""
        place = (self.path, self.cell or 0, self.line, self.column)
        return (*place, self.code, self.end_line, self.end_column, self.message)
