"""A parsed text as plain objects, whose parts have their places in the written one."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from embercoach.metal.library import ADDRESS_SPACES
from embercoach.metal.preprocessor import Expanded
from embercoach.metal.program.declarators import attribute_parts
from embercoach.metal.program.nodes import Opaque, Spot
from embercoach.metal.syntax import line_starts, parse_body, parse_unit
from embercoach.metal.text_facts import AttributeMark, TextSpan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tree_sitter import Node

    from embercoach.metal.program.nodes import Text

#: Children from which on their roles are looked up.
_MANY = 30


class SyntaxNode(Struct, eq=False):
    """A node of the syntax tree; comments are left out.

    Attributes:
        kind: the grammar's name for it.
        role: the field of its parent that it fills, empty for none.
        start: byte offset in the parsed data.
        broken: the grammar had to guess here.
        has_error: it had to guess here or below.
    """

    kind: str
    role: str
    start: int
    end: int
    named: bool
    broken: bool = False
    has_error: bool = False
    parts: list[SyntaxNode] = field(default_factory=list)
    _by_role: dict[str, SyntaxNode] | None = None

    def get(self, role: str) -> SyntaxNode | None:
        """The child in a field."""
        if len(self.parts) > _MANY:  # each name of a long declaration asks for its type
            if self._by_role is None:
                self._by_role = {part.role: part for part in reversed(self.parts)}
            return self._by_role.get(role)
        for part in self.parts:
            if part.role == role:
                return part
        return None

    def all(self, role: str) -> Iterator[SyntaxNode]:
        """The children in a field."""
        return (part for part in self.parts if part.role == role)

    @property
    def inner(self) -> list[SyntaxNode]:
        """The children that are not punctuation."""
        return [part for part in self.parts if part.named]

    def below(self) -> Iterator[SyntaxNode]:
        """The part and everything below it, in the order of the text."""
        pending = [self]
        while pending:
            part = pending.pop()
            yield part
            pending.extend(reversed(part.parts))

    def has(self, kind: str) -> bool:
        """Return whether a child is of this kind."""
        return any(part.kind == kind for part in self.parts)


def plain_tree(root: Node) -> SyntaxNode:
    """The tree below a node."""
    cursor = root.walk()
    top = _part(root, "")
    path = [top]
    if not cursor.goto_first_child():
        return top
    while True:
        node = cursor.node
        if node is not None and node.type != "comment":
            part = _part(node, cursor.field_name or "")
            path[-1].parts.append(part)
            if cursor.goto_first_child():
                path.append(part)
                continue
        while not cursor.goto_next_sibling():
            path.pop()
            if not path or not cursor.goto_parent():
                return top


def _part(node: Node, role: str) -> SyntaxNode:
    return SyntaxNode(
        kind=node.type,
        role=role,
        start=node.start_byte,
        end=node.end_byte,
        named=node.is_named,
        broken=node.is_error or node.is_missing,
        has_error=node.has_error,
    )


class _Specifiers(Struct, frozen=True):
    """Metal's qualifiers among the children of a declaration, and whether it is constant."""

    qualifiers: tuple[str, ...]
    is_constant: bool
    is_function_constant: bool


