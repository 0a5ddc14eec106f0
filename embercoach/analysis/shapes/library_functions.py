"""Calls of names of libraries: Python's builtins, MLX's functions, layers and transformations."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from embercoach.analysis import mlx_api
from embercoach.analysis.shapes.arrays import (
    ANY_BOOL,
    ANY_FLOAT,
    ANY_STR,
    PARAMETERS,
    UNKNOWN,
    ArrayShape,
    DTypeValue,
    HostArray,
    ShapedArray,
    unknown_shape,
)
from embercoach.analysis.shapes.host_arrays import call_host_method, call_numpy
from embercoach.analysis.shapes.operations import iterated_items, joined_items, same_item
from embercoach.analysis.shapes.python_builtins import HANDLERS, SAME_FUNCTIONS
from embercoach.analysis.shapes.python_values import (
    Attributes,
    DictReference,
    Entries,
    Items,
    Iterator,
    LibraryMethod,
    ListReference,
    ObjectReference,
    Place,
    SuperValue,
    TransformedFunction,
    bounded,
    new_number,
)
from embercoach.analysis.shapes.requirements import axis_symbols, is_integer
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    SizeExpr,
    of_atom,
    with_wholes,
)
from embercoach.analysis.shapes.table import LAYER_CALLS, LAYERS, TRANSFERS
from embercoach.analysis.shapes.table.array_members import ArrayAt
from embercoach.analysis.shapes.table.reduction_shapes import replaced
from embercoach.analysis.shapes.table_calls import (
    array_of_place,
    attributes_of,
    call_meant,
    call_table,
    call_transfer,
    new_dict,
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
        # An array of tokens of which nothing is known is one of (batch, length).
        middle = given[0].shape.middle if type(given[0]) is ShapedArray else None
        if middle is not None and given[0].shape.least_rank == 0 and middle.name in _TOKENS:
            call.heap.bind_axes(middle, ArrayShape(axis_symbols(middle, 2)))
    if callee.library in _OF_LAST_AXIS and given and type(given[0]) is ShapedArray:
        call.heap.learn_last_axes(given[0].shape, 1)
    return call_transfer(
        call,
        callee.library,
        lambda requirements, *a, **k: handler(requirements, attributes, *a, **k),
        given,
        call.keywords,
    )


#: Names of arrays of tokens.
_TOKENS = frozenset(("inputs", "input_ids", "tokens", "token_ids", "input_tokens"))
#: Layers whose weight says how many elements the last axis of their input has.
_OF_LAST_AXIS = frozenset(
    f"mlx.nn.{name}" for name in ("Linear", "QuantizedLinear", "LayerNorm", "RMSNorm")
)


def as_array(machine: Machine, value: Any) -> Any:
    """Return an argument that must be an array: an unknown value of a place becomes one."""
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


if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.analysis.shapes.interpreter import Machine, ShapeCall

    Arguments = tuple[Any, ...]

#: Functions that make a function of a function; what it computes is in ``call_transformed``.
TRANSFORMS = frozenset(
    (
        "mlx.core.grad",
        "mlx.core.value_and_grad",
        "mlx.core.vmap",
        "mlx.core.vjp",
        "mlx.nn.value_and_grad",
    )
)

#: Decorators that leave what a function computes as it is.
TRANSPARENT = frozenset(
    [
        *("builtins.staticmethod", "builtins.classmethod", "builtins.property", "functools.wraps"),
        *("functools.cache", "functools.lru_cache", "functools.cached_property"),
        *("mlx.core.compile", "mlx.core.custom_function", "mlx.core.checkpoint"),
        *("mlx.nn.utils.checkpoint", "abc.abstractmethod", "typing.no_type_check"),
        *("typing.override", "typing.overload", "jaxtyping.jaxtyped", "beartype.beartype"),
        "builtins.decorator",
    ]
)


def call_name(call: ShapeCall, name: str) -> Any:
    """Call a library's function or class by its name."""
    if name.startswith("unittest.mock."):
        call.machine.note_patch(call.arguments)
    handler = HANDLERS.get(name)
    if handler is not None:
        return handler(call)
    if name in TRANSFERS:
        return _call_function(call, name)
    if name in LAYERS or name in ("mlx.nn.Sequential", "mlx.nn.Module"):
        return make_layer(call, name)
    if name in SAME_FUNCTIONS and call.arguments:
        return call.arguments[0]
    if name in TRANSFORMS and call.arguments:
        function, *rest = call.arguments
        return bounded(
            TransformedFunction(name, function, tuple(rest), tuple(call.keywords.items()))
        )
    if name.startswith("numpy."):
        function_name = name.removeprefix("numpy.").replace("random.Generator.", "random.")
        return call_numpy(call, function_name)
    if name.startswith("mlx."):
        return any_result(name)
    if name.partition(".")[0] not in _HARMLESS:
        escape(call.machine, (*call.arguments, *call.keywords.values()))
    return UNKNOWN


