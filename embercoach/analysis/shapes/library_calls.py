"""Calls of names of libraries: Python's builtins, MLX's functions, layers and transformations."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Any

from embercoach.analysis import mlx_api
from embercoach.analysis.shapes import calls
from embercoach.analysis.shapes.arrays import (
    ANY_BOOL,
    ANY_FLOAT,
    ANY_STR,
    PARAMETERS,
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    DTypeValue,
    HostArray,
    Ratio,
    ShapedArray,
    unknown_shape,
    weak_kind,
)
from embercoach.analysis.shapes.host_arrays import call_host_method, call_numpy
from embercoach.analysis.shapes.integers import (
    ANY_INT,
    Integer,
    SizeExpr,
    add,
    ceil_divide,
    floor_divide,
    greatest,
    least,
    multiply,
    subtract,
)
from embercoach.analysis.shapes.iteration import elements_of
from embercoach.analysis.shapes.narrowing import is_instance
from embercoach.analysis.shapes.objects import (
    Attributes,
    BoundFunction,
    ClassValue,
    DictReference,
    Entries,
    FunctionValue,
    Items,
    Iterator,
    LibraryMethod,
    LibraryName,
    ListReference,
    ObjectReference,
    Options,
    PartialCall,
    Place,
    SuperValue,
    TransformedFunction,
)
from embercoach.analysis.shapes.operations import (
    MOST_ITEMS,
    as_integer,
    attributes_of,
    call_table,
    call_transfer,
    joined_items,
    lowered,
    new_dict,
    new_list,
    truth_of,
)
from embercoach.analysis.shapes.requirements import is_integer
from embercoach.analysis.shapes.table.array_members import ArrayAt
from embercoach.analysis.shapes.table.registry import LAYER_CALLS, LAYERS, TRANSFERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.analysis.shapes.frames import Frame
    from embercoach.analysis.shapes.machine import Machine

    Arguments = tuple[Any, ...]
    Keywords = dict[str, Any]

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
#: Transformations that leave what a function computes as it is.
_SAME = frozenset(
    (
        "mlx.core.compile",
        "mlx.core.checkpoint",
        "mlx.core.custom_function",
        "mlx.nn.utils.checkpoint",
        "builtins.decorator",
        "functools.cache",
        "functools.lru_cache",
    )
)


def call_name(
    machine: Machine,
    frame: Frame,
    node: ast.AST,
    name: str,
    arguments: Arguments,
    keywords: Keywords,
) -> Any:
    """Call a library's function or class by its name."""
    if name.startswith("unittest.mock."):
        machine.note_patch(arguments)
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(machine, frame, node, arguments, keywords)
    if name in TRANSFERS:
        return _call_function(machine, frame, node, name, arguments, keywords)
    if name in LAYERS or name == "mlx.nn.Sequential":
        return calls.make_layer(machine, frame, node, name, arguments, keywords)
    if name in _SAME and arguments:
        return arguments[0]
    if name in TRANSFORMS and arguments:
        function, *rest = arguments
        return TransformedFunction(name, function, tuple(rest), tuple(keywords.items()))
    if name.startswith("numpy."):
        return call_numpy(
            lambda value: lowered(machine, value),
            name.removeprefix("numpy.").replace("random.Generator.", "random."),
            arguments,
            keywords,
        )
    if name.startswith("mlx."):
        entry = mlx_api.lookup(name)
        if entry is not None and entry.kind == "function" and entry.returns == "array":
            return ShapedArray(unknown_shape())
        return UNKNOWN
    if name.partition(".")[0] not in _HARMLESS:
        calls.escape(machine, (*arguments, *keywords.values()))
    return UNKNOWN


#: Libraries whose functions don't change what they are given.
_HARMLESS = frozenset(("numpy", "math", "builtins", "typing", "operator", "itertools", "copy"))


