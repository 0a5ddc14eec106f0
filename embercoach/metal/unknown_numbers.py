"""Numbers of a kernel's text that are formatted in at run time, as constants of unknown value.

Such a text holds a literal where the number will stand. To follow the text all the same, each of
these literals is replaced by a name of the same length, so that all positions stay true. The names
are letters of the Yi script: C++ takes them for identifiers, and no kernel has them.

Two literals may represent one number, or numbers that depend on each other. Only texts in which
that does no harm are taken: those with one such number, and those in which each has its own name,
as in ``constexpr int N = {n};`` and ``#define N {n}``, since the code then goes by these names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from embercoach.metal.tokens import Token, tokens_of

if TYPE_CHECKING:
    #: Where a number is in a text.
    Stretch = tuple[int, int]

_FIRST, _COUNT = 0xA000, 0x400
_NAMES = re.compile(f"([{chr(_FIRST)}-{chr(_FIRST + _COUNT - 1)}])\\1*")
# Next to these the literal may be part of another token when the number is there.
_GLUE = frozenset({"-", "+", "#", "##"})


def is_unknown_number(name: str) -> bool:
    """Return whether a name represents a number that is formatted in."""
    return _FIRST <= ord(name[:1] or " ") < _FIRST + _COUNT


def is_unknown_integer(name: str) -> bool:
    """Return whether it represents an integer: the literal was ``1``, not ``1.0``."""
    return len(name) == 1 and is_unknown_number(name)


def readable_names(message: str) -> str:
    """Return a message in which such names are fields as Python writes them, ``{...}``."""
    return _NAMES.sub("{...}", message)


def with_names(texts: Sequence[tuple[str, Sequence[Stretch]]]) -> tuple[str, ...] | None:
    """Return texts with names for the numbers that are formatted in.

    Args:
        texts: each with where its numbers stand.

    Returns:
        None where a number may be part of another token, or where several hang together.
    """
    marked = [_Marked(text, frozenset(stretches)) for text, stretches in texts]
    if not all(one.is_clean for one in marked):
        return None
    count = sum(len(one.numbers) for one in marked)
    if count > _COUNT or (count > 1 and not all(one.are_defined for one in marked)):
        return None
    made: list[str] = []
    used = 0
    for one in marked:
        made.append(one.named(used))
        used += len(one.numbers)
    return tuple(made)


class _Marked:
    """A text and where its unknown numbers stand, those in comments and strings left out."""

    def __init__(self, text: str, stretches: frozenset[Stretch]) -> None:
        self._text = text
        self._tokens = [t for t in tokens_of(text) if t.kind != "space"]
        exact = {(t.start, t.end): i for i, t in enumerate(self._tokens) if t.kind == "number"}
        self.numbers = [exact[stretch] for stretch in sorted(stretches) if stretch in exact]
        apart = (t for t in tokens_of(text) if t.kind in ("space", "string"))
        left = stretches - exact.keys()
        quiet = [range(t.start, t.end) for t in apart] if left else []
        self._is_split = not all(any(start in r for r in quiet) for start, _ in left)

    @property
    def is_clean(self) -> bool:
        """Return whether each number is a separate token."""
        return not self._is_split and not any(map(self._is_glued, self.numbers))

    @property
    def are_defined(self) -> bool:
        """Return whether each number is the value of a name."""
        return all(self._is_variable(i) or self._is_macro(i) for i in self.numbers)

    def named(self, first: int) -> str:
        """Return the text with names, counted from a number on."""
        text = self._text
        for index, at in enumerate(self.numbers, first):
            token = self._tokens[at]
            name = chr(_FIRST + index) * len(token.text)
            text = text[: token.start] + name + text[token.end :]
        return text

    def _at(self, index: int) -> Token | None:
        return self._tokens[index] if 0 <= index < len(self._tokens) else None

    def _is(self, index: int, *texts: str) -> bool:
        token = self._at(index)
        return token is not None and token.text in texts

    def _is_name(self, index: int) -> bool:
        token = self._at(index)
        return token is not None and token.kind == "name"

    def _is_glued(self, index: int) -> bool:
        number, before = self._tokens[index], self._at(index - 1)
        # ``-{n}`` may become ``--1``; ``<{n}>`` reads as a template only while it is a literal.
        touches = before is not None and before.end == number.start and before.text in _GLUE
        return touches or self._is(index + 1, ">")

    def _is_variable(self, index: int) -> bool:
        """Return whether it is the first value of a variable: ``uint N = {n};``."""
        written = self._is(index - 1, "=") and self._is(index + 1, ";", ",")
        return written and self._is_name(index - 2) and self._is_name(index - 3)

    def _is_macro(self, index: int) -> bool:
        """Return whether it is a macro, perhaps in parentheses: ``#define N {n}``."""
        start, end = index - 1, index + 1
        if self._is(start, "(") and self._is(end, ")") and self._tokens[start].spaced:
            start, end = start - 1, end + 1
        after = self._at(end)
        ends = after is None or after.kind == "newline"
        directive = self._is(start - 1, "define") and self._is(start - 2, "#")
        return ends and self._is_name(start) and directive
