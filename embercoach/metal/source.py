"""Python string literals, text put together from them, and the way back to each character."""

from __future__ import annotations

import re
import textwrap
from ast import literal_eval
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from string import Template
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from embercoach.metal.tokens import whole_number

_ESCAPE = (
    r"\\(?:\r\n|[\r\n\\'\"abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}"
    r"|N\{[^}]*\}|[0-7]{1,3}|[xuUN])"
)
#: What does not represent itself, in a raw literal or not, with doubled braces or not.
_SPECIAL = {
    (raw, doubled): re.compile(
        "|".join((r"\r\n?", *(() if raw else (_ESCAPE,)), *((r"\{\{|\}\}",) if doubled else ())))
    )
    for raw in (False, True)
    for doubled in (False, True)
}


class LiteralError(ValueError):
    """The text is not a string literal, or is one that Python refuses."""


class LiteralRun(Struct, frozen=True):
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


class Opening(Struct, frozen=True):
    """The opening of a literal: its prefix in lower case, its quotes, and the length of both."""

    prefix: str
    quote: str

    @property
    def length(self) -> int:
        """Characters in front of the content."""
        return len(self.prefix) + len(self.quote)


def read_opening(source: str) -> Opening:
    """Return the prefix and quotes of a string literal of any kind.

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
    """Return the value of one ``str`` literal as runs, in order.

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
    """Return the value of text between quotes, or between the replacement fields of an f-string.

    Args:
        content: the text as it is in the source.
        at: the offset of the content in the literal.
        raw: whether backslashes represent themselves.
        doubled_braces: whether ``{{`` is one brace, as in an f-string.

    Raises:
        LiteralError: an escape that Python refuses.
    """
    return tuple(_runs(content, at, _SPECIAL[raw, doubled_braces]))


def _runs(content: str, at: int, special: re.Pattern[str]) -> Iterator[LiteralRun]:
    plain = 0
    for match in special.finditer(content):
        start, end = match.span()
        if start > plain:
            yield LiteralRun(content[plain:start], at + plain, start - plain, exact=True)
        text = _meaning(match[0])
        if text:
            yield LiteralRun(text, at + start, end - start, exact=False)
        plain = end
    if plain < len(content):
        yield LiteralRun(content[plain:], at + plain, len(content) - plain, exact=True)


@lru_cache(maxsize=1024)
def _meaning(written: str) -> str:
    """Return the text that a line break, an escape or a doubled brace represents."""
    if written.startswith(("\r", "{", "}")):
        # Python reads every kind of line break as a line feed.
        return "\n" if written[0] == "\r" else written[0]
    if written[1] in "01234567":
        return chr(int(written[1:], 8))
    try:
        return str(literal_eval(f'"{written}"'))
    except (SyntaxError, ValueError) as error:
        raise LiteralError(f"malformed escape: {written[:40]!r}") from error


class UnfoldableError(ValueError):
    """The text cannot be computed from what is known."""


class TextPiece(Struct, frozen=True):
    """A stretch of folded text with one origin.

    Attributes:
        start: first character in the folded text.
        end: the one after the last.
        origin: the caller's number of the literal, None for text from nowhere in particular.
        at: offset in the literal's source.
        width: characters of source that the stretch takes.
        exact: the characters are in the source one by one; otherwise all of them stem from the
            whole stretch of source: an escape, or a replacement field.
    """

    start: int
    end: int
    origin: int | None
    at: int
    width: int
    exact: bool

    def moved(self, by: int) -> TextPiece:
        """Return the piece in a text where it begins elsewhere."""
        return replace(self, start=self.start + by, end=self.end + by) if by else self

    def clipped(self, start: int, end: int) -> TextPiece:
        """Return the part of the piece inside a slice, in the coordinates of the slice."""
        first, last = max(self.start, start), min(self.end, end)
        at, width = self.at, self.width
        if self.exact:
            at, width = self.at + first - self.start, last - first
        return TextPiece(first - start, last - start, self.origin, at, width, self.exact)