def _call_function(
    machine: Machine,
    frame: Frame,
    node: ast.AST,
    name: str,
    arguments: Arguments,
    keywords: Keywords,
) -> Any:
    entry = mlx_api.lookup(name)
    if entry is not None and arguments:
        taken = entry.positional(0)
        if taken is not None and taken.expects_array:
            arguments = (calls.as_array(machine, frame, arguments[0]), *arguments[1:])
    if name in ("mlx.core.array", "mlx.core.asarray") and arguments:
        given = machine.heap.value(arguments[0])
        if type(given) is HostArray:
            dtype = machine.heap.value(keywords.get("dtype", (*arguments, None)[1]))
            known = dtype.dtype if type(dtype) is DTypeValue else None
            return ShapedArray(given.shape, known, getattr(node, "lineno", 0))
    if name in ("mlx.core.concatenate", "mlx.core.concat", "mlx.core.stack") and arguments:
        unknown = _of_unknown_number(machine, arguments[0])
        if unknown is not None:
            return _joined_arrays(machine, frame, node, name, unknown, arguments[1:], keywords)
    return call_table(machine, frame, node, name, arguments, keywords)


def _of_unknown_number(machine: Machine, value: Any) -> ShapedArray | None:
    """The array that any item of a list is, where it is not known how many there are."""
    value = machine.heap.value(value)
    held = elements_of(machine, value)
    if held.items is None:
        common = machine.heap.value(held.common)
        return common if type(common) is ShapedArray else None
    return None


def _joined_arrays(
    machine: Machine,
    frame: Frame,
    node: ast.AST,
    name: str,
    array: ShapedArray,
    arguments: Arguments,
    keywords: Keywords,
) -> Any:
    """``mx.stack(arrays)`` of an unknown number of arrays."""
    axis = machine.heap.value(keywords.get("axis", arguments[0] if arguments else 0))
    shape = array.shape
    stacks = name.endswith("stack")
    result = call_table(machine, frame, node, name, ([array],) if False else (
        (array, array),), {"axis": axis})
    if type(result) is not ShapedArray or type(axis) is not int:
        return result
    known = result.shape
    if known.rank is not None and -known.rank <= axis < known.rank:
        sizes = list(known.head)
        sizes[axis] = ANY_INT
        return ShapedArray(ArrayShape(tuple(sizes)), result.dtype, result.line)
    if known.middle is not None and (0 <= axis < len(known.head)):
        head = list(known.head)
        head[axis] = ANY_INT
        return ShapedArray(ArrayShape(tuple(head), known.middle, known.tail), result.dtype)
    if known.middle is not None and -len(known.tail) <= axis < 0:
        tail = list(known.tail)
        tail[axis] = ANY_INT
        return ShapedArray(ArrayShape(known.head, known.middle, tuple(tail)), result.dtype)
    rank = None if shape.rank is None else shape.rank + stacks
    return ShapedArray(unknown_shape() if rank is None else ArrayShape((ANY_INT,) * rank))


# -- methods ---------------------------------------------------------------------------------


def call_method(
    machine: Machine,
    frame: Frame,
    node: ast.AST,
    callee: LibraryMethod,
    arguments: Arguments,
    keywords: Keywords,
) -> Any:
    """Call a method of an array, a container, a string, or a layer."""
    owner, name = callee.owner, callee.name
    owner = machine.heap.value(owner)
    kind = type(owner)
    if kind is ShapedArray:
        return _array_method(machine, frame, node, owner, name, arguments, keywords)
    if kind is ListReference:
        return _list_method(machine, owner, name, arguments)
    if kind is DictReference:
        return _dict_method(machine, owner, name, arguments)
    if kind is SuperValue:
        return _super_method(machine, frame, node, owner, name, arguments, keywords)
    if kind is ObjectReference:
        return _layer_method(machine, frame, node, owner, name, arguments, keywords)
    if kind is str:
        return _string_method(machine, owner, name, arguments)
    if kind is ArrayAt:
        full = f"mlx.core.ArrayAt.{name}"
        return call_table(machine, frame, node, full, (owner, *arguments), keywords)
    if kind is HostArray:
        return call_host_method(
            lambda value: lowered(machine, value), owner, name, arguments, keywords
        )
    if name in PROTOCOLS:
        return PROTOCOLS[name](machine, frame, node, arguments)
    return UNKNOWN


