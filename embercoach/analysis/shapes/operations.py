"""Operations of Python on values: arithmetic, comparison, indexing, and calls of the table."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product as combinations
from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import (
    ANY_BOOL,
    ANY_COMPLEX,
    ANY_FLOAT,
    ANY_STR,
    UNKNOWN,
    AnyScalar,
    ArrayShape,
    AxesSymbol,
    DTypeValue,
    HostArray,
    Ratio,
    ShapedArray,
    promote_weak,
    weak_kind,
)
from embercoach.analysis.shapes.attributes import is_named_tuple
from embercoach.analysis.shapes.host_arrays import host_arithmetic
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
    Reference,
    Truth,
    bounded,
    one_of,
    options_of,
)
from embercoach.analysis.shapes.requirements import is_integer
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Comparison,
    Integer,
    SizeExpr,
    add,
    compare,
    floor_divide,
    modulo,
    multiply,
    product,
    subtract,
)
from embercoach.analysis.shapes.table_calls import (
    as_integer,
    call_table,
    integer_of_place,
    new_list,
)
from embercoach.analysis.shapes.value_joins import joined_values

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import Machine, ShapeSite


def same_item(items: Sequence[Any]) -> Any:
    """Return the item that all of some are; ``UNKNOWN`` if they differ, or there are none."""
    first = items[0] if items else UNKNOWN
    return first if all(item is first or item == first for item in items) else UNKNOWN


def dict_entries(machine: Machine, value: Any) -> Entries:
    """Return the contents of a dictionary; of another value any."""
    held = machine.heap.read(getattr(value, "number", -1))
    return held if type(held) is Entries else Entries({}, is_open=True)


def iterated_items(machine: Machine, value: Any) -> Items:
    """Return the items of a list, tuple, iterator, range, dictionary (its keys) or array."""
    handler = _HANDLERS.get(type(value))
    return Items(None) if handler is None else handler(machine, value)


def _of_tuple(machine: Machine, value: tuple[Any, ...]) -> Items:
    if any(type(item) is AxesSymbol for item in value):
        return Items(None, ANY_INT)
    return Items(value)


def _of_list(machine: Machine, value: ListReference) -> Items:
    held = machine.heap.read(value.number)
    return held if type(held) is Items else Items(None)


def _of_dict(machine: Machine, value: DictReference) -> Items:
    held = machine.heap.read(value.number)
    if type(held) is Entries and not held.is_open:
        return Items(tuple(held.known))
    return Items(None)


def _of_array(machine: Machine, value: ShapedArray) -> Items:
    shape = machine.heap.shape(value.shape)
    if not shape.head:
        return Items(None)
    rest = ArrayShape(shape.head[1:], shape.middle, shape.tail)
    row = ShapedArray(rest, value.dtype, value.line)
    first = shape.head[0]
    if shape.middle is None and type(first) is int and 0 <= first <= MOST_ROWS:
        return Items((row,) * first)
    return Items(None, row)


#: Rows of an array that are known one by one.
MOST_ROWS = 16


def _of_host_array(machine: Machine, value: HostArray) -> Items:
    if not value.shape.rank:
        return Items(None)
    return Items(None, HostArray(ArrayShape(value.shape.head[1:])))


def _of_object(machine: Machine, value: ObjectReference) -> Items:
    held = machine.heap.read(value.number)
    if type(held) is Attributes and is_named_tuple(value.cls):
        return Items(tuple(held.values.values()))
    return Items(None)


def _of_options(machine: Machine, value: Options) -> Items:
    parts = [iterated_items(machine, option) for option in value.values if option is not None]
    return parts[0] if len(parts) == 1 else Items(None)


_HANDLERS: dict[type, Callable[[Machine, Any], Items]] = {
    tuple: _of_tuple,
    ListReference: _of_list,
    Iterator: lambda _machine, value: Items(value.items, value.common),
    DictReference: _of_dict,
    ShapedArray: _of_array,
    HostArray: _of_host_array,
    ObjectReference: _of_object,
    str: lambda _machine, _value: Items(None, ANY_STR),
    Options: _of_options,
}


_ARRAY_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "mlx.core.add",
    ast.Sub: "mlx.core.subtract",
    ast.Mult: "mlx.core.multiply",
    ast.Div: "mlx.core.divide",
    ast.FloorDiv: "mlx.core.floor_divide",
    ast.Mod: "mlx.core.remainder",
    ast.Pow: "mlx.core.power",
    ast.MatMult: "mlx.core.matmul",
    ast.BitAnd: "mlx.core.array.__and__",
    ast.BitOr: "mlx.core.array.__or__",
    ast.BitXor: "mlx.core.array.__xor__",
    ast.LShift: "mlx.core.array.__lshift__",
    ast.RShift: "mlx.core.array.__rshift__",
    ast.Eq: "mlx.core.equal",
    ast.NotEq: "mlx.core.not_equal",
    ast.Lt: "mlx.core.less",
    ast.LtE: "mlx.core.less_equal",
    ast.Gt: "mlx.core.greater",
    ast.GtE: "mlx.core.greater_equal",
}
_SYMBOLS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


def binary(site: ShapeSite, kind: type[ast.AST], a: Any, b: Any) -> Any:
    """``a OP b``."""
    a, b = site.heap.value(a), site.heap.value(b)
    if type(a) is HostArray or type(b) is HostArray:
        return UNKNOWN if kind is ast.MatMult else host_arithmetic(a, b)
    if type(a) is ShapedArray or type(b) is ShapedArray:
        return _arrays(site, kind, a, b)
    if type(a) is Options or type(b) is Options:
        return one_of(
            [
                binary(site, kind, x, y)
                for x, y in combinations(options_of(a), options_of(b))
                if x is not None and y is not None
            ]
            or [UNKNOWN]
        )
    if kind is ast.Pow and type(a) is int and type(b) is Place:
        return ANY_INT  # ``2**bits``
    m, n = _integer_beside(site.machine, a, b), _integer_beside(site.machine, b, a)
    if m is not None and n is not None:
        operation = _INTEGER_OPERATIONS.get(kind)
        return ANY_INT if operation is None else operation(m, n)
    x, y = weak_kind(a), weak_kind(b)
    if x is not None and y is not None:
        return _numbers(kind, a, b, x, y)
    if (x == "float" and n is not None) or (y == "float" and m is not None):
        return ANY_FLOAT
    return _sequences(site.machine, kind, a, b, m, n)


def _integer_beside(machine: Machine, value: Any, other: Any) -> Integer | None:
    """Return the integer that a value is; an unknown one next to a size is a number."""
    if type(value) is Place and type(other) is SizeExpr:
        return integer_of_place(machine, value)
    return as_integer(machine, value)


def _sequences(
    machine: Machine,
    kind: type[ast.AST],
    a: Any,
    b: Any,
    m: Integer | None,
    n: Integer | None,
) -> Any:
    """Lists, tuples and strings: joined, repeated or formatted."""
    if kind is ast.Add:
        if type(a) is tuple and type(b) is tuple and len(a) + len(b) <= 64:
            return bounded(a + b)
        if type(a) is ListReference and type(b) is ListReference:
            left, right = machine.heap.read(a.number), machine.heap.read(b.number)
            if type(left) is Items and type(right) is Items:
                return new_list(machine, joined_items(left, right))
        if type(a) is str and type(b) is str and len(a) + len(b) < 1000:
            return a + b
        return ANY_STR if {type(a), type(b)} <= {str, AnyScalar} else UNKNOWN
    if kind is ast.Mult and (m is not None or n is not None):
        return _repeated(machine, a if n is not None else b, n if n is not None else m)
    if kind is ast.Mod and (type(a) is str or a is ANY_STR):
        return ANY_STR
    return UNKNOWN


def _arrays(site: ShapeSite, kind: type[ast.AST], a: Any, b: Any) -> Any:
    if kind in _ARITHMETIC:
        quick = None if kind is ast.Pow else _same_shape(a, b, site.node)
        if quick is not None:
            return quick
    name = _ARRAY_OPERATORS.get(kind)
    a, b = _number_of(site.machine, kind, a), _number_of(site.machine, kind, b)
    if name is None or not (_is_operand(a) and _is_operand(b)):
        return UNKNOWN
    return call_table(site, name, (a, b))


def _is_operand(value: Any) -> bool:
    """Return whether an operand next to an array may be an array or a number."""
    return (
        type(value) in (ShapedArray, Place, Options)
        or value is UNKNOWN
        or weak_kind(value) is not None
    )


#: Operators whose result has the dtype that the operands promote to.
_ARITHMETIC = frozenset((ast.Add, ast.Sub, ast.Mult))


def _same_shape(a: Any, b: Any, node: ast.AST) -> ShapedArray | None:
    """Get the result for two arrays of one shape and dtype, or for one and a number of its kind."""
    if type(a) is ShapedArray and type(b) is ShapedArray:
        if a.shape != b.shape or a.dtype is None or a.dtype != b.dtype or a.dtype == "bool":
            return None
        if a.origin is not None and b.origin is not None:
            return None  # together they may mean more
        origin = a.origin if b.origin is None else None
        return ShapedArray(a.shape, a.dtype, getattr(node, "lineno", 0), origin)
    array, number = (a, b) if type(a) is ShapedArray else (b, a)
    kind = weak_kind(number)
    if kind not in ("int", "float") or array.dtype is None or array.dtype == "bool":
        return None
    dtype = promote_weak(array.dtype, kind)
    return ShapedArray(array.shape, dtype, getattr(node, "lineno", 0), array.origin)


def _number_of(machine: Machine, kind: type[ast.AST], value: Any) -> Any:
    """Return a setting next to an array as a number, except in a matrix product."""
    if type(value) is Place:
        is_number = value.is_setting and kind is not ast.MatMult
        return integer_of_place(machine, value) if is_number else UNKNOWN
    return value


def _power(m: Integer, n: Integer) -> Any:
    if type(n) is not int:
        return ANY_INT
    if 0 <= n <= 64 and type(m) is int and abs(m) < 1 << 16:
        return m**n
    if 0 <= n <= 3:
        return product((m,) * n)
    return ANY_FLOAT if n < 0 else ANY_INT


def _of_bits(
    operation: Callable[[int, int], int], least: float = -math.inf, most: float = math.inf
) -> Callable[[Integer, Integer], Integer]:
    """Return an operation on known integers, of which the second one is in a range."""

    def handler(m: Integer, n: Integer) -> Integer:
        if type(m) is int and type(n) is int and least <= n <= most:
            return operation(m, n)
        return ANY_INT

    return handler


_INTEGER_OPERATIONS: dict[type[ast.AST], Callable[[Integer, Integer], Any]] = {
    ast.Add: add,
    ast.Sub: subtract,
    ast.Mult: multiply,
    ast.FloorDiv: floor_divide,
    ast.Mod: modulo,
    ast.Div: Ratio,
    ast.Pow: _power,
    ast.BitAnd: _of_bits(operator.and_),
    ast.BitOr: _of_bits(operator.or_),
    ast.BitXor: _of_bits(operator.xor),
    ast.LShift: _of_bits(operator.lshift, 0, 64),
    ast.RShift: _of_bits(operator.rshift, 0),
}


def _numbers(kind: type[ast.AST], a: Any, b: Any, x: str, y: str) -> Any:
    """Arithmetic where at least one of the numbers isn't an integer."""
    if "complex" in (x, y):
        return ANY_COMPLEX
    if kind in (ast.Mult, ast.Div):
        left, right = _ratio(a), _ratio(b)
        if left is not None and right is not None:
            if kind is ast.Div:
                right = Ratio(right.denominator, right.numerator)
            if type(a) is not float or type(b) is not float:
                return Ratio(
                    multiply(left.numerator, right.numerator),
                    multiply(left.denominator, right.denominator),
                )
    if type(a) in (int, float, bool) and type(b) in (int, float, bool):
        return _computed(kind, a, b)
    if x == "bool" and y == "bool" and kind in (ast.BitAnd, ast.BitOr, ast.BitXor):
        return ANY_BOOL
    return ANY_FLOAT if "float" in (x, y) or kind is ast.Div else ANY_INT