class FoldedText(Struct, frozen=True):
    """A text and where it comes from; the pieces cover it from start to end."""

    text: str
    pieces: tuple[TextPiece, ...] = ()

    @classmethod
    def of_literal(cls, source: str, origin: int) -> FoldedText:
        """Return the value of a ``str`` literal, given as it is in the file.

        Raises:
            LiteralError: the text is not a plain string literal.
        """
        return cls._of_runs(read_literal(source), origin)

    @classmethod
    def of_fragment(cls, content: str, origin: int, at: int, *, raw: bool = False) -> FoldedText:
        """Return the value of the text between two replacement fields of an f-string.

        Args:
            content: the text as it is in the file.
            origin: the number of the f-string.
            at: the offset of the content in the f-string's source.
            raw: whether the f-string has the prefix ``r``.

        Raises:
            LiteralError: the text holds an escape that Python refuses.
        """
        return cls._of_runs(read_content(content, at, raw=raw, doubled_braces=True), origin)

    @classmethod
    def of_file(cls, text: str, origin: int) -> FoldedText:
        """Return the text of a file."""
        return cls(text, (TextPiece(0, len(text), origin, 0, len(text), exact=True),))

    @classmethod
    def of_value(
        cls, text: str, origin: int | None = None, at: int = 0, width: int = 0
    ) -> FoldedText:
        """Computed text, such as ``str(n)``; it stems as a whole from a stretch of an origin."""
        if not text:
            return cls("")
        return cls(text, (TextPiece(0, len(text), origin, at, width, exact=False),))

    @classmethod
    def _of_runs(cls, runs: Iterable[LiteralRun], origin: int) -> FoldedText:
        pieces: list[TextPiece] = []
        length = 0
        for run in runs:
            end = length + len(run.text)
            pieces.append(TextPiece(length, end, origin, run.at, run.width, run.exact))
            length = end
        return cls("".join(run.text for run in runs), tuple(pieces))

    def position(self, offset: int) -> tuple[int, int] | None:
        """Return the literal that a character stems from, and the offset in that literal's source.

        Args:
            offset: of the character in the text; the length of the text is after the last one.

        Returns:
            None for an offset outside, and for text without an origin.
        """
        if offset == len(self.text):
            return self.end_position(offset)
        piece = self._piece(offset)
        if piece is None or piece.origin is None:
            return None
        return piece.origin, piece.at + (offset - piece.start if piece.exact else 0)

    def end_position(self, offset: int) -> tuple[int, int] | None:
        """Return the place after the character before ``offset``: where a stretch of text ends."""
        piece = self._piece(offset - 1)
        if piece is None or piece.origin is None:
            return None
        return piece.origin, piece.at + (offset - piece.start if piece.exact else piece.width)

    def _piece(self, offset: int) -> TextPiece | None:
        index = bisect_right(self.pieces, offset, key=lambda piece: piece.start) - 1
        if index < 0 or not offset < self.pieces[index].end:
            return None
        return self.pieces[index]

    def slice(self, start: int, end: int | None = None) -> FoldedText:
        """``text[start:end]`` for offsets that are not negative."""
        last = len(self.text) if end is None else min(end, len(self.text))
        if start >= last:
            return FoldedText("")
        first = max(bisect_right(self.pieces, start, key=lambda piece: piece.start) - 1, 0)
        pieces: list[TextPiece] = []
        for piece in self.pieces[first:]:
            if piece.start >= last:
                break
            if piece.end > start:
                pieces.append(piece.clipped(start, last))
        return FoldedText(self.text[start:last], tuple(pieces))

    def strip(self, characters: str | None = None) -> FoldedText:
        """``str.strip``."""
        return self.lstrip(characters).rstrip(characters)

    def lstrip(self, characters: str | None = None) -> FoldedText:
        """``str.lstrip``."""
        return self.slice(len(self.text) - len(self.text.lstrip(characters)))

    def rstrip(self, characters: str | None = None) -> FoldedText:
        """``str.rstrip``."""
        return self.slice(0, len(self.text.rstrip(characters)))

    def dedent(self) -> FoldedText:
        """``textwrap.dedent``."""
        kept: list[FoldedText] = []
        end = -1
        lines = textwrap.dedent(self.text).split("\n")
        for line, dedented in zip(self.text.split("\n"), lines, strict=True):
            end += len(line) + 1
            kept.append(self.slice(end - len(dedented), end + 1))
        return concat(kept)

    def replace(self, old: str, new: FoldedText | str, count: int = -1) -> FoldedText:
        """``str.replace``; a plain ``new`` stems from what it replaces.

        Raises:
            UnfoldableError: ``old`` is empty.
        """
        if not old:
            raise UnfoldableError("replacing the empty string")
        parts: list[FoldedText] = []
        done = 0
        while count != 0 and (found := self.text.find(old, done)) >= 0:
            parts.append(self.slice(done, found))
            done = found + len(old)
            parts.append(new if isinstance(new, FoldedText) else self.anchored(new, found, done))
            count -= 1
        parts.append(self.slice(done))
        return concat(parts)

    def anchored(self, text: str, start: int, end: int) -> FoldedText:
        """Computed text that represents a stretch of this one."""
        first, last = self.position(start), self.end_position(end)
        if first is None or last is None or first[0] != last[0]:
            return FoldedText.of_value(text, *(first or ()))
        return FoldedText.of_value(text, *first, max(last[1] - first[1], 0))


