"""The tokens of a text, and its numbers: as they are written, and C++'s operators on them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple

TokenKind = Literal["space", "newline", "name", "number", "string", "mark"]

_TOKEN = re.compile(
    r"""
    (?P<space>(?:[ \t\f\v\r]|\\\r?\n|//(?:\\\r?\n|[^\n])*|/\*(?:.*?\*/|.*))+)
    |(?P<newline>\n)
    |(?P<string>R"([^()\\\s]{0,16})\((?:.*?\)\4"|.*)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)
    |(?P<name>[^\W\d]\w*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)
    |(?P<mark>\#\#|\.\.\.|<<=|>>=|->|::|\+\+|--|&&|\|\||<<|>>|[-+*/%&|^<>=!]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A token, with the stretch of the text that it represents.

    Attributes:
        kind: comments are space.
        start: of the token itself, or of the use of the macro that it came from.
        copied: the text has it as it is.
        spaced: white space precedes it.
        hidden: macros that it came from: they do not expand again.
    """

    kind: TokenKind
    text: str
    start: int
    end: int
    copied: bool = True
    spaced: bool = False
    hidden: frozenset[str] = frozenset()


def tokens_of(text: str, at: int = 0) -> Iterator[Token]:
    """Yield the tokens of a text; together they are the text.

    Args:
        text: any text.
        at: where it starts in a larger one.
    """
    spaced = False
    for match in _TOKEN.finditer(text):
        kind: TokenKind = match.lastgroup  # type: ignore[assignment]
        start, end = match.span()
        yield Token(kind, match[0], at + start, at + end, True, spaced)
        spaced = kind in ("space", "newline")


@lru_cache(maxsize=4)  # the names of macros are read before the preprocessor runs
def tokens(text: str) -> tuple[Token, ...]:
    """Return all tokens of a text."""
    return tuple(tokens_of(text))


def line_comment(token: Token) -> int | None:
    """Return the start of a ``//`` comment in a token of white space, None without one."""
    if token.kind != "space":
        return None
    at = 0
    while at < len(token.text):
        if token.text.startswith("//", at):
            return token.start + at
        if token.text.startswith("/*", at):
            end = token.text.find("*/", at + 2)
            at = len(token.text) if end < 0 else end + 2
        else:
            at += 1
    return None


#: No type of Metal's holds a number of as many digits; Python refuses to read some thousands.
MAX_DIGITS = 512


def whole_number(digits: str, base: int = 10) -> int | None:
    """Return the number that digits write, None for other text and for one that nothing holds.

    Args:
        digits: without separators and suffixes.
        base: as ``int`` takes it; 0 to read it from the prefix.
    """
    if len(digits) > MAX_DIGITS:
        return None
    try:
        return int(digits, base)
    except ValueError:
        return None


ARITHMETIC: Mapping[str, Callable[[float, float], float]] = MappingProxyType(
    {"+": operator.add, "-": operator.sub, "*": operator.mul}
)
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "==": operator.eq,
        "!=": operator.ne,
    }
)
BITWISE: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {"&": operator.and_, "|": operator.or_, "^": operator.xor}
)


_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "?": "?",
}


def escaped(words: str) -> str | None:
    """Get the text of an escape of C; empty for a line end after a backslash, None for others."""
    inside = words[1:]
    if inside in ("\n", "\r\n"):
        return ""
    if inside in _ESCAPES:
        return _ESCAPES[inside]
    digits, base = (inside[1:], 16) if inside[:1] in "xuU" else (inside, 8)
    code = whole_number(digits, base)
    try:
        return None if code is None else chr(code)
    except (ValueError, OverflowError):
        return None
