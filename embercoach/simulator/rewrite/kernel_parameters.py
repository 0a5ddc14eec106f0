"""Parameters that Metal refuses: pointers and references that do not say where they lead."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from embercoach.metal.syntax import Syntax

_SCALAR_WORDS = """
    void bool char uchar short ushort int uint long ulong half bfloat float size_t
    int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t bfloat16_t float16_t
"""
_SCALARS = frozenset(_SCALAR_WORDS.split())
# Names that hide no address space, as an alias or a template's parameter may.
_PLAIN = _SCALARS | {
    f"{name}{n}" for name, n in product(_SCALARS, "234") if not name.endswith("_t")
}
_KINDS = {"pointer_declarator": "pointer", "reference_declarator": "reference"}


@dataclass(frozen=True, slots=True)
class BareParameter:
    """A parameter that must not be compiled.

    Attributes:
        start: its first character in the parsed text.
        problem: why Metal refuses it.
    """

    start: int
    problem: str


def bare_parameters(syntax: Syntax) -> Iterator[BareParameter]:
    """Pointers and references without an address space, of functions that are surely compiled."""
    for node in syntax.nodes:
        declarator = node.child_by_field_name("declarator")
        if (
            node.type == "parameter_declaration"
            and declarator is not None
            and declarator.type in _KINDS
            and declarator.named_children[-1].type == "identifier"
            and syntax.holds(node)
            and _is_of_function(node)
            and _is_bare(syntax, node, declarator)
        ):
            kind = _KINDS[declarator.type]
            yield BareParameter(
                syntax.place(node).start,
                f"{kind} without an address space: write device, constant, threadgroup or "
                f"thread before {syntax.words(node)!r}",
            )


def _is_of_function(node: Node) -> bool:
    """Return whether it is a parameter of a function with a body, outside of ``#if``."""
    function = node.parent.parent if node.parent is not None else None
    if function is None or function.type != "function_declarator":
        return False
    # After pointers and references that it returns.
    owner = function.parent
    while owner is not None and owner.type in _KINDS:
        owner = owner.parent
    if owner is None or owner.type != "function_definition" or owner.has_error:
        return False
    around: Node | None = owner
    while around is not None:
        if around.is_error or around.type.startswith("preproc_"):
            return False
        around = around.parent
    return True


def _is_bare(syntax: Syntax, node: Node, declarator: Node) -> bool:
    """Return whether there is only a known type and its qualifiers."""
    before = node.prev_sibling
    start = node.start_byte if before is None else before.end_byte
    words = syntax.data[start : declarator.start_byte].decode().split()
    kinds = [word for word in words if word not in ("const", "volatile")]
    behind = syntax.qualifiers_in(declarator)
    return len(kinds) == 1 and kinds[0] in _PLAIN and not behind
