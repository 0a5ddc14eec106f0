"""Operators: arithmetic, comparison, boolean and unary, with MLX's dtype rules."""

from __future__ import annotations

import operator as op
from collections.abc import Callable as Fn
from typing import TYPE_CHECKING, Any

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.calls import sibling_files, string_methods, torch_api
from embercoach.analysis.evaluate import exactness
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.narrowing import record_truth, test
from embercoach.analysis.values import promotion
from embercoach.analysis.values.facts import (
    BinaryFact,
    CompareFact,
    FormatFact,
    InvertFact,
    Operand,
)
from embercoach.analysis.values.gradient_marks import after_pull, marks_of, with_zero_gradient
from embercoach.analysis.values.lattice import (
    BOOL,
    NONE,
    NUMBER_KINDS,
    SETTING,
    STR,
    UNKNOWN,
    Array,
    FilePath,
    Number,
    NumberKind,
    Numpy,
    Sequence,
    Setting,
    Str,
    Torch,
    Union,
    Value,
    any_item,
    as_array,
    as_number,
    as_numpy,
    collected,
    definite_array,
    join,
    join_all,
    pulls_of,
)

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame

_BINARY: dict[type, str] = {
    cst.Add: "+",
    cst.Subtract: "-",
    cst.Multiply: "*",
    cst.Divide: "/",
    cst.FloorDivide: "//",
    cst.Modulo: "%",
    cst.Power: "**",
    cst.MatrixMultiply: "@",
    cst.BitAnd: "&",
    cst.BitOr: "|",
    cst.BitXor: "^",
    cst.LeftShift: "<<",
    cst.RightShift: ">>",
}
#: The signs of operators, and of the assignments with them.
SYMBOLS: dict[type, str] = _BINARY | {
    getattr(cst, f"{kind.__name__}Assign"): sign for kind, sign in _BINARY.items()
}
COMPARISONS: dict[type, str] = {
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
    cst.In: "in",
    cst.NotIn: "not in",
    cst.Is: "is",
    cst.IsNot: "is not",
}
#: Larger integers are not followed: their text would be long, and so would the arithmetic.
LARGEST = 1 << 64
FOLDABLE: dict[str, Fn[[Any, Any], Any]] = {
    "+": op.add,
    "-": op.sub,
    "*": op.mul,
    "/": op.truediv,
    "//": op.floordiv,
    "%": op.mod,
}


def evaluate_binary(frame: Frame, node: cst.BinaryOperation) -> Value:
    """``left operator right``."""
    left = evaluate(frame, node.left)
    right = evaluate(frame, node.right)
    symbol = SYMBOLS[type(node.operator)]
    return binary(frame, node, symbol, left, right, node.left, node.right, False)


def binary(
    frame: Frame,
    node: cst.BinaryOperation | cst.AugAssign,
    symbol: str,
    left: Value,
    right: Value,
    left_node: cst.BaseExpression,
    right_node: cst.BaseExpression,
    in_place: bool,
) -> Value:
    """Return the result of an operation, recorded if an array takes part."""
    if type(left) is Number and type(right) is Number:
        return _numbers(symbol, left, right)
    if left is UNKNOWN and right is UNKNOWN:
        return UNKNOWN
    a, b = as_array(left), as_array(right)
    if (a is None and b is None) or type(left) is Str:
        result = _host(frame, symbol, left, right, right_node)
        if result is UNKNOWN and frame.gradient is not None:
            marks = marks_of(left) | marks_of(right)
            return Array(traced=True, pulls=marks) if marks else UNKNOWN
        return result
    if frame.record or frame.must is not None:
        operands = Operand.of(left, left_node), Operand.of(right, right_node)
        fact = BinaryFact(node, frame.place(), symbol, *operands, in_place)
        if frame.record:
            frame.add(fact)
        elif frame.must is not None and frame.must.certain:
            frame.must.operations.append(fact)
    return _with_arrays(node, symbol, left, right, a, b)


def _with_arrays(
    node: cst.BinaryOperation | cst.AugAssign,
    symbol: str,
    left: Value,
    right: Value,
    a: Array | None,
    b: Array | None,
) -> Value:
    """The result of an operation on one array, ``a`` on the left or ``b`` on the right, or both."""
    if a is not None and b is not None:
        return _arrays(symbol, a, b)
    array, other = (a, right) if a is not None else (b, left)
    assert array is not None
    if b is not None and as_numpy(left) is not None:
        numpy = as_numpy(left)
        assert numpy is not None
        return Numpy(numpy.kind, False, after_pull(array.pulls | numpy.pulls, node))
    pulls = array.pulls | pulls_of(other)
    number = as_number(other)
    if type(other) is Setting:
        return Array(None, False, False, array.traced, pulls)
    if number is not None:
        dtype = promotion.promote_weak(array.dtype, number.kind)
        return Array(_result(symbol, dtype), array.literal, False, array.traced, pulls)
    if as_numpy(other) is not None:
        return Array(_result(symbol, array.dtype), False, False, array.traced, pulls)
    if type(other) is Sequence:
        return UNKNOWN
    return Array(promotion.promote(array.dtype, None), False, False, array.traced, pulls)


