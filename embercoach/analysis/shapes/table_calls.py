"""Calls of transfer functions: values of the program as their arguments, and back."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from functools import cache
from inspect import signature
from itertools import product as combinations
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from embercoach.analysis import mlx_api
from embercoach.analysis.shapes import axis_origins, suspicions
from embercoach.analysis.shapes.arrays import (
    ANY_BOOL,
    UNKNOWN,
    AnyScalar,
    ArrayShape,
    AxesSymbol,
    DTypeSymbol,
    DTypeValue,
    HostArray,
    PromotedDType,
    Ratio,
    ShapedArray,
    unknown_shape,
)
from embercoach.analysis.shapes.axis_origins import TableCall
from embercoach.analysis.shapes.python_values import (
    Attributes,
    DictReference,
    Entries,
    Items,
    Iterator,
    ListReference,
    ObjectReference,
    Options,
    Place,
    Truth,
    new_number,
    one_of,
)
from embercoach.analysis.shapes.requirements import (
    ArgumentError,
    Requirements,
    ShapeError,
    is_integer,
)
from embercoach.analysis.shapes.size_integers import (
    Comparison,
    Integer,
    SizeExpr,
    SizeSymbol,
    compare,
    symbol,
)
from embercoach.analysis.shapes.suspicions import MISREAD, misread_arguments
from embercoach.analysis.shapes.table import TRANSFERS
from embercoach.analysis.shapes.table.array_members import ArrayAt
from embercoach.analysis.shapes.table.creation import literal
from embercoach.analysis.shapes.table.layer_shapes import MadeLayer
from embercoach.analysis.shapes.value_joins import joined_values

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import Machine, ShapeSite

#: Alternatives of all arguments of a call that are tried out.
MOST_ALTERNATIVES = 6


def as_integer(machine: Machine, value: Any) -> Integer | None:
    """Return the integer that a value is; of a setting, the symbol of its place."""
    if type(value) is Place and value.is_setting:
        return integer_of_place(machine, value)
    return value if is_integer(value) else None


def integer_of_place(machine: Machine, place: Place) -> SizeExpr:
    """Return the symbol of the integer that a place holds."""
    found = machine.open_attributes.get((id(place), "int"))
    if found is None:
        found = symbol(place.name, place=place.scope, is_local=False)
        machine.open_attributes[id(place), "int"] = found
        machine.open_attributes[id(place), "place"] = place  # keeps its id
    return found


def array_of_place(place: Place) -> ShapedArray:
    """Return an array of which nothing is known but what a comment says."""
    dtype = PromotedDType(frozenset((DTypeSymbol(place.name),)))
    shape = place.shape or unknown_shape(place.name)
    if place.scope is not None and shape.middle is not None:
        shape.middle.is_given = True
    return ShapedArray(shape, dtype)


def new_list(machine: Machine, items: Items) -> ListReference:
    """Return a new list."""
    made = ListReference(new_number())
    machine.heap.objects[made.number] = items
    return made


def new_dict(machine: Machine, entries: Entries) -> DictReference:
    """Return a new dictionary."""
    made = DictReference(new_number())
    machine.heap.objects[made.number] = entries
    return made


def lowered(machine: Machine, value: Any) -> Any:
    """Return a value as transfer functions take it."""
    value = machine.heap.value(value)
    kind = type(value)
    if kind is ShapedArray or kind is SizeExpr or kind in _PLAIN:
        return value
    if kind is tuple:
        return tuple(lowered(machine, item) for item in value)
    if kind is ListReference:
        items = _known_items(machine, value)
        return UNKNOWN if items is None else [lowered(machine, item) for item in items]
    if kind is DictReference:
        held = machine.heap.read(value.number)
        if type(held) is Entries and not held.is_open:
            return {key: lowered(machine, item) for key, item in held.known.items()}
        return UNKNOWN
    if kind is Truth:
        # A comparison of unknown values may be one of arrays.
        is_host = type(value.left) is not Place and type(value.right) is not Place
        return ANY_BOOL if is_host else UNKNOWN
    if kind is slice:
        parts = (value.start, value.stop, value.step)
        return slice(*(lowered(machine, _as_size(machine, v)) for v in parts))
    if kind is Options or kind in _TAKEN or is_integer(value):
        return value
    if kind is ObjectReference and value.cls is None and value.library:
        return MadeLayer(value.library, attributes_of(machine, value))
    if kind is Iterator and value.items is not None:
        return [lowered(machine, item) for item in value.items]
    return UNKNOWN


_PLAIN = frozenset((int, bool, float, str, type(None)))
_TAKEN = (ArrayAt, HostArray, Ratio, AnyScalar, DTypeValue, AxesSymbol, type(...), complex)


def attributes_of(machine: Machine, layer: ObjectReference) -> dict[str, Any]:
    """Return the attributes of a layer, as transfer functions take them."""
    held = machine.heap.read(layer.number)
    values = held.values if type(held) is Attributes else {}
    return {name: lowered(machine, value) for name, value in values.items()}


def raised_value(machine: Machine, result: Any) -> Any:
    """Return the value of a transfer function's result: its lists are new lists."""
    if type(result) is list:
        return new_list(machine, Items(tuple(raised_value(machine, item) for item in result)))
    if type(result) is tuple:
        return tuple(raised_value(machine, item) for item in result)
    if type(result) is MadeLayer:
        made = ObjectReference(new_number(), None, result.name)
        values = {key: raised_value(machine, value) for key, value in result.attributes.items()}
        machine.heap.objects[made.number] = Attributes(values)
        return made
    if type(result) is dict:
        return new_dict(machine, Entries({k: raised_value(machine, v) for k, v in result.items()}))
    return result


