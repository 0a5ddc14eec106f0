"""A parsed text as plain objects, whose parts have their places in the written one.

A body is wrapped into a function for the grammar's sake.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from embercoach.metal.library import ADDRESS_SPACES
from embercoach.metal.preprocessor import Expanded
from embercoach.metal.program.nodes import Opaque, Spot, Text
from embercoach.metal.syntax import exchange_words, tree_of
from embercoach.metal.text_facts import AttributeMark, TextSpan

if TYPE_CHECKING:
    from tree_sitter import Node

_NAMES = frozenset({"identifier", "field_identifier", "type_identifier"})
_POINTERS = frozenset(
    {"pointer_declarator", "pointer_type_declarator", "abstract_pointer_declarator"}
)
_REFERENCES = frozenset({"reference_declarator", "abstract_reference_declarator"})
_ARRAYS = frozenset({"array_declarator", "abstract_array_declarator"})
FUNCTIONS = frozenset({"function_declarator", "abstract_function_declarator"})
_WRAPPERS = frozenset(
    {
        "parenthesized_declarator",
        "abstract_parenthesized_declarator",
        "attributed_declarator",
        "variadic_declarator",
    }
)
_CASTS = frozenset({"reinterpret_cast", "static_cast"})
_UNNAMED = frozenset({"type_qualifier", "attribute_declaration"})


class Declarator(Struct):
    """A declarator.

    Attributes:
        end: the byte after it, where its name becomes visible.
        name: None for an abstract one, and for a name that is not plain (``A::b``).
        bindings: the names of a structured binding.
        dimensions: sizes of an array, outermost first; None for ``[]``.
        function: the part that declares a function, None where none is declared.
        nested: a pointer to an array or to a pointer.
        star: the innermost star, None without one.
        rest: parts on the way that use other names.
    """

    end: int = 0
    name: SyntaxNode | None = None
    bindings: list[SyntaxNode] = field(default_factory=list)
    pointers: int = 0
    reference: bool = False
    dimensions: list[SyntaxNode | None] = field(default_factory=list)
    function: SyntaxNode | None = None
    nested: bool = False
    star: SyntaxNode | None = None
    rest: list[SyntaxNode] = field(default_factory=list)

    @property
    def names(self) -> list[SyntaxNode]:
        """The declared names: one, none, or those of a structured binding."""
        return self.bindings if self.name is None else [self.name]

    @property
    def is_address(self) -> bool:
        """Return whether ``*`` or ``&`` is written."""
        return self.pointers > 0 or self.reference


def unpack(part: SyntaxNode | None) -> Declarator:
    """Take a declarator apart, outside in."""
    found = Declarator(0 if part is None else part.end)
    current = part
    while current is not None:
        kind = current.kind
        if kind in _NAMES:
            found.name = current
            return found
        if kind == "structured_binding_declarator":
            found.bindings = [child for child in current.inner if child.kind in _NAMES]
            return found
        if kind in _ARRAYS:
            found.dimensions.insert(0, current.get("size"))
        elif kind in _POINTERS:
            found.pointers += 1
            found.nested = found.nested or bool(found.dimensions)
            found.star = current
        elif kind in _REFERENCES:
            found.reference = True
        elif kind in FUNCTIONS:
            # The innermost one names the function: int (*f(int))(float).
            found.function = current
        elif kind == "template_function":
            found.name = current.get("name")
            found.rest += current.all("arguments")
            return found
        elif kind not in _WRAPPERS:
            found.rest.append(current)
            return found
        current = current.get("declarator") or _inner(current, kind)
    return found


def unpack_initialized(
    part: SyntaxNode, value: SyntaxNode | None = None
) -> tuple[Declarator, SyntaxNode | None]:
    """Return a declarator with its initial value: of ``a = 1`` that of ``a``, and ``1``."""
    if part.kind == "init_declarator":
        return unpack(part.get("declarator") or part), part.get("value")
    return unpack(part), value


def cast_target(parsed: Parsed, part: SyntaxNode) -> SyntaxNode | None:
    """Return the type that a part casts to: ``(T)x``, ``static_cast<T>(x)``; None without one."""
    if part.kind == "cast_expression":
        return part.get("type")
    if part.kind == "call_expression":
        part = part.get("function") or part
    name, arguments = part.get("name"), part.get("arguments")
    if part.kind != "template_function" or name is None or arguments is None:
        return None
    if parsed.word(name) not in _CASTS:
        return None
    return next(iter(arguments.inner), None)


def attribute_parts(part: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield the ``attribute_declaration`` parts of a declaration and its declarators."""
    pending = [part]
    while pending:
        for child in pending.pop().parts:
            if child.kind == "attribute_declaration":
                yield child
            elif child.kind.endswith("_declarator"):
                pending.append(child)


