"""Patterns of gitignore's language whose matching takes no exponential time."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

#: What pathspec's expressions hold for ``*`` and for ``/**/``; and for ``**/`` in front.
_STAR = "[^/]*"
_FOLDERS = "(?:/.+)?"
_ABOVE = "^(?:.+/)?"
#: Wildcards of a pattern at most: a name has 255 characters.
MOST_WILDCARDS = 255


def spec_of(lines: Iterable[str]) -> GitIgnoreSpec:
    """Return the patterns of some lines.

    Raises:
        ValueError: one of them is not valid.
        re.error: so is one's expression.
    """
    return GitIgnoreSpec([BoundedPattern(line) for line in lines if line])


class BoundedPattern(GitIgnoreSpecPattern):
    """A pattern of which each wildcard takes the first fit.

    pathspec's expressions try all ways to share a name among several ``*``, which are too many for
    ``*a*a*a*a*b``. A later fit of one is never of use where another wildcard follows.
    """

    __slots__ = ()

    @classmethod
    def pattern_to_regex(cls, pattern):  # type: ignore[no-untyped-def]
        """The expression of a pattern, and whether it names files or excepts them.

        Raises:
            ValueError: it has too many wildcards.
        """
        expression, includes = super().pattern_to_regex(pattern)
        return (expression and without_backtracking(within_names(expression))), includes


def within_names(expression: str) -> str:
    """Return an expression of pathspec whose negated brackets match no ``/``, as git has it."""
    return expression.replace("[^", "[^/").replace("[^//", "[^/")


def without_backtracking(expression: str) -> str:
    """An expression of pathspec that matches the same, with one wildcard at most that may retry."""
    if expression.count(_STAR) + expression.count(_FOLDERS) > MOST_WILDCARDS:
        raise ValueError("too many wildcards")
    *chunks, last = expression.split(_FOLDERS)
    groups = _Groups()
    parts = []
    for number, chunk in enumerate(chunks):
        if number:
            parts.append(groups.first_fit(f"(?:/.+?)??{groups.stars(chunk)}(?=/)"))
        elif chunk.startswith(_ABOVE):
            named = groups.stars(chunk.removeprefix(_ABOVE))
            parts.append(f"^{groups.first_fit(f'(?:.+?/)??{named}(?=/)')}")
        else:
            parts.append(groups.stars(chunk))
    if chunks:
        parts.append(_FOLDERS)
    return "".join([*parts, groups.stars(last)])


class _Groups:
    """Parts of an expression that are matched once and never again, numbered."""

    def __init__(self) -> None:
        self._count = 0

    def first_fit(self, part: str) -> str:
        """Return a part that keeps its first match."""
        if sys.version_info >= (3, 11):
            return f"(?>{part})"
        else:  # noqa: RET505  (for mypy: Python 3.10 has no atomic groups)
            self._count += 1
            return f"(?=(?P<first{self._count}>{part}))(?P=first{self._count})"

    def stars(self, chunk: str) -> str:
        """Return a chunk whose stars keep their first fit, but for the last one of each name."""
        pieces = chunk.split(_STAR)
        built = pieces[0]
        for number, piece in enumerate(pieces[1:], start=1):
            is_last = number == len(pieces) - 1
            if is_last or "/" in piece.replace("[^/]", ""):
                built += _STAR + piece
            elif piece:
                built += self.first_fit(f"[^/]*?{piece}")
        return built