def concat(parts: Iterable[FoldedText]) -> FoldedText:
    """Return the texts one after the other."""
    pieces: list[TextPiece] = []
    texts: list[str] = []
    length = 0
    for part in parts:
        pieces += [piece.moved(length) for piece in part.pieces]
        texts.append(part.text)
        length += len(part.text)
    return FoldedText("".join(texts), tuple(pieces))


def join(separator: FoldedText, parts: Sequence[FoldedText]) -> FoldedText:
    """``separator.join(parts)``."""
    joined = [item for part in parts for item in (separator, part)]
    return concat(joined[1:])


class StandIn(Struct, frozen=True):
    """Text that represents a value that is not known; it fits any field."""

    text: FoldedText


#: A value that a format string may take.
Value = FoldedText | StandIn | str | int | float | bool


def format_text(
    text: FoldedText, arguments: Sequence[Value], keywords: Mapping[str, Value]
) -> FoldedText:
    """``text.format(*arguments, **keywords)``.

    Raises:
        UnfoldableError: a value is missing, a field looks into its value, or a format
            specification is refused.
    """
    items = list(_fields(text.text))
    names = [item.name for item in items if isinstance(item, _Field)]
    if "" in names and any(map(_is_number, names)):
        raise UnfoldableError("numbered and automatic fields in one string")
    automatic = map(str, range(len(names)))
    parts: list[FoldedText] = []
    for item in items:
        if not isinstance(item, _Field):
            parts.append(text.slice(*item))
            continue
        value = _looked_up(item.name or next(automatic), arguments, keywords)
        if isinstance(value, StandIn):
            parts.append(value.text)
        elif isinstance(value, FoldedText) and not item.conversion and not item.spec:
            parts.append(value)
        else:
            parts.append(text.anchored(_formatted(value, item), item.start, item.end))
    return concat(parts)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


_CONVERSIONS: Mapping[str, Callable[[object], str]] = {"r": repr, "a": ascii, "s": str}


class _Field(NamedTuple):
    start: int
    end: int
    name: str
    conversion: str
    spec: str


def _fields(text: str) -> Iterator[tuple[int, int] | _Field]:
    """Yield a format string as slices of literal text, doubled braces undone, and fields."""
    done = index = 0
    while index < len(text):
        character = text[index]
        if character not in "{}":
            index += 1
            continue
        if text[index + 1 : index + 2] == character:
            yield done, index + 1
            index += 2
        elif character == "}":
            raise UnfoldableError("a lone closing brace")
        else:
            yield done, index
            field = _field(text, index)
            yield field
            index = field.end
        done = index
    yield done, len(text)


def _field(text: str, start: int) -> _Field:
    end = text.find("}", start)
    inside = text[start + 1 : end]
    if end < 0 or "{" in inside:
        raise UnfoldableError("a replacement field that does not end, or holds another")
    head, _, spec = inside.partition(":")
    name, mark, conversion = head.partition("!")
    if mark and conversion not in _CONVERSIONS:
        raise UnfoldableError(f"the conversion {conversion!r}")
    if name and not (name.isidentifier() or _is_number(name)):
        raise UnfoldableError(f"the field {name!r}")
    return _Field(start, end + 1, name, conversion, spec)


