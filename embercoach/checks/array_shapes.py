"""Shapes of arrays as far as the expressions that make them tell."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import CallFact
from embercoach.analysis.values.joins import as_number
from embercoach.analysis.values.lattice import Array, BoundMember, Number, Numpy, Sequence, Value
from embercoach.checks.sizes import Size, resolve_name

if TYPE_CHECKING:
    from embercoach.analysis.project.module import Module

#: Sizes of the axes, None for those that are unknown.
Shape = tuple["int | None", ...]
MAX_DEPTH = 4
#: Functions that make an array of a shape, with the place of that among their arguments.
MAKERS = {
    "mlx.core.zeros": 0,
    "mlx.core.ones": 0,
    "mlx.core.full": 0,
    "mlx.core.random.normal": 0,
    "mlx.core.random.uniform": 2,
}
_ELEMENTWISE = """
abs exp expm1 floor ceil log log1p negative reciprocal round rsqrt sigmoid sign sin cos tan sqrt
square tanh erf contiguous stop_gradient zeros_like ones_like
"""
#: Functions and methods whose result has the shape of their array.
ALIKE = frozenset({*(f"mlx.core.{name}" for name in _ELEMENTWISE.split()), ".astype"})
_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.FloorDivide, cst.Power)


def shape_of_value(value: Value) -> Shape | None:
    """``()`` for what certainly is one number: a Python or NumPy number, an array of one."""
    if type(value) is Number or (isinstance(value, Numpy) and value.scalar):
        return ()
    return () if type(value) is Array and value.scalar else None


def shape_of(size: Size, module: Module, depth: int = MAX_DEPTH) -> Shape | None:
    """The shape of the array that an expression is, None where even its rank is unknown."""
    size = resolve_name(size)
    if depth == 0:
        return None
    if isinstance(size.node, (cst.Integer, cst.Float)):
        return ()
    if isinstance(size.node, cst.UnaryOperation) and isinstance(size.node.operator, cst.Minus):
        return shape_of(Size(size.node.expression, size.scope), module, depth - 1)
    if isinstance(size.node, cst.BinaryOperation):
        if not isinstance(size.node.operator, _ARITHMETIC):
            return None
        sides = (size.node.left, size.node.right)
        left, right = (shape_of(Size(side, size.scope), module, depth - 1) for side in sides)
        return None if left is None or right is None else _broadcast(left, right)
    fact = calls_of(module).get(size.node)
    if fact is None:
        return None
    name = _name_of(fact)
    if name in ALIKE:
        inner = _array_of(fact)
        return None if inner is None else shape_of(Size(inner, size.scope), module, depth - 1)
    if name in (".reshape", "mlx.core.reshape"):
        return _reshaped(fact, size, module, depth)
    return _made(fact, name)


def has_dimensions(size: Size, module: Module, depth: int = MAX_DEPTH) -> bool:
    """Whether an expression is an array of at least one dimension, of whatever shape."""
    size = resolve_name(size)
    if depth == 0:
        return False
    shape = shape_of(size, module, depth)
    if shape is not None:
        return bool(shape)
    if isinstance(size.node, cst.BinaryOperation) and isinstance(size.node.operator, _ARITHMETIC):
        sides = (size.node.left, size.node.right)
        return any(has_dimensions(Size(side, size.scope), module, depth - 1) for side in sides)
    fact = calls_of(module).get(size.node)
    if fact is None:
        return False
    name = _name_of(fact)
    if name in ALIKE:
        inner = _array_of(fact)
        return inner is not None and has_dimensions(Size(inner, size.scope), module, depth - 1)
    first = fact.argument(0, "val")
    return name == "mlx.core.array" and first is not None and _is_list(first.value)


def _name_of(fact: CallFact) -> str | None:
    """The qualified name of a function, or that of a method behind a dot."""
    return fact.symbol if not isinstance(fact.callee, BoundMember) else f".{fact.callee.name}"


def _is_list(value: Value) -> bool:
    return isinstance(value, Sequence) and value.kind in ("list", "tuple")


def _array_of(fact: CallFact) -> cst.BaseExpression | None:
    """The array that a function or method makes another of."""
    return fact.receiver_node if isinstance(fact.callee, BoundMember) else _first_node(fact)


def _made(fact: CallFact, name: str | None) -> Shape | None:
    """The shape of an array that a call makes of numbers alone."""
    if name == "mlx.core.array":
        first = fact.argument(0, "val")
        return None if first is None else _of_numbers(first.value)
    if name in MAKERS:
        shape = fact.argument(MAKERS[name], "shape")
        return None if shape is None else _lengths(shape.value)
    if name == "mlx.core.arange":
        return (_counted(fact),)
    if name == "mlx.core.linspace":
        number = fact.argument(2, "num")
        return (50 if number is None else _length(number.value),)
    if name in (".flatten", "mlx.core.flatten"):
        return (None,) if len(fact.arguments) == (name == "mlx.core.flatten") else None
    return None


def _counted(fact: CallFact) -> int | None:
    """How many elements ``mx.arange`` gives, None where that is unknown."""
    places = [a for a in fact.arguments if a.keyword is None]
    if any(a.star or a.keyword in ("start", "stop", "step") for a in fact.arguments):
        return None
    bounds = [_length(a.value) for a in places]
    if None in bounds or not 1 <= len(bounds) <= 3 or bounds[2:] == [0]:
        return None
    return len(range(*(n for n in bounds if n is not None)))


def _reshaped(fact: CallFact, size: Size, module: Module, depth: int) -> Shape | None:
    """``x.reshape(4, -1)``, ``x.reshape((4, 4))``, ``mx.reshape(x, (4, 4))``."""
    method = isinstance(fact.callee, BoundMember)
    values = [a.value for a in fact.arguments if a.keyword is None and not a.star][not method :]
    if len(values) + (not method) != len(fact.arguments) or not values:
        return None
    known = type(values[0]) is Number
    lengths = tuple(map(_length, values)) if known else _lengths(values[0])
    if lengths is None or -1 not in lengths:
        return lengths
    inner = _array_of(fact)
    before = None if inner is None else shape_of(Size(inner, size.scope), module, depth - 1)
    rest = [n for n in lengths if n != -1]
    if before is None or None in before or None in rest:
        return tuple(None if n == -1 else n for n in lengths)
    whole, part = (prod(n for n in ns if n is not None) for ns in (before, rest))
    return tuple((whole // part if part else None) if n == -1 else n for n in lengths)


def _broadcast(a: Shape, b: Shape) -> Shape:
    """The shape of what is computed element by element from two arrays."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    padded = (1,) * (len(longer) - len(shorter)) + shorter
    return tuple(_common(m, n) for m, n in zip(longer, padded, strict=True))


