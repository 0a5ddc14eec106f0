"""Facts of names, places and sizes that follow from a condition, true or false."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from embercoach.analysis.shapes.arrays import (
    ANY_BOOL,
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    ShapedArray,
)
from embercoach.analysis.shapes.attributes import classes_of
from embercoach.analysis.shapes.operations import negated, truth_of
from embercoach.analysis.shapes.python_values import (
    Attributes,
    LibraryName,
    ObjectReference,
    Options,
    Place,
    Truth,
    one_of,
)
from embercoach.analysis.shapes.size_integers import SizeExpr
from embercoach.analysis.shapes.table_calls import array_of_place

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import Machine
    from embercoach.analysis.shapes.path_states import Frame, Heap


def assume(machine: Machine, frame: Frame, test: ast.expr, holds: bool, truth: Any) -> bool:
    """Go on where a condition holds, or doesn't; False if it can't be so.

    Args:
        machine: the interpreter.
        frame: the frame at hand.
        test: the condition, which was evaluated here.
        holds: whether it is to be true.
        truth: what is known of it: what ``truth_of`` gives.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return assume(machine, frame, test.operand, not holds, negated(truth))
    if isinstance(test, ast.BoolOp):
        return _assume_parts(machine, frame, test, holds)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        _narrow_none(machine, frame, test, holds)
    elif isinstance(test, ast.Call):
        _narrow_type(machine, frame, test, holds)
    elif isinstance(test, (ast.Name, ast.Attribute)):
        _narrow_true(machine, frame, test, holds)
    if type(truth) is bool:
        return truth is holds
    return learn_truth(machine, truth, holds) if type(truth) is Truth else True


def _assume_parts(machine: Machine, frame: Frame, test: ast.BoolOp, holds: bool) -> bool:
    """``a and b`` that holds, ``a or b`` that doesn't: so does each part."""
    is_and = type(test.op) is ast.And
    if is_and is not holds:
        return True
    for part in test.values:
        truth: Any = ANY_BOOL
        if not any(isinstance(one, (ast.Call, ast.NamedExpr)) for one in ast.walk(part)):
            truth = truth_of(machine, machine.peek(frame, part))
        if not assume(machine, frame, part, holds, truth):
            return False
    return True


def learn_truth(machine: Machine, value: Truth, holds: bool) -> bool:
    """Learn that a condition holds, or doesn't; False if it can't be so."""
    heap = machine.heap
    is_true = holds != value.is_negated
    key = Truth(value.operator, value.left, value.right)
    heap.facts.truths[key] = is_true
    if is_true and value.operator == "==":
        if type(value.left) is SizeExpr:
            return heap.learn_equal(value.left, value.right)
        if type(value.left) is tuple and type(value.right) is tuple:
            return _learn_equal_shapes(heap, value.left, value.right)
        for place, other in ((value.left, value.right), (value.right, value.left)):
            if type(place) is Place and type(other) in (str, int, float, bool, type(None)):
                heap.facts.places[place] = other
    if is_true and value.operator == "is" and type(value.left) is Place:
        heap.facts.places[value.left] = None
    return True


