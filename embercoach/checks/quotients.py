"""Quotients among sizes: what a count was divided by, and which divisions yield floats."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from embercoach.checks.sizes import (
    MAX_DEPTH,
    Scope,
    Size,
    Sum,
    added,
    called,
    constant,
    linear,
    resolve,
    resolve_name,
    same,
)


def is_data_size(size: Size, depth: int = MAX_DEPTH) -> bool:
    """Whether a size is one of an array's: ``x.shape[0]``, ``x.size``, products of these."""
    size = resolve(size)
    node, scope = size.node, size.scope
    if isinstance(node, cst.BinaryOperation) and depth:
        sides = (Size(node.left, scope), Size(node.right, scope))
        is_product = isinstance(node.operator, cst.Multiply)
        return is_product and all(is_data_size(side, depth - 1) for side in sides)
    if isinstance(node, cst.Subscript):
        owner = resolve(Size(node.value, scope)).node
        return isinstance(owner, cst.Attribute) and owner.attr.value == "shape"
    return isinstance(node, cst.Attribute) and node.attr.value == "size"


def data_size_in(size: Size, depth: int = MAX_DEPTH) -> Size | None:
    """The size of an array that a size grows with: ``x.size`` in ``x.size // 100 * 100``.

    None where it follows no array's, or something else than known numbers as well.
    """
    if is_data_size(size):
        return size
    size = resolve(size)
    node, scope = size.node, size.scope
    if not isinstance(node, cst.BinaryOperation) or depth == 0:
        return None
    left, right = Size(node.left, scope), Size(node.right, scope)
    pairs = [(left, right)]
    if isinstance(node.operator, (cst.Multiply, cst.Add)):
        pairs.append((right, left))
    elif not isinstance(node.operator, (cst.FloorDivide, cst.Subtract)):
        return None
    for part, other in pairs:
        if (constant(other) or 0) > 0:
            return data_size_in(part, depth - 1)
    return None


CEILINGS = frozenset({"math.ceil", "np.ceil", "numpy.ceil", "ceil"})


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A count divided by something and rounded up."""

    count: Sum
    divisor: Size


def ceiling_divisor(size: Size) -> Size | None:
    """What a size is a count divided by and rounded up, None if it is no such quotient."""
    found = ceiling(size)
    return None if found is None else found.divisor


def ceiling(size: Size, depth: int = MAX_DEPTH) -> Ceiling | None:
    """The quotient that a size is, None if it is none that is rounded up.

    ``(n + d - 1) // d``, ``n // d + 1``, ``-(-n // d)``, ``math.ceil(n / d)``, and functions of
    the file that return one of these.
    """
    if depth == 0:
        return None
    size = resolve(size)
    node, scope = size.node, size.scope
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        return _negated_floor(Size(node.expression, scope))
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.FloorDivide):
            return _rounded_up(Size(node.left, scope), Size(node.right, scope))
        if isinstance(node.operator, cst.Add):
            return _floor_plus_one(Size(node.left, scope), Size(node.right, scope))
        return None
    if not isinstance(node, cst.Call) or any(a.star for a in node.args):
        return None
    name = called(node, size)
    if name in CEILINGS and len(node.args) == 1:
        inner = resolve(Size(node.args[0].value, scope))
        return _quotient(inner, cst.Divide)
    if name == "max":
        others = [s for s in (Size(a.value, scope) for a in node.args) if constant(s) != 1]
        return ceiling(others[0], depth - 1) if len(others) == 1 else None
    body = _returned(node, size)
    return None if body is None else ceiling(body, depth - 1)


def whole_multiple(size: Size, depth: int = MAX_DEPTH) -> Ceiling | None:
    """The count that a size is rounded up from to a multiple of something: ``-(-n // d) * d``."""
    size = resolve(size)
    node, scope = size.node, size.scope
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        sides = Size(node.left, scope), Size(node.right, scope)
        for quotient, factor in (sides, sides[::-1]):
            found = ceiling(quotient)
            if found is not None and same(found.divisor, factor):
                return found
        return None
    if not isinstance(node, cst.Call) or not depth:
        return None
    body = _returned(node, size)
    return None if body is None else whole_multiple(body, depth - 1)


def _rounded_up(numerator: Size, divisor: Size) -> Ceiling | None:
    rest = added(added(linear(numerator), linear(divisor), -1), {None: 1}, 1)
    if rest and None not in rest and all(times > 0 for times in rest.values()):
        return Ceiling(rest, divisor)
    return None


def _floor_plus_one(left: Size, right: Size) -> Ceiling | None:
    for quotient, one in ((left, right), (right, left)):
        if constant(one) == 1:
            return _quotient(resolve(quotient), cst.FloorDivide)
    return None


def _quotient(size: Size, operator: type[cst.BaseBinaryOp]) -> Ceiling | None:
    """What an expression divides, and by what, if that is its outermost operation."""
    node = size.node
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, operator):
        return Ceiling(linear(Size(node.left, size.scope)), Size(node.right, size.scope))
    return None


def _negated_floor(size: Size) -> Ceiling | None:
    size = resolve(size)
    node = size.node
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.FloorDivide):
        return None
    negated = linear(Size(node.left, size.scope))
    if any(times > 0 for times in negated.values()):
        return None
    return Ceiling(added({}, negated, -1), Size(node.right, size.scope))


def _returned(node: cst.Call, size: Size) -> Size | None:
    """What a function of the file returns, its parameters standing for the arguments."""
    function = resolve(Size(node.func, size.scope))
    definition = function.node
    if not isinstance(definition, (cst.FunctionDef, cst.Lambda)):
        return None
    inner = Scope(function.scope, size.scope.module)
    names = [p.name.value for p in definition.params.params]
    for index, argument in enumerate(node.args):
        name = argument.keyword.value if argument.keyword else names[index : index + 1]
        for known in [name] if isinstance(name, str) else name:
            inner.bindings[known] = Size(argument.value, size.scope)
    if not set(names) <= inner.bindings.keys():
        return None
    if isinstance(definition, cst.Lambda):
        return Size(definition.body, inner)
    statements = [
        small
        for line in definition.body.body
        if isinstance(line, cst.SimpleStatementLine)
        for small in line.body
        if not (isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString))
    ]
    last = statements[0] if len(statements) == 1 else None
    if len(definition.body.body) > len(statements) + 1 or not isinstance(last, cst.Return):
        return None
    return None if last.value is None else Size(last.value, inner)


FLOATS = CEILINGS - {"math.ceil", "ceil"} | frozenset(
    (
        *("float", "math.sqrt", "math.log2", "math.log", "math.pow", "math.exp"),
        *("np.floor", "numpy.floor", "np.round", "numpy.round", "np.rint", "numpy.rint"),
        *("np.sqrt", "numpy.sqrt"),
    )
)


def is_float(size: Size, depth: int = MAX_DEPTH) -> bool:
    """Whether an expression is a float by its own operators: ``n / 2``, ``np.ceil(x)``."""
    size = resolve_name(size)
    node, scope = size.node, size.scope
    if depth == 0:
        return False
    if isinstance(node, cst.Float):
        return True
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Divide):
            return True
        sides = (Size(node.left, scope), Size(node.right, scope))
        return any(is_float(side, depth - 1) for side in sides)
    if isinstance(node, cst.UnaryOperation):
        return is_float(Size(node.expression, scope), depth - 1)
    if not isinstance(node, cst.Call):
        return False
    name = called(node, size)
    if name in ("max", "min", "abs"):
        return bool(node.args) and all(is_float(Size(a.value, scope), depth - 1) for a in node.args)
    return name in FLOATS
