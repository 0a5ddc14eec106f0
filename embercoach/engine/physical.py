"""Physical lines of a file, and how they belong together: what suppressions go by."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment token."""

    line: int
    column: int
    text: str
    alone: bool


@dataclass(slots=True)
class PhysicalLines:
    """How physical lines belong together.

    ``logical`` and ``strings`` hold first and last lines of statements and of strings over several
    lines, ``code`` the lines with code, ``open_ended`` those that a comment may end.
    """

    comments: list[Comment] = field(default_factory=list)
    logical: list[tuple[int, int]] = field(default_factory=list)
    strings: list[tuple[int, int]] = field(default_factory=list)
    code: list[int] = field(default_factory=list)
    open_ended: set[int] = field(default_factory=set)