#: Libraries whose functions don't change what they are given.
_HARMLESS = frozenset(("numpy", "math", "builtins", "typing", "operator", "itertools", "copy"))


def any_result(name: str) -> Any:
    """Return the result of a function of MLX with unknown arguments."""
    entry = mlx_api.lookup(name) if name.startswith("mlx.") else None
    if entry is not None and entry.kind == "function" and entry.returns == "array":
        return ShapedArray(unknown_shape())
    return UNKNOWN


def _call_function(call: ShapeCall, name: str) -> Any:
    arguments, keywords = call.arguments, call.keywords
    entry = mlx_api.lookup(name)
    if entry is not None and arguments:
        taken = entry.positional(0)
        if taken is not None and taken.expects_array:
            arguments = (as_array(call.machine, arguments[0]), *arguments[1:])
    if name in ("mlx.core.array", "mlx.core.asarray") and arguments:
        given = call.heap.value(arguments[0])
        if type(given) is HostArray:
            dtype = call.heap.value(keywords.get("dtype", (*arguments, None)[1]))
            known = dtype.dtype if type(dtype) is DTypeValue else None
            return ShapedArray(given.shape, known, getattr(call.node, "lineno", 0))
    if name in ("mlx.core.concatenate", "mlx.core.concat", "mlx.core.stack") and arguments:
        unknown = _of_unknown_number(call.machine, arguments[0])
        if unknown is not None:
            return _joined_arrays(call, name, unknown)
    return call_table(call, name, arguments, keywords)


def _of_unknown_number(machine: Machine, value: Any) -> ShapedArray | None:
    """Return the array that any item of a list is, where it is not known how many there are."""
    value = machine.heap.value(value)
    held = iterated_items(machine, value)
    if held.items is None:
        common = machine.heap.value(held.common)
        return common if type(common) is ShapedArray else None
    return None


def _joined_arrays(call: ShapeCall, name: str, array: ShapedArray) -> Any:
    """``mx.stack(arrays)`` of an unknown number of arrays."""
    axis = call.heap.value(call.keywords["axis"]) if "axis" in call.keywords else call.value(1, 0)
    result = call_table(call, name, ((array, array),), {"axis": axis})
    if type(result) is not ShapedArray or type(axis) is not int:
        return result
    return replace(result, shape=replaced(result.shape, (axis,), (ANY_INT,)))


# -- methods ---------------------------------------------------------------------------------


def call_method(call: ShapeCall, callee: LibraryMethod) -> Any:
    """Call a method of an array, a container, a string, or a layer."""
    owner, name = callee.owner, callee.name
    owner = call.heap.value(owner)
    kind = type(owner)
    if kind is ShapedArray:
        return _array_method(call, owner, name)
    if kind is ListReference:
        return _list_method(call.machine, owner, name, call.arguments)
    if kind is DictReference:
        return _dict_method(call.machine, owner, name, call.arguments)
    if kind is SuperValue:
        return _super_method(call, owner, name)
    if kind is ObjectReference:
        return _layer_method(call, owner, name)
    if kind is str:
        return _string_method(call.machine, owner, name, call.arguments)
    if kind is ArrayAt:
        full = f"mlx.core.ArrayAt.{name}"
        return call_table(call, full, (owner, *call.arguments), call.keywords)
    if kind is HostArray:
        return call_host_method(call, owner, name)
    if name in PROTOCOLS:
        return PROTOCOLS[name](call)
    return UNKNOWN


