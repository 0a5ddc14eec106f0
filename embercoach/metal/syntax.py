"""Metal text to a C++ syntax tree, with positions in the text itself.

The grammar is C++'s. Metal's address spaces and entry qualifiers, and macros that expand to a
pragma or to qualifiers, are no C++: they are blanked out or exchanged for C++ qualifiers of the
same length before the tree is built, so every position stays true, and what stood there is kept.
A body is wrapped into a function for the grammar's sake.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

from embercoach.metal.facts import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS_SPACES = frozenset(
    {
        "device",
        "constant",
        "thread",
        "threadgroup",
        "threadgroup_imageblock",
        "object_data",
        "ray_data",
    }
)
ENTRY_QUALIFIERS = frozenset({"kernel", "vertex", "fragment"})
# Macros of Metal's and MLX's own headers that stand for qualifiers or for a pragma.
PREAMBLE_BLANKS = frozenset({"METAL_FUNC", "METAL_CONST", "MTL_CONST", "MLX_MTL_PRAGMA_UNROLL"})

_NAMES = frozenset(
    {
        "identifier",
        "type_identifier",
        "namespace_identifier",
        "field_identifier",
        "statement_identifier",
    }
)
_SIZED = frozenset({"long", "short", "unsigned", "signed"})
_MACRO_DEFINITIONS = frozenset({"preproc_def", "preproc_function_def", "preproc_ifdef"})
_PREFIX = b"void _(){\n"
_SUFFIX = b"\n}\n"
# Each round can bring qualifiers to light that error recovery had swallowed.
_ROUNDS = 4


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cpp.language()))


@dataclass(frozen=True, slots=True)
class Syntax:
    """A parsed text.

    Attributes:
        text: the text as given.
        root: of a body its ``compound_statement``, else the ``translation_unit``.
        data: the text as the grammar saw it, in bytes, before the exchange.
        shift: bytes in front of the text in ``data``.
        qualifiers: byte offset of each exchanged qualifier, to the word that stood there.
        faults: stretches where the grammar had to guess; empty means a clean parse.
    """

    text: str
    root: Node
    data: bytes
    shift: int
    qualifiers: dict[int, str]
    faults: tuple[Place, ...] = ()
    _rows: list[int] = field(default_factory=list)
    _characters: list[int] | None = None

    def words(self, node: Node) -> str:
        """The text of a node as it was written."""
        return self.data[node.start_byte : node.end_byte].decode()

    def place(self, node: Node) -> Place:
        """Where a node stands in the text."""
        return self.stretch(node.start_byte, node.end_byte)

    def stretch(self, start: int, end: int) -> Place:
        """The place of a stretch of ``data``, given in bytes."""
        first, last = self._offset(start), self._offset(end)
        row = bisect_right(self._rows, first) - 1
        return Place(first, last, row + 1, first - self._rows[row] + 1)

    def _offset(self, byte: int) -> int:
        inside = min(max(byte - self.shift, 0), len(self.data) - self.shift)
        if self._characters is None:
            return min(inside, len(self.text))
        return self._characters[min(inside, len(self._characters) - 1)]

    def qualifiers_in(self, node: Node) -> tuple[str, ...]:
        """The exchanged qualifiers among a node's own children, in order."""
        found = (self.qualifiers.get(child.start_byte) for child in node.children)
        return tuple(word for word in found if word is not None)


def parse_body(text: str, blanks: frozenset[str] = frozenset()) -> Syntax:
    """Parse the ``source`` of a kernel: statements, as they stand inside a function.

    Args:
        text: the body.
        blanks: macros of the header that stand for a pragma, qualifiers or nothing.
    """
    return _parse(text, _PREFIX, _SUFFIX, blanks)


def parse_unit(text: str, blanks: frozenset[str] = frozenset()) -> Syntax:
    """Parse text that stands at file scope: a ``header``, or a whole ``.metal`` file."""
    return _parse(text, b"", b"", blanks)