def _inner(part: SyntaxNode, kind: str) -> SyntaxNode | None:
    """Return the declarator inside one whose field the grammar does not name."""
    if kind in FUNCTIONS or kind in _ARRAYS:
        return None
    inner = [child for child in part.inner if child.kind not in _UNNAMED]
    return (inner[0] if kind == "attributed_declarator" else inner[-1]) if inner else None


_PREFIX, _SUFFIX = b"void _(){\n", b"\n}\n"
_LINE_BREAK = re.compile("\n")
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
        """Return the child in a field."""
        if len(self.parts) > _MANY:  # each name of a long declaration asks for its type
            if self._by_role is None:
                self._by_role = {part.role: part for part in reversed(self.parts)}
            return self._by_role.get(role)
        for part in self.parts:
            if part.role == role:
                return part
        return None

    def all(self, role: str) -> Iterator[SyntaxNode]:
        """Return the children in a field."""
        return (part for part in self.parts if part.role == role)

    @property
    def inner(self) -> list[SyntaxNode]:
        """The children that are not punctuation."""
        return [part for part in self.parts if part.named]

    def below(self) -> Iterator[SyntaxNode]:
        """Yield the part and everything below it, in the order of the text."""
        pending = [self]
        while pending:
            part = pending.pop()
            yield part
            pending.extend(reversed(part.parts))

    def has(self, kind: str) -> bool:
        """Return whether a child is of this kind."""
        return any(part.kind == kind for part in self.parts)