def _array_method(call: ShapeCall, owner: ShapedArray, name: str) -> Any:
    if name == "item":
        dtype = owner.dtype if isinstance(owner.dtype, str) else ""
        if dtype == "bool":
            return ANY_BOOL
        return ANY_INT if "int" in dtype else ANY_FLOAT if "float" in dtype else UNKNOWN
    if name == "tolist":
        return UNKNOWN
    if name in _SAME_SHAPE:
        return ShapedArray(owner.shape, owner.dtype)
    is_dtype = name == "view" and not _is_shape(call.arguments)
    if name in _MEANT and not is_dtype:
        keywords = {"axis" if key == "dim" else key: v for key, v in call.keywords.items()}
        return call_meant(call, _MEANT[name], (owner, *call.arguments), keywords)
    return call_table(call, f"mlx.core.array.{name}", (owner, *call.arguments), call.keywords)


#: Methods of tensors that arrays lack or take other arguments for, which API rules report.
_MEANT = {
    "chunk": "mlx.core.split",
    "permute": "mlx.core.array.transpose",
    "unsqueeze": "mlx.core.expand_dims",
    "view": "mlx.core.array.reshape",
}
_SAME_SHAPE = frozenset(("contiguous", "clone", "cpu", "cuda", "detach", "masked_fill"))


def _is_shape(arguments: Arguments) -> bool:
    """Return whether a method is given a shape, as integers or as a tuple."""
    return len(arguments) > 1 or any(type(one) is tuple or is_integer(one) for one in arguments)


def _list_method(machine: Machine, owner: ListReference, name: str, arguments: Arguments) -> Any:
    heap = machine.heap
    held = heap.read(owner.number)
    if type(held) is not Items:
        return UNKNOWN
    if name == "append" and len(arguments) == 1:
        heap.write(owner.number, joined_items(held, Items((heap.value(arguments[0]),))))
        return None
    if name == "extend" and len(arguments) == 1:
        added = iterated_items(machine, heap.value(arguments[0]))
        heap.write(owner.number, joined_items(held, added))
        return None
    if name == "insert" and len(arguments) == 2 and held.items is not None:
        at = arguments[0]
        if type(at) is int:
            items = list(held.items)
            items.insert(at, arguments[1])
            heap.write(owner.number, Items(tuple(items)))
            return None
    if name == "pop":
        at = arguments[0] if arguments else -1
        if held.items is not None and type(at) is int and -len(held.items) <= at < len(held.items):
            items = list(held.items)
            found = items.pop(at)
            heap.write(owner.number, Items(tuple(items)))
            return found
        return held.common if held.items is None else UNKNOWN
    if name == "copy":
        return new_list(machine, held)
    if name in ("index", "count"):
        return ANY_INT
    if name == "reverse" and held.items is not None:
        heap.write(owner.number, Items(held.items[::-1]))
        return None
    if name == "clear":
        heap.write(owner.number, Items(()))
        return None
    same = same_item(held.items if held.items is not None else (held.common,))
    heap.write(owner.number, Items(None, same if name in ("sort", "remove", "insert") else UNKNOWN))
    return UNKNOWN


def _dict_method(machine: Machine, owner: DictReference, name: str, arguments: Arguments) -> Any:
    heap = machine.heap
    held = heap.read(owner.number)
    if type(held) is not Entries:
        return UNKNOWN
    key = heap.value(arguments[0]) if arguments else None
    if name in ("get", "pop", "setdefault"):
        default = arguments[1] if len(arguments) > 1 else None
        if type(key) in (str, int) and key in held.known:
            return held.known[key]
        if held.is_open or type(key) not in (str, int):
            return UNKNOWN
        if name == "setdefault":
            heap.write(owner.number, Entries({**held.known, key: default}))
        return default
    if name == "keys":
        return Iterator(None if held.is_open else tuple(held.known))
    if name == "values":
        return Iterator(None if held.is_open else tuple(held.known.values()))
    if name == "items":
        return (
            Iterator(None, (UNKNOWN, UNKNOWN))
            if held.is_open
            else Iterator(tuple(held.known.items()))
        )
    if name == "copy":
        return new_dict(machine, held)
    if name == "update":
        other = heap.read(getattr(key, "number", -1))
        if type(other) is Entries:
            merged = Entries({**held.known, **other.known}, held.is_open or other.is_open)
            heap.write(owner.number, merged)
        else:
            heap.write(owner.number, Entries({}, is_open=True))
        return None
    heap.write(owner.number, Entries({}, is_open=True))
    return UNKNOWN