def _array_method(
    machine: Machine,
    frame: Frame,
    node: ast.AST,
    owner: ShapedArray,
    name: str,
    arguments: Arguments,
    keywords: Keywords,
) -> Any:
    if name == "item":
        dtype = owner.dtype if isinstance(owner.dtype, str) else ""
        if dtype == "bool":
            return ANY_BOOL
        return ANY_INT if "int" in dtype else ANY_FLOAT if "float" in dtype else UNKNOWN
    if name == "tolist":
        return UNKNOWN
    return call_table(
        machine, frame, node, f"mlx.core.array.{name}", (owner, *arguments), keywords
    )


def _list_method(machine: Machine, owner: ListReference, name: str, arguments: Arguments) -> Any:
    heap = machine.heap
    held = heap.objects.get(owner.number)
    if type(held) is not Items:
        return UNKNOWN
    if name == "append" and len(arguments) == 1:
        heap.write(owner.number, joined_items(held, Items((heap.value(arguments[0]),))))
        return None
    if name == "extend" and len(arguments) == 1:
        added = elements_of(machine, heap.value(arguments[0]))
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
    parts = held.items if held.items is not None else (held.common,)
    first = parts[0] if parts else UNKNOWN
    same = first if all(part == first for part in parts) else UNKNOWN
    heap.write(owner.number, Items(None, same if name in ("sort", "remove", "insert") else UNKNOWN))
    return UNKNOWN


def _dict_method(machine: Machine, owner: DictReference, name: str, arguments: Arguments) -> Any:
    heap = machine.heap
    held = heap.objects.get(owner.number)
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
        return Iterator(None, (UNKNOWN, UNKNOWN)) if held.is_open else Iterator(
            tuple(held.known.items())
        )
    if name == "copy":
        return new_dict(machine, held)
    if name == "update":
        other = heap.objects.get(getattr(key, "number", -1))
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


def _super_method(
    machine: Machine,
    frame: Frame,
    node: ast.AST,
    owner: SuperValue,
    name: str,
    arguments: Arguments,
    keywords: Keywords,
) -> Any:
    """``super().__init__(...)`` of a class of MLX."""
    base, _, method = name.rpartition(".")
    made = owner.owner
    if method == "__init__":
        if type(made) is ObjectReference and base in LAYERS:
            instance = ObjectReference(made.number, made.cls, base)
            calls.set_layer(machine, frame, node, instance, arguments, keywords)
        return None
    if method == "__call__" and base in LAYER_CALLS and type(made) is ObjectReference:
        layer = ObjectReference(made.number, None, base)
        return calls.call_object(machine, frame, node, layer, arguments, keywords)
    return UNKNOWN


def _layer_method(
    machine: Machine,
    frame: Frame,
    node: ast.AST,
    owner: ObjectReference,
    name: str,
    arguments: Arguments,
    keywords: Keywords,
) -> Any:
    full = f"{owner.library}.{name}"
    if full in TRANSFERS:
        attributes = attributes_of(machine, owner)
        handler = TRANSFERS[full]
        return call_transfer(
            machine, frame, node, full,
            lambda requirements, *a, **k: handler(requirements, attributes, *a, **k),
            arguments, keywords,
        )
    if name == "set_dtype" and arguments and type(arguments[0]) is DTypeValue:
        _cast_parameters(machine, owner, arguments[0], set())
    if name in _RETURNS_SELF:
        return owner
    return UNKNOWN


def _cast_parameters(machine: Machine, value: Any, dtype: DTypeValue, seen: set[int]) -> None:
    """Cast the floating parameters of a module and of those in it."""
    number = getattr(value, "number", None)
    if number is None or number in seen:
        return
    seen.add(number)
    held = machine.heap.objects.get(number)
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


def _update_and_fetch(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments) -> Any:
    """mlx-lm's caches: keys and values of all steps so far."""
    found = []
    for value in arguments[:2]:
        array = machine.heap.value(value)
        if type(array) is not ShapedArray or array.shape.rank != 4:
            return UNKNOWN
        b, h, _, d = array.shape.head
        found.append(ShapedArray(ArrayShape((b, h, ANY_INT, d)), array.dtype, array.line))
    return tuple(found) if len(found) == 2 else UNKNOWN


