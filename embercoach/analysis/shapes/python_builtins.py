"""Calls of Python's builtins and of its standard library."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import (
    ANY_BOOL,
    ANY_FLOAT,
    ANY_STR,
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    Ratio,
    ShapedArray,
    weak_kind,
)
from embercoach.analysis.shapes.attributes import attribute_of, iterable_of, library_name
from embercoach.analysis.shapes.operations import (
    MOST_ITEMS,
    binary,
    dict_entries,
    iterated_items,
    truth_of,
)
from embercoach.analysis.shapes.path_conditions import is_instance
from embercoach.analysis.shapes.python_values import (
    Attributes,
    ClassValue,
    DictReference,
    Entries,
    Items,
    Iterator,
    LibraryName,
    ListReference,
    PartialCall,
    Place,
    SuperValue,
    bounded,
)
from embercoach.analysis.shapes.requirements import is_integer
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    SizeExpr,
    ceil_divide,
    floor_divide,
    greatest,
    least,
    multiply,
)
from embercoach.analysis.shapes.table_calls import (
    as_integer,
    call_table,
    integer_of_place,
    new_dict,
    new_list,
)
from embercoach.analysis.shapes.value_joins import joined_values

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import ShapeCall, ShapeSite

#: Transformations that leave what a function computes as it is.
SAME_FUNCTIONS = frozenset(
    (
        *("mlx.core.compile", "mlx.core.checkpoint", "mlx.core.custom_function"),
        *("mlx.nn.utils.checkpoint", "builtins.decorator", "functools.cache"),
        "functools.lru_cache",
    )
)


def _len(call: ShapeCall) -> Any:
    value = call.value()
    if type(value) is ShapedArray:
        shape = value.shape
        return shape.head[0] if shape.head else ANY_INT
    if type(value) is tuple:
        if any(type(item) is AxesSymbol for item in value):
            middle = next(item for item in value if type(item) is AxesSymbol)
            at = value.index(middle)
            return call.heap.rank_of(ArrayShape(value[:at], middle, value[at + 1 :]))
        return len(value)
    held = iterated_items(call.machine, value)
    if held.items is not None or held.length is not None:
        return held.length if held.items is None else len(held.items)
    if type(value) is str:
        return len(value)
    if type(value) is Place and value.is_setting:
        length = call.machine.part_of(value, "len", f"len({value.name})")
        return integer_of_place(call.machine, length)
    return ANY_INT


def _to_integer(
    of_float: Callable[[float], int], divide: Callable[[Integer, Integer], Integer]
) -> Any:
    """``int(x)`` and the like: of a float, and of a quotient."""

    def handler(call: ShapeCall) -> Any:
        value = call.value(0, 0)
        if type(value) is Ratio:
            return divide(value.numerator, value.denominator)
        number = as_integer(call.machine, value)
        if number is not None:
            return number
        is_known = type(value) in (float, bool) and math.isfinite(value)
        return of_float(value) if is_known else ANY_INT

    return handler


def _round(call: ShapeCall) -> Any:
    if len(call.arguments) != 1:
        return ANY_FLOAT
    value = call.value()
    number = as_integer(call.machine, value)
    if number is not None:
        return number
    if type(value) is ShapedArray:
        return call_table(call, "mlx.core.round", (value,))
    return round(value) if type(value) is float and math.isfinite(value) else ANY_INT


def _extreme(choose: Callable[[Any], Integer]) -> Any:
    def handler(call: ShapeCall) -> Any:
        values = call.arguments
        if len(call.arguments) == 1:
            held = iterated_items(call.machine, call.value())
            if held.items is None or call.keywords:
                return ANY_INT if weak_kind(held.common) == "int" else UNKNOWN
            values = held.items
        numbers = [as_integer(call.machine, call.heap.value(value)) for value in values]
        if numbers and None not in numbers:
            return choose(numbers)
        kinds = {weak_kind(call.heap.value(value)) for value in values}
        return ANY_FLOAT if kinds <= {"int", "float", "bool"} else UNKNOWN

    return handler


def _sum(call: ShapeCall) -> Any:
    held = iterated_items(call.machine, call.value())
    if held.items is None:
        common = call.heap.value(held.common)
        if type(common) is ShapedArray and common.shape.rank is not None:
            return common
        return UNKNOWN
    total: Any = call.arguments[1] if len(call.arguments) > 1 else 0
    for item in held.items:
        total = binary(call, ast.Add, total, item)
    return total


def _range(call: ShapeCall) -> Any:
    numbers = [as_integer(call.machine, call.heap.value(value)) for value in call.arguments]
    known = [number for number in numbers if type(number) is int]
    if len(known) == len(numbers) and 1 <= len(numbers) <= 3:
        try:
            found = range(*known)
        except ValueError:
            return UNKNOWN
        if len(found) <= MOST_ITEMS:
            return Iterator(tuple(found))
    return Iterator(None, ANY_INT)


def _zip(call: ShapeCall) -> Any:
    values = [iterable_of(call, call.heap.value(value)) for value in call.arguments]
    parts = [iterated_items(call.machine, value) for value in values]
    known = [part.items for part in parts if part.items is not None]
    if parts and len(known) == len(parts):
        return bounded(Iterator(tuple(zip(*known, strict=False))))
    if known and min(map(len, known)) <= 8:
        count = min(map(len, known))
        columns = [p.items[:count] if p.items is not None else (p.common,) * count for p in parts]
        if not count:
            return Iterator(())
        return Iterator(None, joined_values(list(zip(*columns, strict=True))))
    return bounded(Iterator(None, tuple(_any_of(part) for part in parts)))


def _any_of(part: Items) -> Any:
    if part.items is None:
        return part.common
    return joined_values(list(part.items)) if part.items else UNKNOWN


def _enumerate(call: ShapeCall) -> Any:
    held = iterated_items(call.machine, iterable_of(call, call.value()))
    start = call.keywords.get("start", call.arguments[1] if len(call.arguments) > 1 else 0)
    if held.items is not None and type(start) is int:
        return bounded(Iterator(tuple((start + at, item) for at, item in enumerate(held.items))))
    return Iterator(None, (ANY_INT, _any_of(held)))


def _copied(kind: str) -> Any:
    def handler(call: ShapeCall) -> Any:
        held = iterated_items(call.machine, iterable_of(call, call.value(0, ())))
        if kind == "list":
            return new_list(call.machine, held)
        if kind == "tuple":
            value = call.value(0, ())
            if type(value) is tuple:
                return value
            return UNKNOWN if held.items is None else held.items
        if kind == "reversed":
            return Iterator(None if held.items is None else held.items[::-1], held.common)
        return Iterator(None, _any_of(held))

    return handler


def _map(call: ShapeCall) -> Any:
    if len(call.arguments) != 2:
        return Iterator(None)
    held = iterated_items(call.machine, call.value(1))
    if held.items is not None:
        return Iterator(tuple(call.call(call.arguments[0], (item,)) for item in held.items))
    return Iterator(None, call.call(call.arguments[0], (held.common,)))


def _getattr(call: ShapeCall) -> Any:
    if len(call.arguments) < 2 or type(call.arguments[1]) is not str:
        return UNKNOWN
    owner = call.value()
    found = attribute_of(call, owner, call.arguments[1])
    if len(call.arguments) < 3:
        return found
    held = call.heap.read(getattr(owner, "number", -1))
    if type(held) is Attributes and call.arguments[1] in held.values:
        return found
    if found is UNKNOWN or type(found) is Place:
        return found
    return joined_values([found, call.arguments[2]])


def _isinstance(call: ShapeCall) -> Any:
    if len(call.arguments) != 2:
        return ANY_BOOL
    found = is_instance(call.value(), call.arguments[1])
    return ANY_BOOL if found is None else found


def _hasattr(call: ShapeCall) -> Any:
    if len(call.arguments) == 2 and type(call.arguments[1]) is str:
        held = call.heap.read(getattr(call.arguments[0], "number", -1))
        if type(held) is Attributes and call.arguments[1] in held.values:
            return ANY_BOOL if call.arguments[1] in held.doubtful else True
        # mlx-lm's caches: what ``update_and_fetch`` of an unknown one returns is not quantized.
        if call.arguments[1] == "bits" and type(held) is not Attributes:
            return False
    return ANY_BOOL


def _partial(call: ShapeCall) -> Any:
    if not call.arguments:
        return UNKNOWN
    function, *rest = call.arguments
    if type(function) is LibraryName and function.name in SAME_FUNCTIONS:
        return LibraryName("builtins.decorator")
    return bounded(PartialCall(function, tuple(rest), tuple(call.keywords.items())))


def _constant(value: Any) -> Any:
    return lambda _call: value


def _abs(call: ShapeCall) -> Any:
    value: Any = call.value()
    if type(value) is ShapedArray:
        return call_table(call, "mlx.core.abs", (value,))
    if type(value) in (int, float):
        return abs(value)
    if type(value) is SizeExpr and value.symbol is not None:
        return value
    return ANY_INT if is_integer(value) else ANY_FLOAT


def _divmod(call: ShapeCall) -> Any:
    if len(call.arguments) != 2:
        return UNKNOWN
    a, b = call.arguments
    return binary(call, ast.FloorDiv, a, b), binary(call, ast.Mod, a, b)


def _product(call: ShapeCall) -> Any:
    """``math.prod(x.shape)``."""
    held = iterated_items(call.machine, call.value())
    if held.items is None:
        return ANY_INT
    total: Integer = 1
    for item in held.items:
        number = as_integer(call.machine, call.heap.value(item))
        if number is None:
            return UNKNOWN
        total = multiply(total, number)
    return total


def _dict(call: ShapeCall) -> Any:
    held = dict_entries(call.machine, call.arguments[0]) if call.arguments else Entries({})
    return new_dict(call.machine, Entries({**held.known, **call.keywords}, held.is_open))


def _super_of(call: ShapeCall) -> Any:
    if len(call.arguments) == 2 and type(call.arguments[0]) is ClassValue:
        return SuperValue(call.arguments[0], call.arguments[1])
    return UNKNOWN


def _tree_map(call: ShapeCall) -> Any:
    if len(call.arguments) < 2:
        return UNKNOWN
    return _mapped(call, call.arguments[0], call.arguments[1:], 0)


def _mapped(site: ShapeSite, function: Any, trees: tuple[Any, ...], depth: int) -> Any:
    tree = site.heap.value(trees[0])
    if type(tree) is ShapedArray:
        return site.call(function, trees)
    if len(trees) > 1 or depth > 4:
        return UNKNOWN
    if type(tree) is tuple:
        return tuple(_mapped(site, function, (t,), depth + 1) for t in tree)
    if type(tree) is ListReference:
        items = iterated_items(site.machine, tree).items
        if items is not None:
            found = tuple(_mapped(site, function, (t,), depth + 1) for t in items)
            return new_list(site.machine, Items(found))
    held = site.heap.read(tree.number) if type(tree) is DictReference else None
    if type(held) is Entries and not held.is_open:
        entries = held.known.items()
        made = {key: _mapped(site, function, (item,), depth + 1) for key, item in entries}
        return new_dict(site.machine, Entries(made))
    return UNKNOWN


def _module(call: ShapeCall) -> Any:
    """``pytest.importorskip("mlx.core")``."""
    name = call.arguments[0] if call.arguments else None
    is_ours = isinstance(name, str) and name.partition(".")[0] == "mlx"
    return library_name(str(name)) if is_ours else UNKNOWN


HANDLERS: dict[str, Callable[[ShapeCall], Any]] = {
    "builtins.len": _len,
    **dict.fromkeys(("builtins.int", "math.floor", "math.trunc"), _to_integer(int, floor_divide)),
    "math.ceil": _to_integer(math.ceil, ceil_divide),
    "math.prod": _product,
    **dict.fromkeys(
        [f"math.{name}" for name in ("sqrt", "log", "log2", "exp", "cos", "sin", "pow")],
        _constant(ANY_FLOAT),
    ),
    "builtins.float": _constant(ANY_FLOAT),
    "builtins.str": _constant(ANY_STR),
    "builtins.bool": lambda call: (
        bool(call.arguments) and truth_of(call.machine, call.arguments[0])
    ),
    "builtins.round": _round,
    "builtins.abs": _abs,
    "builtins.min": _extreme(least),
    "builtins.max": _extreme(greatest),
    "builtins.sum": _sum,
    "builtins.range": _range,
    "builtins.zip": _zip,
    "builtins.enumerate": _enumerate,
    **{f"builtins.{one}": _copied(one) for one in ("list", "tuple", "reversed", "sorted", "iter")},
    **{f"tqdm.{name}": _copied("iter") for name in ("tqdm", "auto.tqdm", "std.tqdm")},
    "builtins.map": _map,
    "builtins.dict": _dict,
    "builtins.divmod": _divmod,
    "builtins.getattr": _getattr,
    "builtins.hasattr": _hasattr,
    "builtins.isinstance": _isinstance,
    "builtins.super": _super_of,
    "builtins.print": _constant(None),
    "functools.partial": _partial,
    "importlib.import_module": _module,
    "pytest.importorskip": _module,
    "mlx.core.eval": _constant(None),
    "mlx.core.async_eval": _constant(None),
    "mlx.utils.tree_map": _tree_map,
}