def _string_method(machine: Machine, owner: str, name: str, arguments: Arguments) -> Any:
    if name in ("startswith", "endswith") and len(arguments) == 1 and type(arguments[0]) is str:
        return getattr(owner, name)(arguments[0])
    if name in ("lower", "upper", "strip") and not arguments:
        return getattr(owner, name)()
    if name in ("format", "join", "replace", "strip", "rstrip", "lstrip", "lower", "upper"):
        return ANY_STR
    return UNKNOWN


def _super_method(call: ShapeCall, owner: SuperValue, name: str) -> Any:
    """``super().__init__(...)`` of a class of MLX."""
    base, _, method = name.rpartition(".")
    made = owner.owner
    if method == "__init__":
        if type(made) is ObjectReference and base in LAYERS:
            instance = ObjectReference(made.number, made.cls, base)
            set_layer(call, instance)
        return None
    if method == "__call__" and base in LAYER_CALLS and type(made) is ObjectReference:
        layer = ObjectReference(made.number, None, base)
        return call_layer(call, layer)
    return UNKNOWN


def _layer_method(call: ShapeCall, owner: ObjectReference, name: str) -> Any:
    full = f"{owner.library}.{name}"
    if full in TRANSFERS:
        attributes = attributes_of(call.machine, owner)
        handler = TRANSFERS[full]
        return call_transfer(
            call,
            full,
            lambda requirements, *a, **k: handler(requirements, attributes, *a, **k),
            call.arguments,
            call.keywords,
        )
    if name == "set_dtype" and call.arguments and type(call.arguments[0]) is DTypeValue:
        _cast_parameters(call.machine, owner, call.arguments[0], set())
    if name in _RETURNS_SELF:
        return owner
    return UNKNOWN


def _cast_parameters(machine: Machine, value: Any, dtype: DTypeValue, seen: set[int]) -> None:
    """Cast the floating parameters of a module and of those in it."""
    number = getattr(value, "number", None)
    if number is None or number in seen:
        return
    seen.add(number)
    held = machine.heap.read(number)
    if type(held) is Attributes:
        values = {
            name: ShapedArray(one.shape, dtype.dtype, one.line)
            if type(one) is ShapedArray and one.dtype == PARAMETERS
            else one
            for name, one in held.values.items()
        }
        machine.heap.write(number, Attributes(values, held.is_summary, held.doubtful))
        inner = list(held.values.values())
    elif type(held) is Items:
        inner = list(held.items if held.items is not None else (held.common,))
    elif type(held) is Entries:
        inner = list(held.known.values())
    else:
        return
    for one in inner:
        _cast_parameters(machine, one, dtype, seen)


_RETURNS_SELF = frozenset(
    ("train", "eval", "freeze", "unfreeze", "update", "apply", "load_weights", "set_dtype")
)


def _cached(call: ShapeCall, *, steps: tuple[int, ...]) -> Any:
    """Return keys and values of all steps so far, whose number is that of one of some axes."""
    found = []
    for value in call.arguments[:2]:
        array = call.heap.value(value)
        if type(array) is not ShapedArray or array.shape.rank != 4:
            return UNKNOWN
        sizes = [ANY_INT if at in steps else size for at, size in enumerate(array.shape.head)]
        found.append(ShapedArray(ArrayShape(tuple(sizes)), array.dtype, array.line))
    return tuple(found) if len(found) == 2 else UNKNOWN


#: Methods that mean one thing wherever MLX's programs have them, ``update`` of a cache alone:
#: mlx-lm's caches take (B, H, L, D), others may take (B, L, H, D).
PROTOCOLS: dict[str, Callable[[ShapeCall], Any]] = {
    "update_and_fetch": partial(_cached, steps=(2,)),
    "update": partial(_cached, steps=(1, 2)),
}