#: Methods that mean one thing wherever MLX's programs have them.
PROTOCOLS: dict[str, Callable[[Machine, Frame, ast.AST, Arguments], Any]] = {
    "update_and_fetch": _update_and_fetch
}


# -- transformations -------------------------------------------------------------------------


def call_transformed(
    machine: Machine,
    frame: Frame,
    node: ast.AST,
    callee: TransformedFunction,
    arguments: Arguments,
    keywords: Keywords,
) -> Any:
    """Call ``mx.grad(f)``, ``mx.vmap(f)`` and the like."""
    if callee.transform == "mlx.core.vmap":
        return _call_vmapped(machine, frame, node, callee, arguments, keywords)
    function = callee.function
    if callee.transform == "mlx.nn.value_and_grad":
        function = callee.arguments[0] if callee.arguments else UNKNOWN
    value = calls.call(machine, frame, node, function, arguments, keywords)
    gradient = _gradient(machine, callee, arguments)
    if callee.transform == "mlx.core.grad":
        return gradient
    return (value, gradient)


def _gradient(machine: Machine, callee: TransformedFunction, arguments: Arguments) -> Any:
    """The gradient has the shape of the argument that it is taken of."""
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
        places = at if type(at) is tuple else elements_of(machine, at).items
        if places is not None and all(type(p) is int and 0 <= p < len(arguments) for p in places):
            return tuple(machine.heap.value(arguments[p]) for p in places)
    return UNKNOWN


def _call_vmapped(
    machine: Machine,
    frame: Frame,
    node: ast.AST,
    callee: TransformedFunction,
    arguments: Arguments,
    keywords: Keywords,
) -> Any:
    given = dict(callee.keywords)
    in_axes = given.get("in_axes", callee.arguments[0] if callee.arguments else 0)
    out_axes = given.get("out_axes", callee.arguments[1] if len(callee.arguments) > 1 else 0)
    if type(in_axes) is ListReference:
        in_axes = elements_of(machine, in_axes).items
    axes = in_axes if type(in_axes) is tuple else (in_axes,) * len(arguments)
    if keywords or len(axes) != len(arguments):
        return UNKNOWN
    inner: list[Any] = []
    size: Integer | None = None
    for axis, value in zip(axes, arguments, strict=True):
        value = machine.heap.value(value)
        if axis is None:
            inner.append(value)
            continue
        if type(value) is not ShapedArray or type(axis) is not int:
            return UNKNOWN
        shape = value.shape
        if shape.rank is None:
            return UNKNOWN
        if not -shape.rank <= axis < shape.rank:
            machine.add_event(
                frame, node, f"axis {axis} is out of bounds for the shape {shape}", None, "vmap"
            )
            return UNKNOWN
        sizes = list(shape.head)
        taken = sizes.pop(axis)
        if size is not None and type(size) is int and type(taken) is int and size != taken:
            machine.add_event(
                frame, node, f"the mapped axes have the sizes {size} and {taken}", None, "vmap"
            )
            return UNKNOWN
        size = taken if size is None or size is ANY_INT else size
        inner.append(ShapedArray(ArrayShape(tuple(sizes)), value.dtype, value.line))
    result = calls.call(machine, frame, node, callee.function, tuple(inner), {})
    return _with_axis(machine, machine.heap.value(result), out_axes, ANY_INT if size is None else size)


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


# -- Python ----------------------------------------------------------------------------------


