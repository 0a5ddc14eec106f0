"""The macros that a text defines, and how far they blur what its names mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from embercoach.metal.facts import Macro
from embercoach.metal.syntax import ADDRESS_SPACES, ENTRY_QUALIFIERS, parse_unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from embercoach.metal.syntax import Syntax

_NAMES = frozenset({"identifier", "type_identifier", "namespace_identifier", "field_identifier"})
# What a macro may consist of and still vanish without a trace for the grammar.
_EMPTY_WORDS = (
    ADDRESS_SPACES | ENTRY_QUALIFIERS | {"METAL_FUNC", "inline", "static", "constexpr", "const"}
)


@dataclass(frozen=True)
class Macros:
    """The macros of a text, those around it included."""

    items: tuple[Macro, ...] = ()

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the macros."""
        return frozenset(macro.name for macro in self.items)

    @cached_property
    def functions(self) -> frozenset[str]:
        """The names of the function-like ones."""
        return frozenset(macro.name for macro in self.items if macro.parameters is not None)

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """Every name in a macro or naming one: where it is expanded, it may be declared."""
        return self.names.union(*(macro.names for macro in self.items))

    @property
    def paste(self) -> bool:
        """Whether a macro builds names with ``##``: then any name may be declared."""
        return any("##" in macro.text for macro in self.items)

    @property
    def blanks(self) -> frozenset[str]:
        """Object-like macros that stand for a pragma, for qualifiers, or for nothing."""
        return frozenset(m.name for m in self.items if m.parameters is None and _vanishes(m.text))

    def joined(self, other: Macros) -> Macros:
        """These macros and those of a text around this one."""
        return Macros(other.items + self.items)


def _vanishes(text: str) -> bool:
    return text.startswith(("_Pragma", "__attribute__")) or _EMPTY_WORDS.issuperset(text.split())


def read_macros(syntax: Syntax) -> Macros:
    """The macros that a text defines, whatever conditional they stand in."""
    return Macros(tuple(_definitions(syntax)))


def _definitions(syntax: Syntax) -> Iterator[Macro]:
    for node in syntax.of_kinds("preproc_def", "preproc_function_def"):
        name = node.child_by_field_name("name")
        if name is None:
            continue
        value = node.child_by_field_name("value")
        text = "" if value is None else syntax.words(value).strip()
        parameters = node.child_by_field_name("parameters")
        yield Macro(
            name=syntax.words(name),
            parameters=None if parameters is None else _parameters(syntax, parameters),
            text=text,
            names=_names_in(text),
            place=syntax.place(name),
        )


def _parameters(syntax: Syntax, node: Node) -> tuple[str, ...]:
    return tuple(
        syntax.words(child) for child in node.children if child.type in ("identifier", "...")
    )


def _names_in(text: str) -> frozenset[str]:
    """The identifiers in a macro's text, which need not be complete in itself."""
    if not text:
        return frozenset()
    inside = parse_unit(text.replace("\\\n", " \n"))
    return frozenset(inside.words(node) for node in inside.nodes if node.type in _NAMES)