def _arrays(symbol: str, a: Array, b: Array) -> Array:
    dtype = _result(symbol, promotion.promote(a.dtype, b.dtype))
    return Array(dtype, a.literal and b.literal, False, a.traced or b.traced, a.pulls | b.pulls)


def _result(symbol: str, dtype: str | None) -> str | None:
    if dtype == "bool" and symbol in ("<<", ">>"):
        return "uint8"
    return promotion.floating(dtype) if symbol == "/" else dtype


def _numbers(symbol: str, left: Number, right: Number) -> Value:
    kind = max(left.kind, right.kind, key=NUMBER_KINDS.index)
    if kind == "bool" and symbol not in "&|^":
        kind = "int"
    if symbol == "/" or (symbol == "**" and kind == "int" and _may_be_negative(right)):
        kind = max(kind, "float", key=NUMBER_KINDS.index)
    pulls = left.pulls | right.pulls
    const = None
    fold = FOLDABLE.get(symbol)
    if fold is not None and left.const is not None and right.const is not None:
        try:
            const = fold(left.const, right.const)
        except (ArithmeticError, TypeError, ValueError):
            const = None
        if isinstance(const, int) and abs(const) > LARGEST:
            const = None
    return Number(kind, const, None, pulls)


def _may_be_negative(number: Number) -> bool:
    return number.const is not None and not isinstance(number.const, complex) and number.const < 0


def _host(
    frame: Frame, symbol: str, left: Value, right: Value, right_node: cst.BaseExpression
) -> Value:
    """Return an operation in which no array takes part as an operand."""
    if isinstance(left, Str):
        if symbol == "%":
            _percent(frame, right, right_node)
            return string_methods.percent(left, right)
        if symbol == "*":
            return string_methods.repeated(left, right)
        return string_methods.concatenate(left, right) if symbol == "+" else STR
    if isinstance(left, FilePath) and symbol == "/":
        return sibling_files.below(left, right)
    if isinstance(right, Str) and symbol == "*":
        return string_methods.repeated(right, left)
    if isinstance(left, Sequence) and symbol in "+*":
        return _sequences(symbol, left, right)
    if isinstance(right, Sequence) and symbol == "*":
        return Sequence(right.kind, any_item(right))
    if isinstance(left, Torch) or isinstance(right, Torch):
        return torch_api.combined((left, right))
    a, b = as_numpy(left), as_numpy(right)
    if a is not None or b is not None:
        return _numpy(symbol, a or left, b or right)
    x, y = as_number(left), as_number(right)
    if x is not None and y is not None:
        # A setting that is combined with no float may be an integer.
        may_be_whole = symbol != "/" and all(
            type(value) is Setting or number.kind in ("bool", "int")
            for value, number in ((left, x), (right, y))
        )
        is_setting = type(left) is Setting or type(right) is Setting
        return SETTING if is_setting and may_be_whole else _numbers(symbol, x, y)
    # One operand is a Python number and nothing is known of the other: a number or an array.
    if type(left) is Union or type(right) is Union:
        return join_all(
            _host(frame, symbol, a, b, right_node)
            for a in (left.options if type(left) is Union else (left,))
            for b in (right.options if type(right) is Union else (right,))
            if a is not NONE and b is not NONE
            if type(a) is not Array and type(b) is not Array
        )
    return UNKNOWN


def _numpy(symbol: str, left: Value, right: Value) -> Value:
    kinds = [v.kind for v in (left, right) if isinstance(v, (Numpy, Number))]
    kind: NumberKind | None = None
    if len(kinds) == 2 and None not in kinds:
        kind = max(kinds, key=NUMBER_KINDS.index)
        kind = "float" if symbol == "/" and kind in ("bool", "int") else kind
    scalar = all(
        isinstance(v, Number) or (isinstance(v, Numpy) and v.scalar) for v in (left, right)
    )
    return Numpy(kind, scalar, pulls_of(left) | pulls_of(right))


def _percent(frame: Frame, value: Value, node: cst.BaseExpression) -> None:
    if not frame.record:
        return
    if type(node) is cst.Tuple and isinstance(value, Sequence) and value.items is not None:
        for element, item in zip(node.elements, value.items, strict=False):
            if definite_array(item) is not None:
                frame.add(FormatFact(element.value, frame.place(), item, "percent"))
    elif definite_array(value) is not None:
        frame.add(FormatFact(node, frame.place(), value, "percent"))


