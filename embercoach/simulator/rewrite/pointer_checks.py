"""Checks of alignment, where a pointer that came from a cast is dereferenced.

A pointer that is cast to a wider type need not have that type's alignment, and clang's own check
misses classes, which Metal's vectors are here. The cast alone is harmless: a guard may follow it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.simulator.rewrite.line_edits import LineEdit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tree_sitter import Node

    from embercoach.metal.syntax import Syntax

_CHECKED = "ember::aligned"
_CASTS = frozenset({"reinterpret_cast", "static_cast"})
_POINTERS = frozenset({"pointer_declarator", "abstract_pointer_declarator"})
#: A pointer to one of these, if it was not cast, has its alignment.
_SCALARS = frozenset(
    {"bfloat", "bfloat16_t", "bool", "char", "float", "float16_t", "half", "int", "int32_t"}
    | {"long", "short", "uchar", "uint", "uint8_t", "uint16_t", "uint32_t", "ulong", "ushort"}
    | {"void"}
)
_DECLARATIONS = frozenset({"declaration", "parameter_declaration"})
_ACCESSES = ("field_expression", "pointer_expression", "subscript_expression")


def alignment_edits(syntaxes: Sequence[Syntax]) -> Iterator[tuple[int, LineEdit]]:
    """Check each access by a pointer that may come from a cast; with the number of the text."""
    if not any(_is_cast(syntax, node) for syntax in syntaxes for node in _casts(syntax)):
        return
    for number, syntax in enumerate(syntaxes):
        names = frozenset(_cast_pointers(syntax))
        for node in syntax.of_kinds(*_ACCESSES):
            pointer = _pointer(syntax, node)
            if pointer is None or pointer.has_error or not syntax.holds(node):
                continue
            if _comes_from_cast(syntax, pointer, names):
                place = syntax.place(pointer)
                yield number, LineEdit(place.start, place.start, f"{_CHECKED}(")
                yield number, LineEdit(place.end, place.end, ")")


def _casts(syntax: Syntax) -> Iterator[Node]:
    return syntax.of_kinds("cast_expression", "call_expression")


def _is_cast(syntax: Syntax, node: Node) -> bool:
    """Return whether an expression is a cast to a pointer, in any spelling."""
    if node.type == "cast_expression":
        return _is_pointer(node.child_by_field_name("type"))
    function = node.child_by_field_name("function")
    if node.type != "call_expression" or function is None or function.type != "template_function":
        return False
    name, given = (function.child_by_field_name(field) for field in ("name", "arguments"))
    if name is None or given is None or syntax.words(name) not in _CASTS:
        return False
    return any(_is_pointer(child) for child in given.named_children)


def _is_pointer(type_descriptor: Node | None) -> bool:
    declarator = type_descriptor and type_descriptor.child_by_field_name("declarator")
    return declarator is not None and declarator.type in _POINTERS


def _cast_pointers(syntax: Syntax) -> Iterator[str]:
    """Names of pointers that a cast gave their value, or that may have got one by a call."""
    for node in syntax.of_kinds(*_DECLARATIONS):
        kind = node.child_by_field_name("type")
        is_scalar = kind is None or syntax.words(kind) in _SCALARS
        is_auto = kind is not None and kind.type == "placeholder_type_specifier"
        for declared in node.children_by_field_name("declarator"):
            declarator, cast = declared, False
            if declared.type == "init_declarator":
                value = declared.child_by_field_name("value")
                cast = value is not None and _comes_from_cast(syntax, value, ())
                declarator = declared.child_by_field_name("declarator") or declared
            is_pointer = declarator.type in _POINTERS
            if is_pointer:
                declarator = declarator.child_by_field_name("declarator") or declarator
            if declarator.type == "identifier" and (
                (is_pointer and (cast or not is_scalar)) or (is_auto and cast)
            ):
                yield syntax.words(declarator)


def _pointer(syntax: Syntax, node: Node) -> Node | None:
    """Return the pointer that an expression dereferences; None if it makes no access."""
    above = syntax.parent(node)
    if above is not None and above.type == "pointer_expression" and _operator(above) == "&":
        return None
    operator = _operator(node)
    is_access = {
        "field_expression": operator == "->",
        "pointer_expression": operator == "*",
        "subscript_expression": True,
    }
    return node.child_by_field_name("argument") if is_access[node.type] else None


def _operator(node: Node) -> str:
    operator = node.child_by_field_name("operator")
    return operator.type if operator is not None else ""


def _comes_from_cast(syntax: Syntax, pointer: Node, names: Collection[str]) -> bool:
    """Return whether an expression is a pointer that a cast made, or one that is offset."""
    pending = [pointer]
    while pending:
        node = pending.pop()
        if node.type == "identifier":
            if syntax.words(node) in names:
                return True
        elif _is_cast(syntax, node):
            return True
        elif node.type == "binary_expression" and _operator(node) in ("+", "-"):
            pending += (node.children[0], node.children[-1])
        elif node.type in ("parenthesized_expression", "update_expression"):
            pending += node.named_children
    return False