def _computed(kind: type[ast.AST], a: float, b: float) -> Any:
    operation = _FLOAT_OPERATIONS.get(kind)
    if operation is None or (kind is ast.Pow and not (abs(b) <= 64 and abs(a) < 1e6)):
        return ANY_FLOAT
    try:
        return operation(a, b)
    except (ArithmeticError, ValueError):
        return ANY_FLOAT


_FLOAT_OPERATIONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def _ratio(value: Any) -> Ratio | None:
    if type(value) is Ratio:
        return value
    if type(value) is bool:
        return Ratio(int(value), 1)
    if is_integer(value):
        return Ratio(value, 1)
    if type(value) is float and math.isfinite(value):
        exact = Fraction(value)
        if exact.denominator <= 1 << 12:
            return Ratio(exact.numerator, exact.denominator)
    return None


def joined_items(left: Items, right: Items) -> Items:
    """Return the items of two lists joined."""
    if left.items is not None and right.items is not None:
        if len(left.items) + len(right.items) <= MOST_ITEMS:
            return Items(left.items + right.items)
        return Items(None, UNKNOWN)
    if left.items == ():
        return right
    if right.items == ():
        return left
    parts = [
        x for one in (left, right) for x in (one.items if one.items is not None else [one.common])
    ]
    return Items(None, joined_values(parts))