def call_table(
    site: ShapeSite,
    name: str,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any] | None = None,
) -> Any:
    """Call a transfer function by its name."""
    function = TRANSFERS.get(name)
    if function is None:
        return UNKNOWN
    if name == "mlx.core.array" and arguments:
        arguments = (_of_repeated(site, arguments[0]), *arguments[1:])
    arguments, keywords = with_sizes(site.machine, name, arguments, keywords or {})
    _learn_last_axes(site.machine, name, arguments, keywords)
    return call_transfer(site, name, function, arguments, keywords)


def _of_repeated(site: ShapeSite, value: Any) -> Any:
    """Return the array of ``[0] * n``; other values as they are."""
    given = site.heap.value(value)
    held = site.heap.read(given.number) if type(given) is ListReference else None
    if type(held) is not Items or held.length is None:
        return value
    item = lowered(site.machine, held.common)
    if type(item) is not ShapedArray and not isinstance(item, (int, float, SizeExpr)):
        return value
    made = literal(_requirements(site), item)
    shape = ArrayShape((held.length, *made.shape.head), made.shape.middle, made.shape.tail)
    return ShapedArray(shape, made.dtype)


def call_meant(
    site: ShapeSite, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Return the result of what a call means that raises for its name alone, without events."""
    arguments, keywords = with_sizes(site.machine, name, arguments, keywords)
    given = [lowered(site.machine, value) for value in arguments]
    named = {key: lowered(site.machine, value) for key, value in keywords.items()}
    found = _attempt(site, TableCall(site.node, name, given, named), TRANSFERS[name])
    result = UNKNOWN if isinstance(found, ShapeError) else found
    return raised_value(site.machine, _stamped(result, site.node))


def _learn_last_axes(
    machine: Machine, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    """Learn that the first argument has the axis that is named from the end."""
    place = _axis_parameter(name)
    if place is None or not arguments:
        return
    at, axis = place
    axis = keywords.get("axis", arguments[at] if at < len(arguments) else axis)
    array = machine.heap.value(arguments[0])
    if type(axis) is int and axis < 0 and type(array) is ShapedArray and axis >= -MOST_AXES:
        machine.heap.learn_last_axes(array.shape, -axis)


@cache
def _axis_parameter(name: str) -> tuple[int, Any] | None:
    """Return the place and default of a parameter that names one of the first argument's axes."""
    if name.endswith(_ADDING):
        return None
    parameters = list(signature(TRANSFERS[name]).parameters.values())[1:]
    for at, one in enumerate(parameters):
        if one.name == "axis" and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            return (at if one.kind is one.POSITIONAL_OR_KEYWORD else MOST_AXES, one.default)
    return None


#: Functions whose ``axis`` is one of the result, or of each array in a list.
_ADDING = (".expand_dims", ".stack", ".concatenate", ".concat")
MOST_AXES = 8


def with_sizes(
    machine: Machine, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Get the arguments of a function of MLX; unknown ones are integers, where it takes these."""
    kinds = _parameter_kinds(name)
    # ``x.reshape(a, b)``: several arguments are one integer each.
    are_ones = "*" in kinds and len(arguments) > 2

    def converted(key: int | str, value: Any) -> Any:
        kind = kinds.get(key, kinds.get("*") if type(key) is int else None)
        if kind == "array":
            return _without_sizes(machine, value)
        return value if kind is None else _as_size(machine, value, is_one=are_ones or kind == "int")

    return (
        tuple(converted(at, value) for at, value in enumerate(arguments)),
        {key: converted(key, value) for key, value in keywords.items()},
    )


@cache
def _parameter_kinds(name: str) -> dict[int | str, str]:
    """Get the parameters of a function that take arrays, an integer or several, by place and name.

    ``*`` stands for all places where a function takes any number of integers.
    """
    entry = mlx_api.lookup(name)
    found: dict[int | str, str] = {}
    start = 1 if name.startswith("mlx.core.array.") else 0  # the array itself
    for at, one in enumerate(() if entry is None else entry.params, start):
        if one.accepts in ("array", "list[array]"):
            kind = "array"
        elif "array" not in one.accepts and (one.takes_only_ints or one.name in ("shape", "stop")):
            kind = "int" if one.accepts == "int" else "ints"
        else:
            continue
        keys = ("*",) if one.kind == "variadic" and kind != "array" else (at, one.name)
        found.update(dict.fromkeys(keys, kind))
    return {**found, 0: "int", 1: "int"} if name == "mlx.core.arange" else found


def _without_sizes(machine: Machine, value: Any) -> Any:
    """Return an argument for arrays: what was taken for a symbolic size is unknown."""
    value = machine.heap.value(value)
    if type(value) is SizeExpr:
        return UNKNOWN
    items = _known_items(machine, value)
    if items is None:
        return value
    found = map(machine.heap.value, items)
    return tuple(UNKNOWN if type(item) is SizeExpr else item for item in found)


def _known_items(machine: Machine, value: Any) -> tuple[Any, ...] | None:
    """Get the items of a tuple, or of a list whose items are known one by one; None of others."""
    if type(value) is not ListReference:
        return value if type(value) is tuple else None
    held = machine.heap.read(value.number)
    return held.items if type(held) is Items else None


def _as_size(machine: Machine, value: Any, *, is_one: bool = True) -> Any:
    """Get an argument for a size: an unknown one is an integer, if it can't be a tuple of them."""
    value = machine.heap.value(value)
    if type(value) is Place:
        if not is_one:
            return value
        number = integer_of_place(machine, value)
        machine.heap.facts.places.setdefault(value, number)
        return number
    items = _known_items(machine, value)
    if items is not None:
        return tuple(_as_size(machine, item) for item in items)
    if type(value) is Options and is_one:
        sizes = [_as_size(machine, v) if type(v) is Place else v for v in value.values]
        # Of one of some numbers, what they have in common is passed.
        return joined_values(sizes) if all(map(is_integer, sizes)) else one_of(sizes)
    return value


def call_transfer(
    site: ShapeSite,
    name: str,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
) -> Any:
    """Call a transfer function, for each combination of what its arguments may be."""
    if "stream" in keywords:  # it decides nothing of the result
        keywords = {key: value for key, value in keywords.items() if key != "stream"}
    given = [_alternatives(site.machine, value) for value in (*arguments, *keywords.values())]
    if math.prod(map(len, given)) > MOST_ALTERNATIVES:
        given = [one if len(one) == 1 else [UNKNOWN] for one in given]
    calls = []
    for chosen in combinations(*given):
        named = dict(zip(keywords, chosen[len(arguments) :], strict=True))
        calls.append(TableCall(site.node, name, list(chosen[: len(arguments)]), named))
    if len(calls) == 1:
        return _call_once(site, calls[0], function)
    tried = [_attempt(site, call, function) for call in calls]
    results = [one for one in tried if not isinstance(one, ShapeError)]
    if not results:
        site.add_event(tried[-1].reason, None, name)
        return UNKNOWN
    return raised_value(site.machine, _stamped(joined_values(results), site.node))


def _attempt(site: ShapeSite, call: TableCall, function: Callable[..., Any]) -> Any:
    """Return the result of a call, or the error that it raises for the shapes."""
    try:
        return function(_requirements(site), *call.arguments, **call.keywords)
    except (ArgumentError, TypeError, KeyError):
        return UNKNOWN
    except ShapeError as error:
        return error


def _alternatives(machine: Machine, value: Any) -> list[Any]:
    value = lowered(machine, value)
    return list(value.values) if type(value) is Options else [value]


def _requirements(site: ShapeSite) -> Requirements:
    machine = site.machine
    return Requirements(assumes=machine.assumes, assumes_ranks=machine.keeps_records)


def _call_once(site: ShapeSite, call: TableCall, function: Callable[..., Any]) -> Any:
    requirements, name = _requirements(site), call.name
    for reason in misread_arguments(call):
        site.add_event(reason, None, name, MISREAD)
    try:
        result = function(requirements, *call.arguments, **call.keywords)
    except ArgumentError as error:
        # What a name holds may be of another kind after all; a literal is what it is.
        keywords_given = getattr(site.node, "keywords", ())
        given = [*getattr(site.node, "args", ()), *(k.value for k in keywords_given)]
        if any(type(one) is ast.Constant and type(one.value) in (bool, float) for one in given):
            site.add_event(error.reason, None, name)
        return UNKNOWN
    except ShapeError as error:
        if not _note_bounds(site, call):
            site.add_event(error.reason, None, name)
        site.heap.facts.failed = True
        return raised_value(site.machine, error.meant)
    except (TypeError, KeyError):
        return UNKNOWN
    _note_bounds(site, call)
    if requirements.axes or requirements.conditions:
        cause = axis_origins.reduced_axis(call) if requirements.conditions else None
        learn(site, cause or site.node, name, requirements)
    if type(result) is ShapedArray:
        result = axis_origins.with_origin(call, result)
        if suspicions.may_be_suspicious(call):
            _note_suspicions(site, call, site.heap.value(result))
    return raised_value(site.machine, _stamped(result, site.node))


def _note_suspicions(site: ShapeSite, call: TableCall, result: ShapedArray) -> None:
    """Note what the author of a call can't mean."""
    known = [site.heap.value(v) if type(v) is ShapedArray else v for v in call.arguments]
    function = site.frame.function
    owner = "" if function is None or function.cls is None else function.cls.name
    found = suspicions.suspicions_of(replace(call, arguments=known), result, owner)
    for at, code, reason in found:
        site.machine.add_event(site.frame, at, reason, None, call.name, code)


def _note_bounds(site: ShapeSite, call: TableCall) -> bool:
    """Note indices out of bounds, and return whether there are any."""
    if call.name not in suspicions.INDEXING:
        return False
    found = list(suspicions.out_of_bounds(site.node, *call.arguments[:2]))
    for at, reason in found:
        site.machine.add_event(site.frame, at, reason, None, call.name, "INDEX-001")
    return bool(found)


def _stamped(result: Any, node: ast.AST) -> Any:
    if type(result) is ShapedArray and not result.line:
        return ShapedArray(result.shape, result.dtype, getattr(node, "lineno", 0), result.origin)
    return result


def learn(site: ShapeSite, node: ast.AST, name: str, requirements: Requirements) -> None:
    """Learn what a call that did not raise requires, and note what it may raise for."""
    heap = site.heap
    for axes, shape in requirements.axes:
        heap.bind_axes(axes, shape)
    for condition in requirements.conditions:
        left, right = heap.integer(condition.left), heap.integer(condition.right)
        if compare(left, right) is Comparison.EQUAL:
            continue
        if _is_decided(site.machine, left, right):
            continue
        site.machine.add_event(site.frame, node, condition.reason, condition, name)
        if not condition.allows_one:
            heap.learn_equal(left, right)


def _is_decided(machine: Machine, left: Integer, right: Integer) -> bool:
    """Return whether a condition on the path says how two sizes are related."""
    symbols = _symbols_of(left) | _symbols_of(right)
    if len(symbols) < 2:
        return False
    return any(len(symbols & _symbols_of(truth.left)) > 1 for truth in machine.heap.facts.truths)


def _symbols_of(number: Any) -> frozenset[SizeSymbol]:
    return number.symbols if type(number) is SizeExpr else frozenset()
