"""Strings that are known: literals, and what is put together from them.

Kernels are written as strings, and often concatenated, formatted, dedented. Each part of a known
string remembers the literal that it stems from, so that a finding can point into the literal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from string import Formatter
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts import Argument
from embercoach.analysis.values import (
    STR,
    Bytes,
    Number,
    Piece,
    Sequence,
    Str,
    StringLiteral,
    Value,
)
from embercoach.metal import source as texts
from embercoach.metal.literals import LiteralError, read_literal
from embercoach.metal.source import FoldedText, UnfoldableError

if TYPE_CHECKING:
    from collections.abc import Callable as Fn
    from collections.abc import Iterator

    from embercoach.analysis.frame import Frame

MAX_FOLDED = 200_000
#: A string put together from more pieces is not followed.
MAX_PIECES = 4_096
#: Stands for unknown text: the prefix is the compiler's own, so it is no undeclared name.
ANYTHING = "__unknown"
#: The literals that a text is made of, by their numbers, and the kinds of its holes.
Literals = list["StringLiteral | str"]
Arguments = tuple[Argument, ...]


def of_literal(frame: Frame, node: cst.SimpleString) -> Value:
    """The value of a string literal without replacement fields."""
    source = node.value
    if "\\" in source or "\r" in source or source[0] not in "\"'":
        prefix = node.prefix
        if "b" in prefix or "B" in prefix:
            return Bytes()
        try:
            text = "".join(run.text for run in read_literal(source))
        except LiteralError:
            return STR
    else:
        # Most literals are plain text between their quotes.
        width = 3 if source[:3] in ('"""', "'''") and len(source) > 5 else 1
        text = source[width:-width]
    if len(text) >= MAX_FOLDED:
        return STR
    return Str((Piece(text, StringLiteral(node, frame.statement, frame.module)),))


def of_fragment(
    frame: Frame, node: cst.FormattedString, part: cst.FormattedStringText
) -> Piece | None:
    """The text between two replacement fields of an f-string, None if Python refuses it."""
    text = part.value
    literal = StringLiteral(part, frame.statement, frame.module, "r" in node.prefix.lower())
    if "\\" not in text and "\r" not in text:
        return Piece(text.replace("{{", "{").replace("}}", "}"), literal)
    try:
        return Piece(_read(literal, 0).text, literal)
    except LiteralError:
        return None


def of_value(value: Value) -> tuple[Piece, ...] | None:
    """What ``str(value)`` and ``{value}`` are, None if unknown."""
    if isinstance(value, Str):
        return value.pieces
    if isinstance(value, Number) and value.const is not None:
        return (Piece(str(value.const)),)
    return None


def hole(value: Value) -> tuple[Piece, ...]:
    """What stands for the text of an unknown value: a number, or a name that nothing declares."""
    if isinstance(value, Number) and value.kind in ("int", "float"):
        return (Piece("1.0" if value.kind == "float" else "1", hole="number"),)
    return (Piece(ANYTHING, hole="any"),)


def formatted(value: Value, spec: str) -> tuple[Piece, ...] | None:
    """What ``{value:spec}`` is, None if unknown."""
    if not spec:
        return of_value(value)
    plain = value.text if isinstance(value, Str) else getattr(value, "const", None)
    if plain is None or not texts.is_modest(spec):
        return None
    try:
        return (Piece(format(plain, spec)),)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class Folded:
    """A string: its text, and the literals by the numbers that the text gives them.

    Unknown parts have a number as well, of the kind of hole that they are.
    """

    text: FoldedText
    literals: tuple[StringLiteral | str, ...]

    @property
    def holes(self) -> frozenset[str]:
        """The kinds of unknown parts."""
        return frozenset(literal for literal in self.literals if isinstance(literal, str))


def fold(value: Str) -> Folded | None:
    """The text of a string with the way back to its literals, None if nothing is known of it."""
    if value.pieces is None:
        return None
    literals: Literals = []
    return Folded(_text(value, literals), tuple(literals))


def _text(value: Str, literals: Literals) -> FoldedText:
    """The text of a known string; its literals are added to those that are numbered already."""
    return texts.concat(_piece_text(piece, literals) for piece in value.pieces or ())


def _piece_text(piece: Piece, literals: Literals) -> FoldedText:
    origin = piece.hole or piece.literal
    if origin is None:
        return FoldedText.of_value(piece.text)
    number = next((i for i, known in enumerate(literals) if known == origin), None)
    if number is None:
        number = len(literals)
        literals.append(origin)
    if piece.literal is None:
        return FoldedText.of_value(piece.text, number)
    if piece.stretch is None:
        return _read(piece.literal, number)
    moved = tuple(replace(p, origin=number) for p in piece.stretch.pieces)
    return FoldedText(piece.stretch.text, moved)