def _parse(text: str, prefix: bytes, suffix: bytes, blanks: frozenset[str]) -> Syntax:
    # Lone surrogates cannot be encoded; a question mark keeps every offset.
    encoded = text.encode(errors="replace")
    data = prefix + encoded + suffix
    root, qualifiers = _exchange(data, blanks | PREAMBLE_BLANKS)
    body = _wrapped_body(root, len(data)) if prefix else root
    syntax = Syntax(
        text=text,
        root=body or root,
        data=data,
        shift=len(prefix),
        qualifiers=qualifiers,
        _rows=[0, *(i + 1 for i, c in enumerate(text) if c == "\n")],
        _characters=None if len(encoded) == len(text) else _character_table(encoded),
    )
    faults = [syntax.place(node) for node in _faults(root)]
    if body is None:
        faults.append(syntax.stretch(len(prefix), len(data)))
    object.__setattr__(syntax, "faults", tuple(faults))
    return syntax


def _exchange(data: bytes, blanks: frozenset[str]) -> tuple[Node, dict[int, str]]:
    """Parse with Metal's own words exchanged for C++ of the same length."""
    qualifiers: dict[int, str] = {}
    edited = bytearray(data)
    for _ in range(_ROUNDS):
        root = _parser().parse(bytes(edited)).root_node
        leaves = list(_leaves(root))
        changed = False
        for index, leaf in enumerate(leaves):
            if leaf.type in _SIZED and _calls(leaves, index):
                # The grammar knows int(x) but not long(x).
                edited[leaf.start_byte : leaf.end_byte] = b"int".ljust(len(leaf.type))
                changed = True
                continue
            if leaf.type not in _NAMES:
                continue
            word = (leaf.text or b"").decode()
            stand_in = _stand_in(word, blanks)
            if stand_in is None or _is_plain_name(leaf):
                continue
            changed = True
            end = leaf.end_byte
            if word == "_Pragma":
                end = _closing(leaves, index).end_byte
            edited[leaf.start_byte : end] = stand_in.ljust(end - leaf.start_byte)
            if stand_in:
                qualifiers[leaf.start_byte] = word
        if not changed:
            break
    return root, qualifiers


def _stand_in(word: str, blanks: frozenset[str]) -> bytes | None:
    if word in ADDRESS_SPACES:
        return b"const"
    if word in ENTRY_QUALIFIERS:
        return b"inline"
    if word == "_Pragma" or word in blanks:
        return b""
    return None


def _calls(leaves: list[Node], index: int) -> bool:
    """Whether a lone type keyword stands right before a parenthesis."""
    following = leaves[index + 1].type if index + 1 < len(leaves) else ""
    return following == "(" and (index == 0 or leaves[index - 1].type not in _SIZED)


def _is_plain_name(leaf: Node) -> bool:
    """Whether the word is an attribute, or the macro that a directive defines or asks for."""
    parent = leaf.parent
    if parent is None:
        return False
    if parent.type in _MACRO_DEFINITIONS:
        return parent.child(1) == leaf
    return parent.type == "attribute"


def _closing(leaves: list[Node], index: int) -> Node:
    """The parenthesis that closes the one right behind the leaf, or the leaf itself."""
    depth = 0
    for leaf in leaves[index + 1 :]:
        if leaf.type == "(":
            depth += 1
        elif leaf.type == ")":
            depth -= 1
        if depth <= 0:
            return leaf if leaf.type == ")" else leaves[index]
    return leaves[index]


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, in the order of the text."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(current.children))


def _leaves(root: Node) -> Iterator[Node]:
    return (node for node in walk(root) if node.child_count == 0)


def _faults(root: Node) -> Iterator[Node]:
    if not root.has_error:
        return
    for node in walk(root):
        if node.is_error or node.is_missing:
            yield node


def _wrapped_body(root: Node, end: int) -> Node | None:
    """The body of the wrapping function, None where the text closes it or leaves it open."""
    functions = root.named_children
    if len(functions) != 1 or functions[0].type != "function_definition":
        return None
    body = functions[0].child_by_field_name("body")
    # The last byte of the wrapper is the line break behind its brace.
    return body if body is not None and body.end_byte == end - 1 else None


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
