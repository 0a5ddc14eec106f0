"""Which names decide the sizes of arrays: Metal wants constant expressions there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.declarators import unpack
from embercoach.metal.facts import SizeName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tree_sitter import Node

    from embercoach.metal.facts import Declaration
    from embercoach.metal.scopes import Scopes
    from embercoach.metal.syntax import Syntax

_INTEGERS = """
int uint short ushort char uchar long ulong size_t int8_t int16_t int32_t int64_t uint8_t uint16_t
uint32_t uint64_t unsigned
"""
#: A variable of another type may convert to a constant: ``integral_constant`` does.
_PLAIN = frozenset(_INTEGERS.split()) | {"unsigned int", "unsigned short", "unsigned long"}
# Their operands are not evaluated.
_UNEVALUATED = frozenset({"sizeof_expression", "alignof_expression", "decltype"})
_MAX_STEPS = 8


@dataclass(frozen=True, slots=True)
class _Written:
    """How a variable is declared: its words (``const``), and the node of its first value."""

    words: frozenset[str]
    value: Node | None


class SizeNames:
    """The names in the sizes of the arrays of one resolved text."""

    def __init__(self, syntax: Syntax, scopes: Scopes) -> None:
        self._syntax = syntax
        self._bindings = scopes.bindings
        self._macros = scopes.macros.mentioned
        self._written: Mapping[Declaration, _Written] = dict(self._declared())

    def names(self) -> Iterator[SizeName]:
        """For each name that makes a size no constant expression, and each that may do so."""
        for node in self._syntax.of_kinds("declaration"):
            if node.has_error or not self._syntax.holds(node):
                continue
            for declarator in node.children_by_field_name("declarator"):
                inner = declarator
                if declarator.type == "init_declarator":
                    inner = declarator.child_by_field_name("declarator") or declarator
                parts = unpack(inner)
                array = self._bindings.get(parts.names[0].start_byte) if parts.names else None
                if array is None or array.kind != "local" or parts.function is not None:
                    continue
                for size in parts.dimensions:
                    for name, free in dict.fromkeys(self._reads(size, 0)):
                        yield SizeName(array, name, free, self._syntax.place(size))

    def _declared(self) -> Iterator[tuple[Declaration, _Written]]:
        for node in self._syntax.of_kinds("declaration"):
            words = frozenset(
                self._syntax.words(child)
                for child in node.children
                if child.type in ("type_qualifier", "storage_class_specifier")
                and child.start_byte not in self._syntax.qualifiers
            )
            for declarator in node.children_by_field_name("declarator"):
                inner, value = declarator, None
                if declarator.type == "init_declarator":
                    inner = declarator.child_by_field_name("declarator") or declarator
                    value = declarator.child_by_field_name("value")
                for name in unpack(inner).names:
                    found = self._bindings.get(name.start_byte)
                    if found is not None:
                        yield found, _Written(words, value)

    def _reads(self, node: Node, steps: int) -> Iterator[tuple[str, bool]]:
        """The names that an expression reads when the program runs, or may read (True)."""
        if node.type in _UNEVALUATED or steps > _MAX_STEPS:
            return
        if node.type == "identifier":
            yield from self._read(node, steps)
            return
        skipped = node.child_by_field_name("function") if node.type == "call_expression" else None
        for child in node.named_children:
            if child != skipped:
                yield from self._reads(child, steps)

    def _read(self, node: Node, steps: int) -> Iterator[tuple[str, bool]]:
        name = self._syntax.words(node)
        if name in self._macros:
            return
        declaration = self._bindings.get(node.start_byte)
        if declaration is None:
            yield name, True
            return
        if declaration.kind not in ("local", "parameter") or declaration.type not in _PLAIN:
            return
        if declaration.pointer or declaration.dimensions:
            return
        written = self._written.get(declaration)
        if declaration.kind == "parameter" or (written is not None and not written.words):
            yield name, False
        elif written is not None and written.words == {"const"} and written.value is not None:
            # A constant expression if its first value is one.
            if any(not free for _, free in self._reads(written.value, steps + 1)):
                yield name, False
            else:
                yield from self._reads(written.value, steps + 1)
