"""Strings that are known: literals, and what is put together from them.

Kernels are written as strings, and often concatenated, formatted, dedented. Each part of a known
string remembers the literal that it stems from, so that a finding can point into the literal.
"""

from __future__ import annotations

from collections.abc import Callable as Fn
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst
from msgspec import Struct
from msgspec.structs import replace

from embercoach.analysis.values.lattice import (
    STR,
    Bytes,
    Dict,
    Number,
    Piece,
    ReadFile,
    Sequence,
    Str,
    StringLiteral,
    Value,
    either,
    parts_of,
)
from embercoach.metal import source as texts
from embercoach.metal.source import FoldedText, LiteralError, is_modest, read_literal

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame

MAX_FOLDED = 200_000
#: A string put together from more pieces is not followed.
MAX_PIECES = 4_096
#: Stands for unknown text: the prefix is the compiler's own, so it never is an undeclared name.
ANYTHING = "__unknown"
Values = tuple[Value, ...]


#: A literal, a file, or a kind of hole.
Origin: TypeAlias = "StringLiteral | ReadFile | str"


class Literals(list[Origin]):
    """The literals and files that a text is made of, and the kinds of its holes, by numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[Origin, int] = {}

    def number_of(self, origin: Origin) -> int:
        """Return the number of a literal or a kind of hole, a new one when it first comes up."""
        number = self._numbers.setdefault(origin, len(self))
        if number == len(self):
            self.append(origin)
        return number


def of_literal(frame: Frame, node: cst.SimpleString) -> Value:
    """Return the value of a string literal without replacement fields."""
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
    """Return the text between two replacement fields of an f-string, None if Python refuses it."""
    text = part.value
    literal = StringLiteral(part, frame.statement, frame.module, "r" in node.prefix.lower())
    if "\\" not in text and "\r" not in text:
        return Piece(text.replace("{{", "{").replace("}}", "}"), literal)
    try:
        return Piece(_read(literal, 0).text, literal)
    except LiteralError:
        return None


def of_value(value: Value) -> tuple[Piece, ...] | None:
    """Return the pieces of ``str(value)`` and ``{value}``, None if unknown."""
    if isinstance(value, Str):
        return value.pieces
    if isinstance(value, Number) and value.const is not None:
        return (Piece(str(value.const)),)
    return None


def hole(value: Value) -> tuple[Piece, ...]:
    """Return a piece for unknown text: a number, or a name without declaration."""
    if isinstance(value, Number) and value.kind in ("int", "float"):
        return (Piece("1.0" if value.kind == "float" else "1", hole="number"),)
    return (Piece(ANYTHING, hole="any"),)


def formatted(value: Value, spec: str) -> tuple[Piece, ...] | None:
    """Return the pieces of ``{value:spec}``, None if unknown."""
    if not spec:
        return of_value(value)
    plain = value.text if isinstance(value, Str) else getattr(value, "const", None)
    if plain is None or not is_modest(spec):
        return None
    try:
        return (Piece(format(plain, spec)),)
    except (ValueError, OverflowError):
        return None


class Folded(Struct, frozen=True):
    """A string: its text, and the literals by the numbers that the text gives them.

    Unknown parts have a number as well, of the kind of hole that they are.
    """

    text: FoldedText
    literals: tuple[Origin, ...]

    @property
    def holes(self) -> frozenset[str]:
        """The kinds of unknown parts."""
        return frozenset(literal for literal in self.literals if isinstance(literal, str))

    @property
    def numbers(self) -> tuple[tuple[int, int], ...]:
        """The places of the unknown numbers in the text."""
        unknown = {i for i, literal in enumerate(self.literals) if literal == "number"}
        return tuple((p.start, p.end) for p in self.text.pieces if p.origin in unknown)


def fold(value: Str) -> Folded | None:
    """The text of a string with the way back to its literals, None if nothing is known of it."""
    if value.pieces is None:
        return None
    literals = Literals()
    return Folded(text_of(value, literals), tuple(literals))


def text_of(value: Str, literals: Literals) -> FoldedText:
    """Get the text of a known string; its literals are added to those that are numbered already."""
    return texts.concat(_piece_text(piece, literals) for piece in value.pieces or ())


def _piece_text(piece: Piece, literals: Literals) -> FoldedText:
    origin = piece.hole or piece.literal
    if origin is None:
        return FoldedText.of_value(piece.text)
    number = literals.number_of(origin)
    if piece.literal is None:
        return FoldedText.of_value(piece.text, number)
    if piece.stretch is None:
        return _read(piece.literal, number)
    moved = tuple(replace(p, origin=number) for p in piece.stretch.pieces)
    return FoldedText(piece.stretch.text, moved)


def _read(literal: StringLiteral | ReadFile, number: int) -> FoldedText:
    if isinstance(literal, ReadFile):
        return FoldedText.of_file(literal.text, number)
    node = literal.node
    if isinstance(node, cst.SimpleString):
        return FoldedText.of_literal(node.value, number)
    return FoldedText.of_fragment(node.value, number, 0, raw=literal.raw)


def unfold(text: FoldedText, literals: Literals) -> Value:
    """Return a folded text as a value: a piece for each run of characters from one literal."""
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


def by_alternative(values: Values, make: Fn[[Values], Value]) -> Value:
    """Make a result of values, for each alternative of the strings among them.

    Strings that are one of several must be decided by one and the same choice: else some of their
    combinations may never occur, and they count as unknown.
    """
    chosen = [found for value in values for found in _chosen(value)]
    if not chosen:
        return make(values)
    first = chosen[0]
    if any(s.choice is not first.choice or len(s.either) != len(first.either) for s in chosen):
        return make(values)
    made = [make(tuple(_option(v, i) for v in values)) for i in range(len(first.either))]
    return either(made, first.choice)


def _chosen(value: Value, depth: int = 2) -> Iterator[Str]:
    """Yield the strings in a value that are one of several."""
    if type(value) is Str:
        if value.either:
            yield value
    elif depth and type(value) is Sequence:
        for item in value.items or ():
            yield from _chosen(item, depth - 1)
    elif depth and type(value) is Dict:
        for _, item in value.known:
            yield from _chosen(item, depth - 1)


def _option(value: Value, index: int, depth: int = 2) -> Value:
    """Return a value in which each string that is one of several is the one at an index."""
    if type(value) is Str:
        return value.either[index] if value.either else value
    if not any(True for _ in _chosen(value, depth)):
        return value
    if type(value) is Sequence and value.items is not None:
        items = tuple(_option(item, index, depth - 1) for item in value.items)
        return Sequence(value.kind, None, items, value.pulls)
    if type(value) is Dict:
        known = tuple((key, _option(item, index, depth - 1)) for key, item in value.known)
        return Dict(value.item, known, value.exact)
    return value


def has_unknown(value: Value, depth: int = 2) -> bool:
    """Return whether a value is, or holds, a string of which something is unknown."""
    if type(value) is Str:
        return value.text is None
    return depth > 0 and any(has_unknown(part, depth - 1) for part in parts_of(value))