# -- transformations -------------------------------------------------------------------------


def call_transformed(call: ShapeCall, callee: TransformedFunction) -> Any:
    """Call ``mx.grad(f)``, ``mx.vmap(f)`` and the like."""
    if callee.transform == "mlx.core.vmap":
        return _call_vmapped(call, callee)
    function = callee.function
    if callee.transform == "mlx.nn.value_and_grad":
        function = (*callee.arguments, UNKNOWN)[0]
    value = call.call(function, call.arguments, call.keywords)
    gradient = _gradient(call.machine, callee, call.arguments)
    if callee.transform == "mlx.core.grad":
        return gradient
    return (value, gradient)


def _gradient(machine: Machine, callee: TransformedFunction, arguments: Arguments) -> Any:
    """Return the gradient has the shape of the argument that it is taken of."""
    if callee.transform == "mlx.nn.value_and_grad":
        return UNKNOWN
    given = dict(callee.keywords)
    at = given.get("argnums", callee.arguments[0] if callee.arguments else 0)
    if "argnames" in given or at is None:
        return UNKNOWN
    if type(at) is int and 0 <= at < len(arguments):
        value = machine.heap.value(arguments[at])
        return value if type(value) is ShapedArray else UNKNOWN
    if type(at) is tuple or type(at) is ListReference:
        places = at if type(at) is tuple else iterated_items(machine, at).items
        if places is not None and all(type(p) is int and 0 <= p < len(arguments) for p in places):
            return tuple(machine.heap.value(arguments[p]) for p in places)
    return UNKNOWN


def _call_vmapped(call: ShapeCall, callee: TransformedFunction) -> Any:
    given = dict(callee.keywords)
    in_axes = given.get("in_axes", callee.arguments[0] if callee.arguments else 0)
    out_axes = given.get("out_axes", callee.arguments[1] if len(callee.arguments) > 1 else 0)
    if type(in_axes) is ListReference:
        in_axes = iterated_items(call.machine, in_axes).items
    axes = in_axes if type(in_axes) is tuple else (in_axes,) * len(call.arguments)
    if call.keywords or len(axes) != len(call.arguments):
        return UNKNOWN
    inner: list[Any] = []
    size: Integer | None = None
    for axis, given_value in zip(axes, call.arguments, strict=True):
        value = call.heap.value(given_value)
        if axis is None:
            inner.append(value)
            continue
        if type(value) is not ShapedArray or type(axis) is not int:
            return UNKNOWN
        shape = value.shape
        if shape.rank is None:
            return UNKNOWN
        if not -shape.rank <= axis < shape.rank:
            call.add_event(f"axis {axis} is out of bounds for the shape {shape}", None, "vmap")
            return UNKNOWN
        sizes = list(shape.head)
        taken = sizes.pop(axis)
        if size is not None and type(size) is int and type(taken) is int and size != taken:
            call.add_event(f"the mapped axes have the sizes {size} and {taken}", None, "vmap")
            return UNKNOWN
        size = taken if size is None or size is ANY_INT else size
        inner.append(ShapedArray(ArrayShape(tuple(sizes)), value.dtype, value.line))
    result = call.call(callee.function, tuple(inner))
    return _with_axis(
        call.machine, call.heap.value(result), out_axes, ANY_INT if size is None else size
    )


def _with_axis(machine: Machine, value: Any, axis: Any, size: Integer) -> Any:
    if type(value) is tuple:
        axes = axis if type(axis) is tuple else (axis,) * len(value)
        if len(axes) != len(value):
            return UNKNOWN
        return tuple(_with_axis(machine, v, a, size) for v, a in zip(value, axes, strict=True))
    if type(value) is not ShapedArray:
        return UNKNOWN
    if axis is None:
        return value
    rank = value.shape.rank
    if rank is None or type(axis) is not int or not -rank - 1 <= axis <= rank:
        return ShapedArray(unknown_shape(), value.dtype)
    sizes = list(value.shape.head)
    sizes.insert(axis if axis >= 0 else rank + 1 + axis, size)
    return ShapedArray(ArrayShape(tuple(sizes)), value.dtype, value.line)