#: Items of a list that are known one by one.
MOST_ITEMS = 64


def _repeated(machine: Machine, value: Any, times: Integer | None) -> Any:
    """``[0] * n``."""
    if type(value) is tuple:
        if type(times) is int and 0 <= times * len(value) <= MOST_ITEMS:
            return bounded(value * times)
        return UNKNOWN
    if type(value) is ListReference:
        held = machine.heap.read(value.number)
        if type(held) is not Items or held.items is None:
            return UNKNOWN
        if type(times) is int and 0 <= times * len(held.items) <= MOST_ITEMS:
            return new_list(machine, Items(held.items * times))
        if len(held.items) != 1:
            return new_list(machine, Items(None))
        return new_list(machine, Items(None, held.items[0], times))
    return ANY_STR if type(value) is str else UNKNOWN


# -- comparison ------------------------------------------------------------------------------


def compared(site: ShapeSite, kind: type[ast.AST], a: Any, b: Any) -> Any:
    """``a < b`` and the like; a ``Truth`` where it is not decided."""
    a, b = site.heap.value(a), site.heap.value(b)
    if kind in (ast.Is, ast.IsNot):
        return _is_same(kind is ast.IsNot, a, b)
    if kind in (ast.In, ast.NotIn):
        return _is_in(site.machine, kind is ast.NotIn, a, b)
    if type(a) is ShapedArray or type(b) is ShapedArray:
        if a is None or b is None or type(a) is str or type(b) is str:
            return kind is ast.NotEq
        name = _ARRAY_OPERATORS.get(kind)
        return UNKNOWN if name is None else call_table(site, name, (a, b))
    if a is UNKNOWN or b is UNKNOWN or type(a) is Options or type(b) is Options:
        return UNKNOWN
    m: Any = a if not (type(a) is Place and is_integer(b)) else as_integer(site.machine, a)
    n: Any = b if not (type(b) is Place and is_integer(a)) else as_integer(site.machine, b)
    if is_integer(m) and is_integer(n):
        if type(m) is SizeExpr and type(n) is SizeExpr and m.symbol and n.symbol:
            # The program knows that they may be equal, or differ.
            site.heap.compared.add(frozenset((m.symbol, n.symbol)))
            site.heap.compared.add(frozenset((m.symbol.name, n.symbol.name)))
        return _integers_compared(kind, m, n)
    if _is_plain(a) and _is_plain(b):
        return _plain_compared(kind, a, b)
    if type(a) is tuple and type(b) is tuple and kind in (ast.Eq, ast.NotEq):
        return _tuples_compared(site, kind, a, b)
    if kind in (ast.Eq, ast.NotEq) and _is_hashable(a) and _is_hashable(b):
        return Truth("==", a, b, is_negated=kind is ast.NotEq)
    return ANY_BOOL if weak_kind(a) and weak_kind(b) else UNKNOWN