def _len(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    value = machine.heap.value(arguments[0]) if arguments else UNKNOWN
    if type(value) is ShapedArray:
        shape = value.shape
        return shape.head[0] if shape.head else ANY_INT
    if type(value) is tuple:
        if any(type(item) is AxesSymbol for item in value):
            middle = next(item for item in value if type(item) is AxesSymbol)
            at = value.index(middle)
            return machine.heap.rank_of(ArrayShape(value[:at], middle, value[at + 1 :]))
        return len(value)
    held = elements_of(machine, value)
    if held.items is not None:
        return len(held.items)
    if type(value) is str:
        return len(value)
    if type(value) is Place and value.is_setting:
        from embercoach.analysis.shapes.operations import integer_of_place

        key = (id(value), "len")
        if key not in machine.open_attributes:
            machine.open_attributes[key] = Place(
                f"len({value.name})", is_setting=True, scope=value
            )
        return integer_of_place(machine, machine.open_attributes[key])
    return ANY_INT


def _int(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    if not arguments:
        return 0
    value = machine.heap.value(arguments[0])
    if type(value) is Ratio:
        return floor_divide(value.numerator, value.denominator)
    number = as_integer(machine, value)
    if number is not None:
        return number
    if type(value) in (float, bool):
        return int(value) if math.isfinite(value) else ANY_INT
    return ANY_INT


def _ceil(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    value = machine.heap.value(arguments[0]) if arguments else UNKNOWN
    if type(value) is Ratio:
        return ceil_divide(value.numerator, value.denominator)
    number = as_integer(machine, value)
    if number is not None:
        return number
    return math.ceil(value) if type(value) is float and math.isfinite(value) else ANY_INT


def _round(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    if len(arguments) != 1:
        return ANY_FLOAT
    value = machine.heap.value(arguments[0])
    number = as_integer(machine, value)
    if number is not None:
        return number
    if type(value) is ShapedArray:
        return call_table(machine, frame, node, "mlx.core.round", (value,), {})
    return round(value) if type(value) is float and math.isfinite(value) else ANY_INT


def _extreme(choose: Callable[[Any], Integer]) -> Any:
    def handler(
        machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, keywords: Keywords
    ) -> Any:
        values = arguments
        if len(arguments) == 1:
            held = elements_of(machine, machine.heap.value(arguments[0]))
            if held.items is None or keywords:
                return ANY_INT if weak_kind(held.common) == "int" else UNKNOWN
            values = held.items
        numbers = [as_integer(machine, machine.heap.value(value)) for value in values]
        if numbers and None not in numbers:
            return choose(numbers)
        kinds = {weak_kind(machine.heap.value(value)) for value in values}
        return ANY_FLOAT if kinds <= {"int", "float", "bool"} else UNKNOWN

    return handler


def _sum(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    held = elements_of(machine, machine.heap.value(arguments[0])) if arguments else Items(None)
    if held.items is None:
        common = machine.heap.value(held.common)
        if type(common) is ShapedArray and common.shape.rank is not None:
            return common
        return UNKNOWN
    from embercoach.analysis.shapes.operations import binary

    total: Any = arguments[1] if len(arguments) > 1 else 0
    for item in held.items:
        total = binary(machine, frame, node, ast.Add, total, item)
    return total


def _range(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    numbers = [as_integer(machine, machine.heap.value(value)) for value in arguments]
    if all(type(number) is int for number in numbers) and 1 <= len(numbers) <= 3:
        try:
            found = range(*numbers)  # type: ignore[arg-type]
        except ValueError:
            return UNKNOWN
        if len(found) <= MOST_ITEMS:
            return Iterator(tuple(found))
    return Iterator(None, ANY_INT)


def _zip(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    parts = [elements_of(machine, machine.heap.value(value)) for value in arguments]
    known = [part.items for part in parts if part.items is not None]
    if parts and len(known) == len(parts):
        return Iterator(tuple(zip(*known, strict=False)))
    if known and min(map(len, known)) <= 8:
        count = min(map(len, known))
        columns = [p.items[:count] if p.items is not None else (p.common,) * count for p in parts]
        return Iterator(None, calls.joined(list(zip(*columns, strict=True)))) if count else (
            Iterator(())
        )
    return Iterator(None, tuple(_any_of(part) for part in parts))


def _any_of(part: Items) -> Any:
    if part.items is None:
        return part.common
    return calls.joined(list(part.items)) if part.items else UNKNOWN


def _enumerate(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, keywords: Keywords
) -> Any:
    held = elements_of(machine, machine.heap.value(arguments[0])) if arguments else Items(None)
    start = keywords.get("start", arguments[1] if len(arguments) > 1 else 0)
    if held.items is not None and type(start) is int:
        return Iterator(tuple((start + at, item) for at, item in enumerate(held.items)))
    return Iterator(None, (ANY_INT, _any_of(held)))


def _copied(kind: str) -> Any:
    def handler(
        machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords
    ) -> Any:
        held = elements_of(machine, machine.heap.value(arguments[0])) if arguments else Items(())
        if kind == "list":
            return new_list(machine, held)
        if kind == "tuple":
            value = machine.heap.value(arguments[0]) if arguments else ()
            if type(value) is tuple:
                return value
            return UNKNOWN if held.items is None else held.items
        if kind == "reversed":
            return Iterator(None if held.items is None else held.items[::-1], held.common)
        same = held.common if held.items is None else _any_of(held)
        return Iterator(None, same)

    return handler


def _map(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    if len(arguments) != 2:
        return Iterator(None)
    held = elements_of(machine, machine.heap.value(arguments[1]))
    if held.items is not None:
        return Iterator(
            tuple(calls.call(machine, frame, node, arguments[0], (item,), {}) for item in held.items)
        )
    return Iterator(None, calls.call(machine, frame, node, arguments[0], (held.common,), {}))


def _getattr(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords
) -> Any:
    from embercoach.analysis.shapes.attributes import attribute_of

    if len(arguments) < 2 or type(arguments[1]) is not str:
        return UNKNOWN
    owner = machine.heap.value(arguments[0])
    found = attribute_of(machine, frame, node, owner, arguments[1])
    if len(arguments) < 3:
        return found
    held = machine.heap.objects.get(getattr(owner, "number", -1))
    if type(held) is Attributes and arguments[1] in held.values:
        return found
    if found is UNKNOWN:
        return UNKNOWN
    if type(found) is Place and type(arguments[2]) is int:
        return found
    return calls.joined([found, arguments[2]]) if type(found) is not Place else found


def _isinstance(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords
) -> Any:
    if len(arguments) != 2:
        return ANY_BOOL
    found = is_instance(machine.heap.value(arguments[0]), arguments[1])
    return ANY_BOOL if found is None else found


def _hasattr(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords
) -> Any:
    if len(arguments) == 2 and type(arguments[1]) is str:
        held = machine.heap.objects.get(getattr(arguments[0], "number", -1))
        if type(held) is Attributes and arguments[1] in held.values:
            return ANY_BOOL if arguments[1] in held.doubtful else True
        # mlx-lm's caches: what ``update_and_fetch`` of an unknown one returns is not quantized.
        if arguments[1] == "bits" and type(held) is not Attributes:
            return False
    return ANY_BOOL


def _partial(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, keywords: Keywords
) -> Any:
    if not arguments:
        return UNKNOWN
    function, *rest = arguments
    if type(function) is LibraryName and function.name in _SAME:
        return LibraryName("builtins.decorator")
    return PartialCall(function, tuple(rest), tuple(keywords.items()))


def _constant(value: Any) -> Any:
    def handler(
        machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords
    ) -> Any:
        return value

    return handler


def _abs(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    value = machine.heap.value(arguments[0]) if arguments else UNKNOWN
    if type(value) is ShapedArray:
        return call_table(machine, frame, node, "mlx.core.abs", (value,), {})
    if type(value) in (int, float):
        return abs(value)
    if type(value) is SizeExpr and value.symbol is not None:
        return value
    return ANY_INT if is_integer(value) else ANY_FLOAT


def _bool(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    return truth_of(machine, arguments[0]) if arguments else False


def _divmod(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    from embercoach.analysis.shapes.operations import binary

    if len(arguments) != 2:
        return UNKNOWN
    a, b = arguments
    return (
        binary(machine, frame, node, ast.FloorDiv, a, b),
        binary(machine, frame, node, ast.Mod, a, b),
    )


def _product(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords
) -> Any:
    """``math.prod(x.shape)``."""
    held = elements_of(machine, machine.heap.value(arguments[0])) if arguments else Items(None)
    if held.items is None:
        return ANY_INT
    total: Integer = 1
    for item in held.items:
        number = as_integer(machine, machine.heap.value(item))
        if number is None:
            return UNKNOWN
        total = multiply(total, number)
    return total


def _dict(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, keywords: Keywords
) -> Any:
    known: dict[Any, Any] = {}
    is_open = False
    if arguments:
        held = machine.heap.objects.get(getattr(arguments[0], "number", -1))
        if type(held) is Entries:
            known, is_open = dict(held.known), held.is_open
        else:
            is_open = True
    return new_dict(machine, Entries({**known, **keywords}, is_open))


def _super_of(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords
) -> Any:
    if len(arguments) == 2 and type(arguments[0]) is ClassValue:
        return SuperValue(arguments[0], arguments[1])
    return UNKNOWN


def _tree_map(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, keywords: Keywords
) -> Any:
    if len(arguments) < 2:
        return UNKNOWN
    return _mapped(machine, frame, node, arguments[0], arguments[1:], 0)


def _mapped(
    machine: Machine, frame: Frame, node: ast.AST, function: Any, trees: Arguments, depth: int
) -> Any:
    tree = machine.heap.value(trees[0])
    if type(tree) is ShapedArray:
        return calls.call(machine, frame, node, function, trees, {})
    if len(trees) > 1 or depth > 4:
        return UNKNOWN
    if type(tree) is tuple:
        return tuple(_mapped(machine, frame, node, function, (t,), depth + 1) for t in tree)
    if type(tree) is ListReference:
        items = elements_of(machine, tree).items
        if items is not None:
            found = tuple(_mapped(machine, frame, node, function, (t,), depth + 1) for t in items)
            return new_list(machine, Items(found))
    held = machine.heap.objects.get(tree.number) if type(tree) is DictReference else None
    if type(held) is Entries and not held.is_open:
        return new_dict(
            machine,
            Entries(
                {
                    key: _mapped(machine, frame, node, function, (item,), depth + 1)
                    for key, item in held.known.items()
                }
            ),
        )
    return UNKNOWN


_HANDLERS: dict[str, Callable[[Machine, Frame, ast.AST, Arguments, Keywords], Any]] = {
    "builtins.len": _len,
    "builtins.int": _int,
    "math.floor": _int,
    "math.trunc": _int,
    "math.ceil": _ceil,
    "math.prod": _product,
    "math.sqrt": _constant(ANY_FLOAT),
    "math.log": _constant(ANY_FLOAT),
    "math.log2": _constant(ANY_FLOAT),
    "math.exp": _constant(ANY_FLOAT),
    "math.cos": _constant(ANY_FLOAT),
    "math.sin": _constant(ANY_FLOAT),
    "math.pow": _constant(ANY_FLOAT),
    "builtins.float": _constant(ANY_FLOAT),
    "builtins.str": _constant(ANY_STR),
    "builtins.bool": _bool,
    "builtins.round": _round,
    "builtins.abs": _abs,
    "builtins.min": _extreme(least),
    "builtins.max": _extreme(greatest),
    "builtins.sum": _sum,
    "builtins.range": _range,
    "builtins.zip": _zip,
    "builtins.enumerate": _enumerate,
    "builtins.list": _copied("list"),
    "builtins.tuple": _copied("tuple"),
    "builtins.reversed": _copied("reversed"),
    "builtins.sorted": _copied("sorted"),
    "builtins.iter": _copied("iter"),
    "builtins.map": _map,
    "builtins.dict": _dict,
    "builtins.divmod": _divmod,
    "builtins.getattr": _getattr,
    "builtins.hasattr": _hasattr,
    "builtins.isinstance": _isinstance,
    "builtins.super": _super_of,
    "builtins.print": _constant(None),
    "functools.partial": _partial,
    "mlx.core.eval": _constant(None),
    "mlx.core.async_eval": _constant(None),
    "mlx.utils.tree_map": _tree_map,
}