def _sequences(symbol: str, left: Sequence, right: Value) -> Value:
    if symbol == "*":
        number = as_number(right)
        times = None if number is None else number.const
        # A bool is a number as well.
        if left.items is not None and isinstance(times, int) and 0 <= times * len(left.items) <= 16:
            return Sequence(left.kind, None, left.items * times)
        return Sequence(left.kind, any_item(left))
    if isinstance(right, Sequence):
        if left.items is not None and right.items is not None:
            items = left.items + right.items
            if len(items) <= 64:
                return Sequence(left.kind, None, items)
        grown = right if right.items is not None else left if left.items is not None else None
        pulls = left.pulls | collected(right if grown is None else grown)
        return Sequence(left.kind, join(any_item(left), any_item(right)), None, pulls)
    return Sequence(left.kind, join(any_item(left), UNKNOWN))


def evaluate_unary(frame: Frame, node: cst.UnaryOperation) -> Value:
    """``-x``, ``+x``, ``~x``, ``not x``."""
    if type(node.operator) is cst.Not:
        value = test(frame, node.expression, "not")
        decides = frame.module.mentions_kernels or frame.decides
        return exactness.negated(value) if decides else BOOL
    value = evaluate(frame, node.expression)
    if type(value) is Number:
        if value.const is not None and type(node.operator) is cst.Minus:
            return Number(value.kind if value.kind != "bool" else "int", -value.const)
        return Number(value.kind, None, None, value.pulls)
    array = as_array(value)
    if array is not None:
        if frame.record and type(node.operator) is cst.BitInvert:
            frame.add(InvertFact(node, frame.place(), value))
        return Array(array.dtype, array.literal, array.scalar, array.traced, array.pulls)
    if as_number(value) is not None or as_numpy(value) is not None or isinstance(value, Torch):
        return value
    return UNKNOWN


def evaluate_comparison(frame: Frame, node: cst.Comparison) -> Value:
    """``a < b``, ``a < b < c``, ``a in b``, ``a is b``."""
    left_node = node.left
    left = evaluate(frame, left_node)
    results: list[Value] = []
    for target in node.comparisons:
        right_node = target.comparator
        right = evaluate(frame, right_node)
        symbol = COMPARISONS.get(type(target.operator), "is")
        result = _compare(frame, node, symbol, left, right, left_node, right_node)
        if frame.module.mentions_kernels or frame.decides:
            result = exactness.compared(symbol, left, right, result)
        if frame.must is not None:
            outcome = frame.must.compared(symbol, left_node, right_node, right)
            result = result if outcome is None else Number("bool", outcome)
        results.append(result)
        left_node, left = right_node, right
    if len(results) == 1:
        return results[0]
    for result in results[:-1]:
        record_truth(frame, node, result, "chained")
    return join_all(results)


def _compare(
    frame: Frame,
    node: cst.Comparison,
    symbol: str,
    left: Value,
    right: Value,
    left_node: cst.BaseExpression,
    right_node: cst.BaseExpression,
) -> Value:
    if symbol in ("is", "is not"):
        return BOOL
    a, b = as_array(left), as_array(right)
    membership = symbol in ("in", "not in")
    if a is None and b is None and not (membership and isinstance(right, Sequence)):
        if membership:
            return BOOL
        if as_numpy(left) is not None or as_numpy(right) is not None:
            return Numpy("bool", False, pulls_of(left) | pulls_of(right))
        if isinstance(left, Torch) or isinstance(right, Torch):
            return replace(torch_api.combined((left, right)), dtype="bool")
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        return Number("bool", None, None, pulls_of(left) | pulls_of(right))
    if frame.record:
        operands = Operand.of(left, left_node), Operand.of(right, right_node)
        frame.add(CompareFact(node, frame.place(), symbol, *operands))
    if membership:
        return Number("bool", None, None, pulls_of(left) | pulls_of(right))
    numpy = as_numpy(left)
    if numpy is not None and b is not None:
        # NumPy's own comparison goes first: it pulls the array, and its result is NumPy's.
        return Numpy("bool", False, after_pull(numpy.pulls | b.pulls, node))
    if isinstance(left, Str) or isinstance(right, Str):
        return BOOL  # MLX compares an array with anything that is not a number by identity
    traced = bool((a and a.traced) or (b and b.traced))
    pulls = with_zero_gradient(pulls_of(left) | pulls_of(right), symbol)
    return Array("bool", False, False, traced, pulls)