def _read(literal: StringLiteral, number: int) -> FoldedText:
    node = literal.node
    if isinstance(node, cst.SimpleString):
        return FoldedText.of_literal(node.value, number)
    return FoldedText.of_fragment(node.value, number, 0, raw=literal.raw)


def _unfold(text: FoldedText, literals: Literals) -> Value:
    """A folded text as a value: a piece for each run of characters from one literal."""
    if len(text.text) >= MAX_FOLDED or len(text.pieces) > MAX_PIECES:
        return STR
    pieces: list[Piece] = []
    for origin, start, end in _runs(text):
        literal = None if origin is None else literals[origin]
        part = text.slice(start, end)
        if isinstance(literal, str):
            pieces.append(Piece(part.text, hole="number" if literal == "number" else "any"))
            continue
        stretch = FoldedText(part.text, tuple(replace(p, origin=0) for p in part.pieces))
        pieces.append(Piece(part.text, literal, None if literal is None else stretch))
    return Str(tuple(pieces))


def _runs(text: FoldedText) -> Iterator[tuple[int | None, int, int]]:
    origin: int | None = None
    start = end = 0
    for piece in text.pieces:
        if piece.origin != origin and end > start:
            yield origin, start, end
            start = end
        origin, end = piece.origin, piece.end
    if end > start:
        yield origin, start, end


def dedent(value: Value) -> Value:
    """``textwrap.dedent``."""
    if not isinstance(value, Str) or value.pieces is None:
        return STR
    literals: Literals = []
    return _unfold(_text(value, literals).dedent(), literals)


def method(owner: Str, name: str, arguments: Arguments) -> Value | None:
    """The result of a method that makes one string of another, None for other methods."""
    handler = _METHODS.get(name)
    if handler is None:
        return None
    if owner.pieces is None or any(a.star for a in arguments):
        return STR
    literals: Literals = []
    try:
        result = handler(_text(owner, literals), arguments, literals)
    except UnfoldableError:
        return STR
    return STR if result is None else _unfold(result, literals)


def _stripped(
    strip: Fn[[FoldedText, str | None], FoldedText],
) -> Fn[[FoldedText, Arguments, Literals], FoldedText | None]:
    def apply(text: FoldedText, arguments: Arguments, literals: Literals) -> FoldedText | None:
        if not arguments:
            return strip(text, None)
        characters = arguments[0].value
        if not isinstance(characters, Str) or characters.text is None:
            return None
        return strip(text, characters.text)

    return apply


def _replace(text: FoldedText, arguments: Arguments, literals: Literals) -> FoldedText | None:
    values = [a.value for a in arguments]
    if len(values) != 2:
        return None
    old, new = values
    if not isinstance(old, Str) or not isinstance(new, Str):
        return None
    if old.text is None or new.pieces is None or any(isinstance(k, str) for k in literals):
        return None
    replacement = _text(new, literals)
    if text.text.count(old.text) * len(replacement.text) > MAX_FOLDED:
        return None
    return text.replace(old.text, replacement)


def _format(text: FoldedText, arguments: Arguments, literals: Literals) -> FoldedText | None:
    places: list[texts.Value] = []
    names: dict[str, texts.Value] = {}
    for argument in arguments:
        known = _format_value(argument.value, literals)
        if argument.keyword is None:
            places.append(known)
        else:
            names[argument.keyword] = known
    if any(isinstance(k, str) for k in literals) and _has_specifications(text.text):
        return None
    return text.format(places, names)


def _format_value(value: Value, literals: Literals) -> texts.Value:
    if isinstance(value, Number) and isinstance(value.const, (bool, int, float)):
        return value.const
    known = value.pieces if isinstance(value, Str) else None
    return _text(Str(hole(value) if known is None else known), literals)


def _has_specifications(text: str) -> bool:
    """Whether a format string says how to write its values."""
    try:
        return any(spec or conversion for _, _, spec, conversion in Formatter().parse(text))
    except ValueError:
        return True


def _join(text: FoldedText, arguments: Arguments, literals: Literals) -> FoldedText | None:
    parts = arguments[0].value if len(arguments) == 1 else None
    if not isinstance(parts, Sequence) or parts.items is None or parts.kind == "set":
        return None
    known = [i for i in parts.items if isinstance(i, Str) and i.pieces is not None]
    if len(known) < len(parts.items):
        return None
    return texts.join(text, [_text(item, literals) for item in known])


_METHODS: dict[str, Fn[[FoldedText, Arguments, Literals], FoldedText | None]] = {
    "strip": _stripped(FoldedText.strip),
    "lstrip": _stripped(FoldedText.lstrip),
    "rstrip": _stripped(FoldedText.rstrip),
    "replace": _replace,
    "format": _format,
    "join": _join,
}