class Parsed:
    """The tree of a text, and its way back to the text."""

    def __init__(
        self,
        text: str,
        kind: Text,
        expanded: Expanded,
        misread: Mapping[int, str] | None = None,
        blanks: frozenset[str] = frozenset(),
    ) -> None:
        self.kind = kind
        self.expanded = expanded
        self._misread = misread or {}
        self._rows = line_starts(text)
        self._syntax = (parse_body if kind == "body" else parse_unit)(self._readable(), blanks)
        self._data = self._syntax.data
        self.qualifiers = self._syntax.qualifiers
        self.is_exceeded = self._syntax.is_exceeded
        self.tree: SyntaxNode = plain_tree(self._syntax.root)
        self._by_kind: dict[str, list[SyntaxNode]] = {}
        self._known_specifiers: dict[SyntaxNode, _Specifiers] = {}

    def _readable(self) -> str:
        """The text with the characters that the grammar misread exchanged."""
        characters = list(self.expanded.text) if self._misread else [self.expanded.text]
        for offset, character in self._misread.items():
            characters[offset] = character
        return "".join(characters)

    def offset(self, part: SyntaxNode) -> int:
        """The start of a part in the text that was parsed, in characters."""
        return self._syntax.offsets(part.start, part.end)[0]

    def symbol(self, part: SyntaxNode) -> str:
        """The operator that a part is."""
        exchanged = self._misread and part.kind == ">" and self.offset(part) in self._misread
        return "<" if exchanged else part.kind

    @property
    def problems(self) -> list[Opaque]:
        """The places where the grammar had to guess."""
        faults = [
            Opaque("the parser does not understand this", self._written(place.start, place.end))
            for place in self._syntax.faults
        ]
        return faults + [
            Opaque(why, self._at(offset, offset)) for offset, why in self.expanded.problems
        ]

    def word(self, part: SyntaxNode) -> str:
        """The text of a part, which the parser may have seen shortened (``long(x)``)."""
        end = part.end
        if part.kind == "primitive_type":
            while end < len(self._data) and _continues(self._data[end]):
                end += 1
        return self._data[part.start : end].decode()

    def spot(self, start: int, end: int) -> Spot:
        """The place of a stretch of the data."""
        return self._at(*self.expanded.original(*self._syntax.offsets(start, end)))

    def of_kinds(self, *kinds: str) -> Iterator[SyntaxNode]:
        """The parts of these kinds, in the order of the text; the tree is searched once."""
        if not self._by_kind:
            for part in self.tree.below():
                self._by_kind.setdefault(part.kind, []).append(part)
        found = [part for kind in kinds for part in self._by_kind.get(kind, ())]
        if len(kinds) > 1:
            found.sort(key=attrgetter("start"))
        return iter(found)

    def around(self, part: SyntaxNode) -> Iterator[SyntaxNode]:
        """The parts around one, from the one directly above it to the whole tree."""
        above = self._places.get(part)
        while above is not None and above[0] is not None:
            yield above[0]
            above = self._places.get(above[0])

    def parent(self, part: SyntaxNode) -> SyntaxNode | None:
        """The part directly above one."""
        return next(self.around(part), None)

    def before(self, part: SyntaxNode) -> SyntaxNode | None:
        """The part in front of one, directly under the same part."""
        return self._places[part][1]

    @cached_property
    def _places(self) -> dict[SyntaxNode, tuple[SyntaxNode | None, SyntaxNode | None]]:
        """Of each part the one above it and the one in front of it: no part refers to others."""
        found: dict[SyntaxNode, tuple[SyntaxNode | None, SyntaxNode | None]] = {
            self.tree: (None, None)
        }
        for above in self.tree.below():
            for before, part in zip([None, *above.parts], above.parts, strict=False):
                found[part] = above, before
        return found

    def text_between(self, start: int, end: int) -> str:
        """The text of a stretch of the data."""
        return self._syntax.text_between(start, end)

    def holds(self, part: SyntaxNode) -> bool:
        """Return whether a part is in the text, not in what was wrapped around it."""
        return self._syntax.shift <= part.start < len(self._data) - self._syntax.tail

    def place(self, part: SyntaxNode) -> TextSpan:
        """The place of a part."""
        return self.stretch(part.start, part.end)

    def stretch(self, start: int, end: int) -> TextSpan:
        """The place of a stretch of the data."""
        return self.spot(start, end).place

    def qualifiers_in(self, part: SyntaxNode) -> tuple[str, ...]:
        """Metal's qualifiers among the children of a part."""
        return self._specifiers(part).qualifiers

    def space(self, part: SyntaxNode) -> str | None:
        """The address space among a declaration's own specifiers."""
        return next((word for word in self.qualifiers_in(part) if word in ADDRESS_SPACES), None)

    def is_constant(self, part: SyntaxNode) -> bool:
        """Return whether ``const`` or ``constexpr`` is among a declaration's own specifiers."""
        return self._specifiers(part).is_constant

    def is_function_constant(self, part: SyntaxNode) -> bool:
        """Return whether a constant is a function constant, set outside of the text."""
        return self._specifiers(part).is_function_constant

    def _specifiers(self, part: SyntaxNode) -> _Specifiers:
        """The meaning of the children of a declaration; each of its many names asks for it."""
        found = self._known_specifiers.get(part)
        if found is None:
            words = (self.qualifiers.get(child.start) for child in part.parts)
            found = self._known_specifiers[part] = _Specifiers(
                tuple(word for word in words if word is not None),
                any(
                    child.kind == "type_qualifier" and self.word(child) in ("const", "constexpr")
                    for child in part.parts
                ),
                any(
                    "function_constant" in self.word(child)
                    for child in part.parts
                    if "attribut" in child.kind
                ),
            )
        return found

    def attribute_marks(self, part: SyntaxNode) -> Iterator[AttributeMark]:
        """The attributes of one ``attribute_declaration``."""
        for child in part.inner:
            if child.kind != "attribute":
                continue
            name = child.get("name")
            arguments = next((c for c in child.parts if c.kind == "argument_list"), None)
            yield AttributeMark(
                self.word(name or child),
                None if arguments is None else self.word(arguments)[1:-1].strip(),
                self.place(part),
            )

    def declared_marks(self, part: SyntaxNode) -> list[AttributeMark]:
        """The attributes of a declaration and its declarators."""
        return [mark for found in attribute_parts(part) for mark in self.attribute_marks(found)]

    @property
    def faults(self) -> tuple[TextSpan, ...]:
        """The places where the grammar had to guess."""
        return self._syntax.faults

    def _written(self, start: int, end: int) -> Spot:
        """The place of a stretch of the expanded text in the written one."""
        return self._at(*self.expanded.original(start, end))

    def _at(self, start: int, end: int) -> Spot:
        row = bisect_right(self._rows, start) - 1
        return Spot(self.kind, TextSpan(start, end, row + 1, start - self._rows[row] + 1))


def as_written(text: str, kind: Text, blanks: frozenset[str] = frozenset()) -> Parsed:
    """A text before the preprocessor runs.

    Args:
        text: the text.
        kind: a body, or text at file scope.
        blanks: macros that represent a pragma, qualifiers or nothing.
    """
    return Parsed(text, kind, Expanded(text), blanks=blanks)


def _continues(byte: int) -> bool:
    character = chr(byte)
    return character == "_" or (character.isascii() and character.isalnum())
