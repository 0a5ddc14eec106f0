"""The tokens that the preprocessor works on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """The tokens of a text; together they are the text.

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


def solid(tokens: list[Token]) -> list[Token]:
    """The tokens that are not white space."""
    return [token for token in tokens if token.kind not in ("space", "newline")]


def line_comment(token: Token) -> int | None:
    """The start of a ``//`` comment in a token of white space, None without one."""
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
