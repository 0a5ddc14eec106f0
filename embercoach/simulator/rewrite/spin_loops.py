"""Marks of loops that end when an atomic has another value: locks, flags and turns.

Loops whose exchange computes its new value from the old one make progress by themselves and have no
mark, and neither have loops that count their steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.simulator.rewrite.line_edits import LineEdit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from embercoach.metal.syntax import Syntax

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