def plain_tree(root: Node) -> tuple[SyntaxNode, list[SyntaxNode]]:
    """Return the tree below a node, and its comments."""
    cursor = root.walk()
    top, comments = _part(root, ""), list[SyntaxNode]()
    path = [top]
    if not cursor.goto_first_child():
        return top, comments
    while True:
        node = cursor.node
        if node is not None:
            part = _part(node, cursor.field_name or "")
            (comments if part.kind == "comment" else path[-1].parts).append(part)
            if cursor.goto_first_child():
                path.append(part)
                continue
        while not cursor.goto_next_sibling():
            path.pop()
            if not path or not cursor.goto_parent():
                return top, comments


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
    """The tree of a text, and its way back to the text.

    Attributes:
        kind: a body, a header or a file.
        expanded: the text that was parsed.
        data: the same, in bytes, with what was wrapped around it.
        qualifiers: byte offset of each exchanged qualifier, to the word that it replaces.
        is_exceeded: the parse took more than it may: the tree is that of an empty text.
        top: the whole tree, with what was wrapped around the text.
        tree: of a body its ``compound_statement``, else the ``translation_unit``.
        comments: those of the whole tree, which has none itself.
    """

    def __init__(
        self,
        text: str,
        kind: Text,
        expanded: Expanded,
        misread: Mapping[int, str] | None = None,
        blanks: frozenset[str] = frozenset(),
        edited: bytes | None = None,
    ) -> None:
        """Parse a text.

        Args:
            text: the text as it was written.
            kind: a body, a header or a file.
            expanded: the text after preprocessing.
            misread: characters that the grammar gets instead of those at some offsets.
            blanks: macros that represent a pragma, qualifiers or nothing.
            edited: what the grammar gets, of the same length, where that is not Metal.
        """
        self.kind = kind
        self.expanded = expanded
        self._misread = misread or {}
        self._rows = [0, *(match.end() for match in _LINE_BREAK.finditer(text))]
        readable = self._readable()
        # Lone surrogates cannot be encoded; a question mark keeps every offset.
        encoded = readable.encode(errors="replace")
        self._characters = None if len(encoded) == len(readable) else _character_table(encoded)
        self.data = _PREFIX + encoded + _SUFFIX if kind == "body" else encoded
        self._shift, tail = (len(_PREFIX), len(_SUFFIX)) if kind == "body" else (0, 0)
        self._end = len(self.data) - tail
        self.qualifiers: Mapping[int, str] = {}
        if edited is None:
            edited, self.qualifiers = exchange_words(self.data, blanks)
        parsed = tree_of(edited, tail)
        self.is_exceeded = parsed.is_exceeded
        self.top, self.comments = plain_tree(parsed.root)
        body = self._wrapped_body() if kind == "body" else self.top
        self.tree: SyntaxNode = body or self.top
        self._unread = (0, len(self.data)) if body is None else parsed.unread
        self._by_kind: dict[str, list[SyntaxNode]] = {}
        self._known_specifiers: dict[SyntaxNode, _Specifiers] = {}

    def _readable(self) -> str:
        """Return the text with the characters that the grammar misread exchanged."""
        characters = list(self.expanded.text) if self._misread else [self.expanded.text]
        for offset, character in self._misread.items():
            characters[offset] = character
        return "".join(characters)

    def _wrapped_body(self) -> SyntaxNode | None:
        """The body of the wrapping function, None where the text closes it or leaves it open."""
        functions = self.top.inner
        if len(functions) != 1 or functions[0].kind != "function_definition":
            return None
        body = functions[0].get("body")
        # The last byte of the wrapper is the line break after its brace.
        return body if body is not None and body.end == len(self.data) - 1 else None

    def offset(self, part: SyntaxNode) -> int:
        """Return the start of a part in the text that was parsed, in characters."""
        return self.offsets(part.start, part.end)[0]

    def offsets(self, start: int, end: int) -> tuple[int, int]:
        """Return a stretch of the data in characters of the text that was parsed."""
        table = self._characters
        most = self._end - self._shift if table is None else len(table) - 1
        first = min(max(start - self._shift, 0), most)
        last = min(max(end - self._shift, 0), most)
        return (first, last) if table is None else (table[first], table[last])

    def symbol(self, part: SyntaxNode) -> str:
        """Return the operator that a part is."""
        exchanged = self._misread and part.kind == ">" and self.offset(part) in self._misread
        return "<" if exchanged else part.kind

    @property
    def problems(self) -> list[Opaque]:
        """The places where the grammar had to guess."""
        faults = [
            Opaque("the parser does not understand this", self.spot(start, end))
            for start, end in self._faults
        ]
        return faults + [
            Opaque(why, self._at(offset, offset)) for offset, why in self.expanded.problems
        ]

    def word(self, part: SyntaxNode) -> str:
        """Return the text of a part, which the parser may have seen shortened (``long(x)``)."""
        end = part.end
        if part.kind == "primitive_type":
            while end < len(self.data) and _continues(self.data[end]):
                end += 1
        return self.data[part.start : end].decode()

    def spot(self, start: int, end: int) -> Spot:
        """Return the place of a stretch of the data."""
        return self.written(*self.offsets(start, end))

    def written(self, start: int, end: int) -> Spot:
        """Return the place of a stretch of the text that was parsed."""
        return self._at(*self.expanded.original(start, end))

    def of_kinds(self, *kinds: str) -> Iterator[SyntaxNode]:
        """Return the parts of these kinds, in the order of the text; the tree is searched once."""
        if not self._by_kind:
            for part in self.tree.below():
                self._by_kind.setdefault(part.kind, []).append(part)
        found = [part for kind in kinds for part in self._by_kind.get(kind, ())]
        if len(kinds) > 1:
            found.sort(key=attrgetter("start"))
        return iter(found)

    def around(self, part: SyntaxNode) -> Iterator[SyntaxNode]:
        """Yield the parts around one, from the one directly above it to the whole tree."""
        above = self._places.get(part)
        while above is not None and above[0] is not None:
            yield above[0]
            above = self._places.get(above[0])

    def parent(self, part: SyntaxNode) -> SyntaxNode | None:
        """Return the part directly above one."""
        return next(self.around(part), None)

    def spanning(self, start: int, end: int) -> SyntaxNode:
        """Return the innermost part around a stretch of the data."""
        found: SyntaxNode | None = self.top
        part = self.top
        while found is not None:
            part = found
            found = next((p for p in part.parts if p.start <= start and end <= p.end), None)
        return part

    def before(self, part: SyntaxNode) -> SyntaxNode | None:
        """Return the part in front of one, directly under the same part."""
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
        """Return the text of a stretch of the data."""
        return self.data[start:end].decode()

    def holds(self, part: SyntaxNode) -> bool:
        """Return whether a part is in the text, not in what was wrapped around it."""
        return self._shift <= part.start < self._end

    def place(self, part: SyntaxNode) -> TextSpan:
        """Return the place of a part."""
        return self.stretch(part.start, part.end)

    def stretch(self, start: int, end: int) -> TextSpan:
        """Return the place of a stretch of the data."""
        return self.spot(start, end).place

    def qualifiers_in(self, part: SyntaxNode) -> tuple[str, ...]:
        """Metal's qualifiers among the children of a part."""
        return self._specifiers(part).qualifiers

    def space(self, part: SyntaxNode) -> str | None:
        """Return the address space among a declaration's own specifiers."""
        return next((word for word in self.qualifiers_in(part) if word in ADDRESS_SPACES), None)

    def is_constant(self, part: SyntaxNode) -> bool:
        """Return whether ``const`` or ``constexpr`` is among a declaration's own specifiers."""
        return self._specifiers(part).is_constant

    def is_function_constant(self, part: SyntaxNode) -> bool:
        """Return whether a constant is a function constant, set outside of the text."""
        return self._specifiers(part).is_function_constant

    def _specifiers(self, part: SyntaxNode) -> _Specifiers:
        """Get the meaning of the children of a declaration; each of its many names asks for it."""
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
        """Yield the attributes of one ``attribute_declaration``."""
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
        """Return the attributes of a declaration and its declarators."""
        return [mark for found in attribute_parts(part) for mark in self.attribute_marks(found)]

    @property
    def faults(self) -> tuple[TextSpan, ...]:
        """The places where the grammar had to guess; none means a clean parse."""
        return tuple(self.stretch(start, end) for start, end in self._faults)

    @cached_property
    def _faults(self) -> list[tuple[int, int]]:
        """The stretches of the data where the grammar had to guess, and what it did not get."""
        parts = self.top.below() if self.top.has_error else ()
        found = [(part.start, part.end) for part in parts if part.broken]
        return found if self._unread is None else [*found, self._unread]

    def _at(self, start: int, end: int) -> Spot:
        row = bisect_right(self._rows, start) - 1
        return Spot(self.kind, TextSpan(start, end, row + 1, start - self._rows[row] + 1))


def as_written(text: str, kind: Text, blanks: frozenset[str] = frozenset()) -> Parsed:
    """Return a text before the preprocessor runs.

    Args:
        text: the text.
        kind: a body, or text at file scope.
        blanks: macros that represent a pragma, qualifiers or nothing.
    """
    return Parsed(text, kind, Expanded(text), blanks=blanks)


def _continues(byte: int) -> bool:
    character = chr(byte)
    return character == "_" or (character.isascii() and character.isalnum())


def _character_table(encoded: bytes) -> list[int]:
    """Byte offset to character offset, with an entry for the end."""
    table: list[int] = []
    character = -1
    for byte in encoded:
        if byte & 0xC0 != 0x80:
            character += 1
        table.append(character)
    table.append(character + 1)
    return table