def _looked_up(name: str, arguments: Sequence[Value], keywords: Mapping[str, Value]) -> Value:
    if name in keywords:
        return keywords[name]
    position = whole_number(name) if _is_number(name) else None
    if position is not None and position < len(arguments):
        return arguments[position]
    raise UnfoldableError(f"no value for the field {name!r}")


def _formatted(value: FoldedText | str | float, field: _Field) -> str:
    plain = value.text if isinstance(value, FoldedText) else value
    convert = _CONVERSIONS.get(field.conversion)
    if not is_modest(field.spec):
        raise UnfoldableError(f"the format {field.spec!r}")
    try:
        return format(plain if convert is None else convert(plain), field.spec)
    except (ValueError, OverflowError) as error:
        raise UnfoldableError(f"the format {field.spec!r}") from error


def is_modest(spec: str) -> bool:
    """Return whether no width or precision of a format asks for more text than is worth folding."""
    numbers = "".join(c if c.isdigit() else " " for c in spec).split()
    return all(len(number) < 5 for number in numbers)


#: A field: its key, and its conversion. A width that is a value is not followed.
_PERCENT = re.compile(r"%(?:\(([^)]*)\))?([-#0 +.1-9hlL]*[diouxXeEfFgGcrsa%])")


def percent(text: FoldedText, values: Sequence[Value] | Mapping[str, Value]) -> FoldedText:
    """``text % values``, for a tuple's values or for a dictionary's.

    Raises:
        UnfoldableError: there are too many values or too few, a width is itself a value, or a
            value does not fit its conversion.
    """
    places = None if isinstance(values, Mapping) else iter(values)
    parts: list[FoldedText] = []
    done = 0
    while (start := text.text.find("%", done)) >= 0:
        parts.append(text.slice(done, start))
        match = _PERCENT.match(text.text, start)
        if match is None:
            raise UnfoldableError("a field that does not end, or a width that is a value")
        key, done = match[1], match.end()
        if match[2][-1] == "%":
            parts.append(text.slice(done - 1, done))
            continue
        if places is None:
            assert isinstance(values, Mapping)
            if key is None or key not in values:
                raise UnfoldableError("no key, or one that the dictionary lacks")
            value = values[key]
        else:
            found = next(places, None)
            if found is None or key is not None:
                raise UnfoldableError("too few values, or a key where there is a tuple")
            value = found
        parts.append(_converted(text, value, f"%{match[2]}", start, done))
    if places is not None and next(places, None) is not None:
        raise UnfoldableError("too many values")
    parts.append(text.slice(done))
    return concat(parts)


def _converted(text: FoldedText, value: Value, spec: str, start: int, end: int) -> FoldedText:
    if isinstance(value, StandIn):
        return value.text
    if isinstance(value, FoldedText) and spec == "%s":
        return value
    if not is_modest(spec):
        raise UnfoldableError(f"the conversion {spec!r}")
    plain = value.text if isinstance(value, FoldedText) else value
    try:
        return text.anchored(spec % (plain,), start, end)
    except (ValueError, OverflowError, TypeError) as error:
        raise UnfoldableError(f"the conversion {spec!r}") from error


def substitute(text: FoldedText, values: Mapping[str, Value], *, safe: bool) -> FoldedText:
    """``string.Template(text).substitute(values)``, or ``safe_substitute``.

    Raises:
        UnfoldableError: a value is missing, or a ``$`` represents nothing, and not ``safe``.
    """
    parts: list[FoldedText] = []
    done = 0
    for match in Template.pattern.finditer(text.text):
        start, end = match.span()
        name = match.group("named") or match.group("braced")
        parts.append(text.slice(done, start))
        done = end
        if match.group("escaped") is not None:
            parts.append(text.slice(end - 1, end))
        elif name is not None and name in values:
            parts.append(_converted(text, values[name], "%s", start, end))
        elif safe:
            parts.append(text.slice(start, end))
        else:
            raise UnfoldableError(f"no value for {match.group()!r}")
    parts.append(text.slice(done))
    return concat(parts)
