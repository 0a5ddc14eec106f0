"""Calls of Python's builtins and of its standard library."""

from __future__ import annotations

import ast
import math
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
from embercoach.analysis.shapes.attributes import attribute_of, library_name
from embercoach.analysis.shapes.interpreter import call
from embercoach.analysis.shapes.iterated_values import elements_of
from embercoach.analysis.shapes.operations import MOST_ITEMS, binary, truth_of
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
    from collections.abc import Callable

    from embercoach.analysis.shapes.interpreter import Machine
    from embercoach.analysis.shapes.path_states import Frame

    Arguments = tuple[Any, ...]
    Keywords = dict[str, Any]

#: Transformations that leave what a function computes as it is.
SAME_FUNCTIONS = frozenset(
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
        key = (id(value), "len")
        if key not in machine.open_attributes:
            machine.open_attributes[key] = Place(f"len({value.name})", is_setting=True, scope=value)
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
    total: Any = arguments[1] if len(arguments) > 1 else 0
    for item in held.items:
        total = binary(machine, frame, node, ast.Add, total, item)
    return total


def _range(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    numbers = [as_integer(machine, machine.heap.value(value)) for value in arguments]
    known = [number for number in numbers if type(number) is int]
    if len(known) == len(numbers) and 1 <= len(numbers) <= 3:
        try:
            found = range(*known)
        except ValueError:
            return UNKNOWN
        if len(found) <= MOST_ITEMS:
            return Iterator(tuple(found))
    return Iterator(None, ANY_INT)


def _zip(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    parts = [elements_of(machine, machine.heap.value(value)) for value in arguments]
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


def _enumerate(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, keywords: Keywords
) -> Any:
    held = elements_of(machine, machine.heap.value(arguments[0])) if arguments else Items(None)
    start = keywords.get("start", arguments[1] if len(arguments) > 1 else 0)
    if held.items is not None and type(start) is int:
        return bounded(Iterator(tuple((start + at, item) for at, item in enumerate(held.items))))
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
            tuple(call(machine, frame, node, arguments[0], (item,), {}) for item in held.items)
        )
    return Iterator(None, call(machine, frame, node, arguments[0], (held.common,), {}))


def _getattr(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords
) -> Any:
    if len(arguments) < 2 or type(arguments[1]) is not str:
        return UNKNOWN
    owner = machine.heap.value(arguments[0])
    found = attribute_of(machine, frame, node, owner, arguments[1])
    if len(arguments) < 3:
        return found
    held = machine.heap.read(getattr(owner, "number", -1))
    if type(held) is Attributes and arguments[1] in held.values:
        return found
    if found is UNKNOWN:
        return UNKNOWN
    if type(found) is Place and type(arguments[2]) is int:
        return found
    return joined_values([found, arguments[2]]) if type(found) is not Place else found


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
        held = machine.heap.read(getattr(arguments[0], "number", -1))
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
    if type(function) is LibraryName and function.name in SAME_FUNCTIONS:
        return LibraryName("builtins.decorator")
    return bounded(PartialCall(function, tuple(rest), tuple(keywords.items())))


def _constant(value: Any) -> Any:
    def handler(
        machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords
    ) -> Any:
        return value

    return handler


def _abs(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    value: Any = machine.heap.value(arguments[0]) if arguments else UNKNOWN
    if type(value) is ShapedArray:
        return call_table(machine, frame, node, "mlx.core.abs", (value,), {})
    if type(value) in (int, float):
        return abs(value)
    if type(value) is SizeExpr and value.symbol is not None:
        return value
    return ANY_INT if is_integer(value) else ANY_FLOAT


def _bool(machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords) -> Any:
    return truth_of(machine, arguments[0]) if arguments else False


def _divmod(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, _: Keywords
) -> Any:
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
        held = machine.heap.read(getattr(arguments[0], "number", -1))
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
        return call(machine, frame, node, function, trees, {})
    if len(trees) > 1 or depth > 4:
        return UNKNOWN
    if type(tree) is tuple:
        return tuple(_mapped(machine, frame, node, function, (t,), depth + 1) for t in tree)
    if type(tree) is ListReference:
        items = elements_of(machine, tree).items
        if items is not None:
            found = tuple(_mapped(machine, frame, node, function, (t,), depth + 1) for t in items)
            return new_list(machine, Items(found))
    held = machine.heap.read(tree.number) if type(tree) is DictReference else None
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


def _module(
    machine: Machine, frame: Frame, node: ast.AST, arguments: Arguments, keywords: Keywords
) -> Any:
    """``pytest.importorskip("mlx.core")``."""
    name = arguments[0] if arguments else None
    is_ours = isinstance(name, str) and name.partition(".")[0] == "mlx"
    return library_name(str(name)) if is_ours else UNKNOWN


HANDLERS: dict[str, Callable[[Machine, Frame, ast.AST, Arguments, Keywords], Any]] = {
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
    "importlib.import_module": _module,
    "pytest.importorskip": _module,
    "mlx.core.eval": _constant(None),
    "mlx.core.async_eval": _constant(None),
    "mlx.utils.tree_map": _tree_map,
}