def _is_hashable(value: Any) -> bool:
    return type(value) in (Place, str, int, float, bool, type(None), DTypeValue) or isinstance(
        value, Reference
    )


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str)


def _plain_compared(kind: type[ast.AST], a: Any, b: Any) -> Any:
    try:
        return _COMPARISONS[kind](a, b)
    except TypeError:
        return UNKNOWN


_COMPARISONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _tuples_compared(site: ShapeSite, kind: type[ast.AST], a: Any, b: Any) -> Any:
    negated = kind is ast.NotEq
    is_known = all(type(item) in (int, SizeExpr, AxesSymbol) for item in (*a, *b))
    undecided = Truth("==", a, b, is_negated=negated) if is_known else ANY_BOOL
    if any(type(item) is AxesSymbol for item in (*a, *b)):
        return undecided
    if len(a) != len(b):
        return negated
    parts = [compared(site, ast.Eq, x, y) for x, y in zip(a, b, strict=True)]
    if False in parts:
        return negated
    return not negated if all(part is True for part in parts) else undecided


_NEGATED: dict[type[ast.AST], type[ast.AST]] = {ast.NotEq: ast.Eq, ast.GtE: ast.Lt, ast.Gt: ast.LtE}


def _integers_compared(kind: type[ast.AST], m: Integer, n: Integer) -> Any:
    difference = subtract(m, n)
    if type(difference) is int:
        return _plain_compared(kind, difference, 0)
    if difference is ANY_INT:
        return ANY_BOOL
    if kind in (ast.Eq, ast.NotEq) and compare(m, n) is Comparison.DIFFERENT:
        return kind is ast.NotEq
    plain = _NEGATED.get(kind, kind)
    return Truth(_SYMBOLS[plain], difference, 0, is_negated=plain is not kind)


