"""Layers of ``mlx.nn`` as objects: made by their constructors, and called."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import UNKNOWN, ArrayShape, ShapedArray
from embercoach.analysis.shapes.python_values import (
    Attributes,
    DictReference,
    Entries,
    Items,
    ListReference,
    ObjectReference,
    Place,
    new_number,
)
from embercoach.analysis.shapes.requirements import axis_symbols
from embercoach.analysis.shapes.size_integers import SizeExpr, of_atom, with_wholes
from embercoach.analysis.shapes.table.transfers import LAYER_CALLS, LAYERS
from embercoach.analysis.shapes.table_calls import (
    array_of_place,
    attributes_of,
    call_transfer,
    new_list,
    with_sizes,
)

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import Machine, ShapeCall


def escape(machine: Machine, values: tuple[Any, ...]) -> None:
    """Forget values passed to unseen code: it may change lists and dictionaries."""
    for value in values:
        if type(value) is ListReference:
            machine.heap.write(value.number, Items(None, UNKNOWN))
        elif type(value) is DictReference:
            held = machine.heap.read(value.number)
            if type(held) is Entries:
                machine.heap.write(value.number, Entries({}, is_open=True))


def call_layer(call: ShapeCall, callee: ObjectReference) -> Any:
    """Call a layer of ``mlx.nn``."""
    if callee.library == "mlx.nn.Sequential":
        return _call_sequence(call, callee)
    handler = LAYER_CALLS.get(callee.library)
    if handler is None:
        return UNKNOWN
    attributes = attributes_of(call.machine, callee)
    given = tuple(
        as_array(call.machine, value) if at == 0 else value
        for at, value in enumerate(call.arguments)
    )
    if callee.library == "mlx.nn.Embedding" and given and call.machine.assumes:
        _assume_sequences(call.machine, given[0])
    if callee.library in _OF_LAST_AXIS and given and type(given[0]) is ShapedArray:
        call.heap.learn_last_axes(given[0].shape, 1)
    return call_transfer(
        call,
        callee.library,
        lambda requirements, *a, **k: handler(requirements, attributes, *a, **k),
        given,
        call.keywords,
    )


def _assume_sequences(machine: Machine, value: Any) -> None:
    """Take an array of tokens of which nothing is known for one of (batch, length)."""
    middle = value.shape.middle if type(value) is ShapedArray else None
    if middle is not None and value.shape.least_rank == 0 and middle.name in _TOKENS:
        machine.heap.bind_axes(middle, ArrayShape(axis_symbols(middle, 2)))


#: Names of arrays of tokens.
_TOKENS = frozenset(("inputs", "input_ids", "tokens", "token_ids", "input_tokens"))
#: Layers whose weight says how many elements the last axis of their input has.
_OF_LAST_AXIS = frozenset(
    f"mlx.nn.{name}" for name in ("Linear", "QuantizedLinear", "LayerNorm", "RMSNorm")
)


def as_array(machine: Machine, value: Any) -> Any:
    """An argument that must be an array: an unknown value of a place becomes one."""
    value = machine.heap.value(value)
    if type(value) is Place and not value.is_setting:
        array = array_of_place(value)
        machine.heap.facts.places[value] = array
        return array
    return value


def _call_sequence(call: ShapeCall, callee: ObjectReference) -> Any:
    held = call.heap.read(callee.number)
    layers = held.values.get("layers") if type(held) is Attributes else None
    items = call.heap.read(getattr(layers, "number", -1))
    if type(items) is not Items or items.items is None or len(call.arguments) != 1:
        return UNKNOWN
    value = call.arguments[0]
    for layer in items.items:
        value = call.call(layer, (value,))
    return value


def set_layer(call: ShapeCall, made: ObjectReference) -> None:
    """Set what the constructor of a layer of MLX sets."""
    handler = LAYERS[made.library]
    given = with_sizes(call.machine, made.library, call.arguments, call.keywords)
    found = call_transfer(call, made.library, handler, *given)
    held = call.heap.read(made.number)
    values = held.values if type(held) is Attributes else {}
    entries = call.heap.read(getattr(found, "number", -1))
    if type(entries) is Entries:
        call.heap.write(made.number, Attributes({**values, **entries.known}))
        _note_unlike(call.machine, entries.known.get("weight"))


def _note_unlike(machine: Machine, weight: Any) -> None:
    """Note that the input and output sizes of a layer are different things.

    So are the parts of an output that is a sum.
    """
    if type(weight) is not ShapedArray or weight.shape.rank is None:
        return
    first, last = weight.shape.head[0], weight.shape.head[-1]
    if not isinstance(first, SizeExpr) or not isinstance(last, SizeExpr):
        return
    if first != last:
        machine.unlike.add(frozenset((with_wholes(first), with_wholes(last))))
    parts = [of_atom(factors[0]) for factors in first.terms if len(factors) == 1]
    machine.unlike.update(map(frozenset, combinations(parts, 2)))


def make_layer(call: ShapeCall, name: str) -> Any:
    """``nn.Linear(64, 128)``."""
    made = ObjectReference(new_number(), None, name)
    call.heap.objects[made.number] = Attributes({})
    if name == "mlx.nn.Sequential":
        layers = new_list(call.machine, Items(call.arguments))
        call.heap.objects[made.number] = Attributes({"layers": layers})
    elif name in LAYERS:
        set_layer(call, made)
    elif name != "mlx.nn.Module":  # which only holds what the program sets
        return UNKNOWN
    return made
