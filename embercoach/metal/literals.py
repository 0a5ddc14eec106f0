"""Python string literals: their value, and the place of each of its characters."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIMPLE = {
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_OCTAL = "01234567"
#: What does not represent itself, in a raw literal or not, with doubled braces or not.
_SPECIAL = {
    (raw, doubled): ("\r", *(() if raw else ("\\",)), *(("{", "}") if doubled else ()))
    for raw in (False, True)
    for doubled in (False, True)
}


class LiteralError(ValueError):
    """The text is not a string literal, or is one that Python refuses."""


@dataclass(frozen=True, slots=True)
class LiteralRun:
    """A stretch of a literal's value.

    Attributes:
        text: the characters.
        at: offset in the source of the literal where they begin.
        width: characters of source that they take.
        exact: they are there one by one; otherwise all stem from the whole stretch, as a line
            break stems from a backslash and an ``n``.
    """

    text: str
    at: int
    width: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Opening:
    """The opening of a literal: its prefix in lower case, its quotes, and the length of both."""

    prefix: str
    quote: str

    @property
    def length(self) -> int:
        """Characters in front of the content."""
        return len(self.prefix) + len(self.quote)


def read_opening(source: str) -> Opening:
    """The prefix and quotes of a string literal of any kind.

    Raises:
        LiteralError: the text is not a string literal.
    """
    body = source.lstrip("rRbBuUfFtT")
    prefix = source[: len(source) - len(body)].lower()
    for quote in ('"""', "'''", '"', "'"):
        if body.startswith(quote):
            if len(body) < 2 * len(quote) or not body.endswith(quote):
                break
            return Opening(prefix, quote)
    raise LiteralError(f"no string literal: {source[:40]!r}")


def read_literal(source: str) -> tuple[LiteralRun, ...]:
    """The value of one ``str`` literal as runs, in order.

    Raises:
        LiteralError: no literal, or one of bytes, an f-string or a t-string.
    """
    opening = read_opening(source)
    if set(opening.prefix) & set("bft"):
        raise LiteralError(f"no plain string literal: {source[:40]!r}")
    content = source[opening.length : len(source) - len(opening.quote)]
    return read_content(content, opening.length, raw="r" in opening.prefix)


def read_content(
    content: str, at: int = 0, *, raw: bool = False, doubled_braces: bool = False
) -> tuple[LiteralRun, ...]:
    """The value of text between quotes, or between the replacement fields of an f-string.

    Args:
        content: the text as it is in the source.
        at: the offset of the content in the literal.
        raw: whether backslashes represent themselves.
        doubled_braces: whether ``{{`` is one brace, as in an f-string.

    Raises:
        LiteralError: an escape that Python refuses.
    """
    special = _SPECIAL[raw, doubled_braces]
    if not any(character in content for character in special):
        return (LiteralRun(content, at, len(content), exact=True),) if content else ()
    return tuple(_merged(_units(content, at, raw=raw, doubled_braces=doubled_braces)))


def _merged(units: Iterator[LiteralRun]) -> Iterator[LiteralRun]:
    """Join neighbouring exact runs, and drop what has no text."""
    pending: LiteralRun | None = None
    for unit in units:
        if pending is not None and unit.exact and pending.at + pending.width == unit.at:
            pending = LiteralRun(
                pending.text + unit.text, pending.at, pending.width + unit.width, True
            )
            continue
        if pending is not None:
            yield pending
            pending = None
        if unit.exact:
            pending = unit
        elif unit.text:
            yield unit
    if pending is not None:
        yield pending


def _units(content: str, at: int, *, raw: bool, doubled_braces: bool) -> Iterator[LiteralRun]:
    index = 0
    plain = 0

    def flush(end: int) -> Iterator[LiteralRun]:
        if end > plain:
            yield LiteralRun(content[plain:end], at + plain, end - plain, exact=True)

    while index < len(content):
        character = content[index]
        if character == "\r":
            # Python reads every kind of line break as a line feed.
            text, width = "\n", 2 if content.startswith("\r\n", index) else 1
        elif character == "\\" and not raw and (escape := _escape(content, index)):
            text, width = escape
        elif doubled_braces and character in "{}" and content[index + 1 : index + 2] == character:
            text, width = character, 2
        else:
            index += 1
            continue
        yield from flush(index)
        yield LiteralRun(text, at + index, width, exact=False)
        index += width
        plain = index
    yield from flush(index)


def _escape(content: str, index: int) -> tuple[str, int] | None:
    """The text of the escape at a backslash, and how many characters of source it takes.

    None where the backslash represents itself.
    """
    following = content[index + 1 : index + 2]
    if following in ("\n", "\r"):
        return "", 3 if content.startswith("\r\n", index + 1) else 2
    if following in _SIMPLE:
        return _SIMPLE[following], 2
    if following in _HEX_DIGITS:
        return _hexadecimal(content, index + 2, _HEX_DIGITS[following])
    if following == "N":
        return _named(content, index)
    digits = 0
    while digits < 3 and content[index + 1 + digits : index + 2 + digits] in tuple(_OCTAL):
        digits += 1
    if digits:
        return chr(int(content[index + 1 : index + 1 + digits], 8)), 1 + digits
    return None


def _hexadecimal(content: str, start: int, count: int) -> tuple[str, int]:
    digits = content[start : start + count]
    if len(digits) < count or not all(c in "0123456789abcdefABCDEF" for c in digits):
        raise LiteralError(f"truncated escape: {content[start - 2 : start + count]!r}")
    code = int(digits, 16)
    if code > 0x10FFFF:
        raise LiteralError(f"no such character: {content[start - 2 : start + count]!r}")
    return chr(code), 2 + count


def _named(content: str, index: int) -> tuple[str, int]:
    end = content.find("}", index)
    if not content.startswith("{", index + 2) or end < 0:
        raise LiteralError("malformed \\N escape")
    try:
        text = unicodedata.lookup(content[index + 3 : end])
    except KeyError:
        raise LiteralError(f"unknown character name: {content[index + 3 : end]!r}") from None
    if len(text) != 1:
        raise LiteralError(f"a sequence, not a character: {content[index + 3 : end]!r}")
    return text, end + 1 - index