def _is_same(negated: bool, a: Any, b: Any) -> Any:
    for value, other in ((a, b), (b, a)):
        if other is not None:
            continue
        if value is None:
            return not negated
        if value is UNKNOWN:
            return ANY_BOOL
        if type(value) is Place:
            return Truth("is", value, None, is_negated=negated)
        if type(value) is Options:
            return ANY_BOOL if None in value.values else negated
        return negated
    if type(a) is bool and type(b) is bool:
        return (a is b) != negated
    return ANY_BOOL


def _is_in(machine: Machine, negated: bool, a: Any, b: Any) -> Any:
    items: Any = b
    if type(b) is ListReference:
        held = machine.heap.read(b.number)
        items = held.items if type(held) is Items else None
    elif type(b) is DictReference:
        held = machine.heap.read(b.number)
        if type(held) is Entries and not held.is_open and type(a) in (str, int):
            return (a in held.known) != negated
        return ANY_BOOL
    elif type(b) is ObjectReference:
        held = machine.heap.read(b.number)
        if type(held) is not Attributes or not b.library or a in held.doubtful:
            return ANY_BOOL
        return (a in held.values) != negated if type(a) is str else ANY_BOOL
    if type(items) is tuple and type(a) in (str, int):
        if any(type(item) is type(a) and item == a for item in items):
            return not negated
        if all(_is_plain(item) for item in items):
            return negated
    if type(a) is str and type(b) is str:
        return (a in b) != negated
    if type(a) is Place and type(items) is tuple and all(map(_is_plain, items)):
        return Truth("in", a, items, is_negated=negated)
    return ANY_BOOL


def truth_of(machine: Machine, value: Any) -> Any:
    """Return whether a value is true: ``True``, ``False``, a ``Truth``, or ``ANY_BOOL``."""
    value = machine.heap.value(value)
    kind = type(value)
    if kind is bool or kind is Truth:
        return value
    if value is None or kind in (int, float, str, tuple):
        return bool(value)
    if kind is SizeExpr:
        return machine.heap.truth(Truth("==", value, 0, is_negated=True))
    if kind is Place:
        return machine.heap.truth(Truth("true", value, None))
    if kind is ListReference:
        held = machine.heap.read(value.number)
        return bool(held.items) if type(held) is Items and held.items is not None else ANY_BOOL
    return ANY_BOOL


def negated(value: Any) -> Any:
    """``not value`` of what ``truth_of`` gives."""
    if type(value) is bool:
        return not value
    if type(value) is Truth:
        return Truth(value.operator, value.left, value.right, not value.is_negated)
    return ANY_BOOL