def _learn_equal_shapes(heap: Heap, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Learn that two shapes, or parts of them, are equal; False if they can't be."""
    a, b = list(heap.value(left)), list(heap.value(right))
    for at in (0, -1):
        while a and b and type(a[at]) is not AxesSymbol and type(b[at]) is not AxesSymbol:
            if not heap.learn_equal(a.pop(at), b.pop(at)):
                return False
    for axes, sizes in ((a, b), (b, a)):
        if len(axes) == 1 and type(axes[0]) is AxesSymbol:
            if not any(type(size) is AxesSymbol for size in sizes):
                heap.bind_axes(axes[0], ArrayShape(tuple(sizes)))
            return True
    return bool(a) == bool(b)


def _place_of(machine: Machine, frame: Frame, node: ast.expr) -> tuple[str, Any, Any] | None:
    """Return where a name or an attribute keeps its value: (kind, holder, name)."""
    if type(node) is ast.Name:
        found = frame.find(node.id)
        return None if found is None else ("name", found, node.id)
    if type(node) is ast.Attribute:
        owner = machine.heap.value(machine.peek(frame, node.value))
        if type(owner) is ObjectReference:
            return ("attribute", owner, node.attr)
    return None


def _read(machine: Machine, place: tuple[str, Any, Any]) -> Any:
    kind, holder, name = place
    if kind == "name":
        return holder.names[name]
    held = machine.heap.read(holder.number)
    return held.values.get(name, UNKNOWN) if type(held) is Attributes else UNKNOWN


def _write(machine: Machine, frame: Frame, place: tuple[str, Any, Any], value: Any) -> None:
    kind, holder, name = place
    if kind == "name":
        if holder is frame:
            holder.names[name] = value
        elif frame.function is not None:
            frame.names[name] = value  # for this path only
        return
    held = machine.heap.read(holder.number)
    if type(held) is Attributes and name in held.values:
        values = {**held.values, name: value}
        machine.heap.write(holder.number, replace(held, values=values), narrows=True)


def _keep(machine: Machine, frame: Frame, place: tuple[str, Any, Any], options: list[Any]) -> None:
    """Keep those of several values that a condition leaves."""
    if options:
        _write(machine, frame, place, one_of(options))


def _narrow_none(machine: Machine, frame: Frame, test: ast.Compare, holds: bool) -> None:
    """``x is None``, ``x is not None``."""
    (operator,), (right,) = test.ops, test.comparators
    if not (type(right) is ast.Constant and right.value is None):
        return
    is_none = (type(operator) in (ast.Is, ast.Eq)) is holds
    place = _place_of(machine, frame, test.left)
    if place is None:
        return
    value = machine.heap.value(_read(machine, place))
    if type(value) is Options:
        _keep(machine, frame, place, [v for v in value.values if (v is None) is is_none])
    elif value is UNKNOWN and is_none:
        _write(machine, frame, place, None)


def _narrow_true(machine: Machine, frame: Frame, test: ast.expr, holds: bool) -> None:
    """``if x:``."""
    place = _place_of(machine, frame, test)
    value = UNKNOWN if place is None else machine.heap.value(_read(machine, place))
    if place is not None and value is ANY_BOOL:
        _write(machine, frame, place, holds)
    if place is not None and type(value) is Options and holds:
        left = [v for v in value.values if v is not None and v is not False and v != 0]
        _keep(machine, frame, place, left)


def _narrow_type(machine: Machine, frame: Frame, test: ast.Call, holds: bool) -> None:
    """``isinstance(x, mx.array)``, ``isinstance(x, str)``."""
    if not (type(test.func) is ast.Name and test.func.id == "isinstance" and len(test.args) == 2):
        return
    place = _place_of(machine, frame, test.args[0])
    if place is None:
        return
    cls = machine.peek(frame, test.args[1])
    value = machine.heap.value(_read(machine, place))
    if type(value) is Options:
        left = [v for v in value.values if is_instance(v, cls) in (holds, None)]
        if len(left) < len(value.values):
            _keep(machine, frame, place, left)
    elif type(value) is Place and holds and cls == LibraryName("mlx.core.array"):
        machine.heap.facts.places[value] = array_of_place(value)


def is_instance(value: Any, cls: Any) -> bool | None:
    """Return whether a value is of a class, None if that is not known."""
    if type(cls) is tuple:
        results = [is_instance(value, one) for one in cls]
        if True in results:
            return True
        return None if None in results else False
    if type(cls) is not LibraryName:
        if type(value) is ObjectReference and value.cls is not None:
            return True if cls in classes_of(value.cls) else None
        return False if type(value) is ShapedArray or value is None else None
    kind = _KINDS.get(cls.name)
    if value is UNKNOWN or type(value) in (Place, Options) or kind is None:
        return None
    if type(value) is ObjectReference:
        return True if value.library == cls.name else None
    return type(value) in kind


_INTEGERS = (int, SizeExpr)
_KINDS: dict[str, tuple[type, ...]] = {
    "mlx.core.array": (ShapedArray,),
    "builtins.int": (*_INTEGERS, bool),
    "builtins.float": (float,),
    "builtins.str": (str,),
    "builtins.bool": (bool,),
    "builtins.tuple": (tuple,),
}