def _common(m: int | None, n: int | None) -> int | None:
    """The size of an axis, of two that are equal if neither is 1."""
    if m == 1:
        return n
    return m if n == 1 or n is None else n


def _first_node(fact: CallFact) -> cst.BaseExpression | None:
    first = fact.positional(0)
    return None if first is None else first.node


def _of_numbers(value: Value) -> Shape | None:
    """The shape of ``mx.array([a, b])`` of numbers, or of lists of them."""
    if as_number(value) is not None:
        return ()
    if not _is_list(value) or not isinstance(value, Sequence) or value.items is None:
        return None
    inner = {_of_numbers(item) for item in value.items}
    shape = inner.pop() if inner else ()
    return None if inner or shape is None else (len(value.items), *shape)


def _lengths(value: Value) -> Shape | None:
    """A shape given as a number or as a tuple of them."""
    if type(value) is Number:
        return (_length(value),)
    if not isinstance(value, Sequence) or value.items is None:
        return None
    return tuple(map(_length, value.items))


def _length(value: Value) -> int | None:
    return value.const if type(value) is Number and type(value.const) is int else None


@lru_cache(maxsize=2)
def calls_of(module: Module) -> dict[cst.CSTNode, CallFact]:
    """The calls of a file by their nodes; of few files, as it keeps them in memory."""
    return {f.node: f for f in module.facts() if isinstance(f, CallFact)}
