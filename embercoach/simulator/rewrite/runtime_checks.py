"""Checks that the translation adds: alignment of pointers from casts, and loops that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.program.types import SCALARS
from embercoach.simulator.rewrite.line_edits import LineEdit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tree_sitter import Node

    from embercoach.metal.syntax import Syntax

_CHECKED = "ember::aligned"
_CASTS = frozenset({"reinterpret_cast", "static_cast"})
_POINTERS = frozenset({"pointer_declarator", "abstract_pointer_declarator"})
#: A pointer to one of these, if it was not cast, has its alignment.
_SCALARS = SCALARS.keys() | {"void"}
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


#: What the unit's first header declares; its scope ends with the loop, however that is left.
_MARK = "EMBER_SPIN"
_LOOPS = ("while_statement", "do_statement", "for_statement")
_COMPARES = frozenset(
    {"atomic_compare_exchange_weak_explicit", "atomic_compare_exchange_strong_explicit"}
)
_LEAVES = frozenset({"break_statement", "return_statement"})
_ASSIGNMENT = "assignment_expression"
#: A pragma must stay in front of its loop.
_FIXED = frozenset({"preproc_call", "attributed_statement"})


def spin_edits(syntax: Syntax) -> Iterator[LineEdit]:
    """Give each loop that waits for an atomic a scope with a mark."""
    if "atomic_" not in syntax.text:
        return
    for node in syntax.of_kinds(*_LOOPS):
        before = node.prev_named_sibling
        is_fixed = before is not None and before.type in _FIXED
        if not node.has_error and not is_fixed and syntax.holds(node) and _waits(syntax, node):
            place = syntax.place(node)
            yield LineEdit(place.start, place.start, f"{{ {_MARK} ")
            yield LineEdit(place.end, place.end, " }")


def _waits(syntax: Syntax, loop: Node) -> bool:
    """Return whether an atomic decides when a loop ends."""
    condition, body = (loop.child_by_field_name(name) for name in ("condition", "body"))
    changed = frozenset(_assigned(syntax, loop))
    if condition is not None and _asks(syntax, condition, changed):
        return True
    if loop.type == "for_statement" and condition is not None:
        return False
    read = frozenset(_set_by_atomics(syntax, loop, changed))
    asked = frozenset() if condition is None else frozenset(_names(syntax, condition))
    if not read.isdisjoint(asked):
        return True
    for choice in _inside(body):
        given = choice.child_by_field_name("condition") if choice.type == "if_statement" else None
        if given is None:
            continue
        is_read = _asks(syntax, given, changed) or not read.isdisjoint(_names(syntax, given))
        if is_read and _leaves(syntax, choice, asked):
            return True
    return False


def _leaves(syntax: Syntax, choice: Node, asked: frozenset[str]) -> bool:
    """Return whether an `if` leaves the loop, or sets a variable of the loop's condition."""
    return any(node.type in _LEAVES for node in _inside(choice)) or not asked.isdisjoint(
        _assigned(syntax, choice)
    )


def _asks(syntax: Syntax, node: Node, changed: frozenset[str]) -> bool:
    """Return whether an expression has the value of an atomic that another thread must change."""
    return any(_is_awaited(syntax, call, changed) for call in _inside(node))


def _is_awaited(syntax: Syntax, call: Node, changed: frozenset[str]) -> bool:
    function = call.child_by_field_name("function") if call.type == "call_expression" else None
    if function is None:
        return False
    name = syntax.words(function).rpartition("::")[2]
    if not name.startswith("atomic_"):
        return False
    if name not in _COMPARES:
        return True
    arguments = call.child_by_field_name("arguments")
    parts = () if arguments is None else arguments.named_children
    given = [part for part in parts if part.type != "comment"]
    if len(given) < 3:
        return False
    new = set(_names(syntax, given[2]))
    return new.isdisjoint(changed) and new.isdisjoint(_names(syntax, given[1]))


def _set_by_atomics(syntax: Syntax, loop: Node, changed: frozenset[str]) -> Iterator[str]:
    """Variables that get the value of an atomic in a loop."""
    for node in _inside(loop):
        value = node.child_by_field_name("right" if node.type == _ASSIGNMENT else "value")
        if value is not None and _asks(syntax, value, changed):
            yield from _assigned(syntax, node)


def _assigned(syntax: Syntax, node: Node) -> Iterator[str]:
    """Variables that a statement and those inside of it assign or declare with a value."""
    for each in _inside(node):
        target = None
        if each.type == _ASSIGNMENT:
            target = each.child_by_field_name("left")
        elif each.type == "init_declarator":
            target = each.child_by_field_name("declarator")
        elif each.type == "update_expression":
            target = each.child_by_field_name("argument")
        if target is not None:
            yield from _names(syntax, target)


def _names(syntax: Syntax, node: Node) -> Iterator[str]:
    return (syntax.words(each) for each in _inside(node) if each.type == "identifier")


def _inside(node: Node | None) -> Iterator[Node]:
    pending = [] if node is None else [node]
    while pending:
        each = pending.pop()
        yield each
        pending += reversed(each.named_children)
