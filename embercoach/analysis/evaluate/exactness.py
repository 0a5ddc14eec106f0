"""Decisions where values are known: truth, comparisons, items of iterables.

Kernels are put together by functions that are called with constants. Run for the constants of one
call, such a function shows the very text that it makes.
"""

from __future__ import annotations

import operator as op
from collections.abc import Callable as Fn
from typing import TYPE_CHECKING, Any

import libcst as cst

from embercoach.analysis.calls.kernel_objects import holds_kernel
from embercoach.analysis.evaluate.assignment import assign
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.values.lattice import (
    BOOL,
    NONE,
    Callable,
    Dict,
    DType,
    Function,
    Kernel,
    Number,
    Piece,
    Sequence,
    Str,
    Value,
    Wrapped,
    join_all,
)

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame

#: Longer loops and lists are not followed item by item.
MAX_ITEMS = 64
#: Rounds of loops that one run of a function may take one by one.
MAX_ROUNDS = 256
_NEVER_NONE = (Number, Str, Sequence, Dict, DType, Function, Kernel, Wrapped, Callable)
_ORDERS: dict[str, Fn[[Any, Any], bool]] = {
    "<": op.lt,
    "<=": op.le,
    ">": op.gt,
    ">=": op.ge,
}


def truth(value: Value) -> bool | None:
    """Return whether a value is true, None if that is not known."""
    if type(value) is Number:
        return None if value.const is None else bool(value.const)
    if value is NONE:
        return False
    if type(value) is Str:
        return None if value.text is None else bool(value.text)
    if type(value) is Sequence and value.kind in ("list", "tuple") and value.items is not None:
        return bool(value.items)
    if type(value) is Dict and value.exact:
        return bool(value.known)
    return True if type(value) in (Function, Kernel) else None


def negated(value: Value) -> Value:
    """``not value``."""
    known = truth(value)
    return BOOL if known is None else Number("bool", not known)


def compared(symbol: str, left: Value, right: Value, value: Value) -> Value:
    """Return the value of a comparison, which says how it comes out if that is known."""
    known = compare(symbol, left, right)
    return value if known is None else Number("bool", known)


def compare(symbol: str, left: Value, right: Value) -> bool | None:
    """Return how a comparison comes out, None if that is not known."""
    if symbol in ("is", "is not", "==", "!="):
        same = _is_same(left, right, symbol)
        return None if same is None else same == (symbol in ("is", "=="))
    if symbol in ("in", "not in"):
        inside = _is_in(left, right)
        return None if inside is None else inside == (symbol == "in")
    order = _ORDERS.get(symbol)
    if order is None or type(left) is not Number or type(right) is not Number:
        return None
    if left.const is None or right.const is None:
        return None
    try:
        return order(left.const, right.const)
    except TypeError:
        return None


def _is_same(left: Value, right: Value, symbol: str) -> bool | None:
    if left is NONE or right is NONE:
        other = right if left is NONE else left
        if other is NONE:
            return True
        return False if type(other) in _NEVER_NONE else None
    if symbol in ("is", "is not") and not (_is_flag(left) and _is_flag(right)):
        return None
    one, two = _constant(left), _constant(right)
    return None if one is None or two is None else one == two


def _is_flag(value: Value) -> bool:
    return type(value) is Number and value.kind == "bool"


#: By the type of a value: the attribute by which it compares equal.
_CONSTANTS: dict[type, str] = {Number: "const", Str: "text", DType: "name"}


def _constant(value: Value) -> tuple[type, object] | None:
    """Return the key by which a value compares equal."""
    kind = type(value)
    held = getattr(value, _CONSTANTS[kind]) if kind in _CONSTANTS else None
    return None if held is None else (kind, held)


def _is_in(left: Value, right: Value) -> bool | None:
    if type(right) is Str:
        if type(left) is not Str or left.text is None or right.text is None:
            return None
        return left.text in right.text
    if type(right) is Dict:
        if type(left) is not Str or left.text is None or not right.exact:
            return None
        return right.get(left.text) is not None
    one = _constant(left)
    if one is None or type(right) is not Sequence or right.items is None:
        return None
    others = [_constant(item) for item in right.items]
    if one in others:
        return True
    return None if None in others else False


def known_items(value: Value) -> tuple[Value, ...] | None:
    """Return the items that iterating over a value yields, None if they are not known."""
    if type(value) is Dict and value.exact and len(value.known) <= MAX_ITEMS:
        return tuple(Str((Piece(key),)) for key, _ in value.known)
    if type(value) is not Sequence or value.kind == "set" or value.items is None:
        return None
    return value.items if len(value.items) <= MAX_ITEMS else None


def numbers(arguments: tuple[Value, ...]) -> tuple[Value, ...] | None:
    """Return the numbers of a ``range(...)``, None if they are not known or are many."""
    bounds = [v.const if type(v) is Number else None for v in arguments]
    known = [b for b in bounds if type(b) is int]
    if len(known) < len(bounds) or not 0 < len(known) < 4 or known[2:] == [0]:
        return None
    found = range(*known)
    return tuple(Number("int", n) for n in found) if len(found) <= MAX_ITEMS else None


def comprehended(frame: Frame, node: Any, item: Value) -> tuple[Value, ...] | None:
    """Return the items of a comprehension over what is known, None if they are not known.

    Only one of strings or kernels is followed, or one in a function that is run for its constants.
    """
    if type(node) is cst.SetComp:
        return None
    rounds = _rounds(frame, node, (node.elt,), item)
    return None if rounds is None else tuple(element for (element,) in rounds)


def comprehended_dict(frame: Frame, node: cst.DictComp, item: Value) -> Dict | None:
    """Return the dictionary of a comprehension, as ``comprehended``."""
    rounds = _rounds(frame, node, (node.key, node.value), item)
    if rounds is None:
        return None
    known: dict[str, Value] = {}
    for key, value in rounds:
        if type(key) is not Str or key.text is None:
            return Dict(join_all(value for _, value in rounds))
        known[key.text] = value
    return Dict(join_all(known.values()), tuple(known.items()), exact=True)


#: What a round of a comprehension makes: its element, or a key and a value.
_Round = tuple[Value, ...]


def _rounds(
    frame: Frame, node: cst.BaseComp, elements: tuple[cst.BaseExpression, ...], item: Value
) -> list[_Round] | None:
    builds = holds_kernel(item)
    if not (frame.exact or type(item) is Str or builds):
        return None
    names, record = frame.names.version(), frame.record
    # Separate calls build the kernels of each round.
    frame.record = record and builds
    found: list[_Round] = []
    try:
        return found if _gather(frame, node.for_in, elements, found) else None
    finally:
        frame.names.restore(names)
        frame.record = record


def _gather(
    frame: Frame,
    clause: cst.CompFor | None,
    elements: tuple[cst.BaseExpression, ...],
    found: list[_Round],
) -> bool:
    """Add what the rounds of a comprehension make; whether it is known."""
    if clause is None:
        found.append(tuple(evaluate(frame, element) for element in elements))
        return len(found) <= MAX_ITEMS
    items = known_items(evaluate(frame, clause.iter))
    if items is None:
        return False
    for item in items:
        assign(frame, clause.target, item)
        verdicts = [truth(evaluate(frame, condition.test)) for condition in clause.ifs]
        if None in verdicts:
            return False
        if all(verdicts) and not _gather(frame, clause.inner_for_in, elements, found):
            return False
    return True
