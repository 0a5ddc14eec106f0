"""Symbolic integers: what an expression computes, in terms of names, attributes and items.

Inference knows values, and a size is seldom a known value. Whether one size is another divided by
a third is a question about expressions, whose names are followed to the one assignment that binds
them. Functions of one expression, such as ``ceildiv``, are inlined. Equal objects are equal
integers; unequal ones may still be equal.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.scopes import Expression, called, resolve_name, returned
from embercoach.analysis.values.lattice import Number

if TYPE_CHECKING:
    from collections.abc import Hashable

#: Operations inside each other, and all of those of one expression, inlined functions included.
MAX_DEPTH, MAX_STEPS = 12, 256
#: Characters of an integer that is computed with. Python refuses to convert thousands of digits.
_LONGEST_NUMBER = 100
_LARGEST = 1 << 64


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a symbolic integer that is neither a sum nor a number.

    kind: ``name``, ``attribute``, ``item``, ``call``, ``float``, ``opaque``, ``*``, ``/``, ``//``
        or the name of another binary operator.
    parts: operands, as symbolic integers; the factors of ``*`` with how often each occurs. A name
        has the owner of its scope, and what is opaque its node.
    """

    kind: str
    parts: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class SymInt:
    """A sum of terms, each with how often it occurs, and of a number."""

    terms: frozenset[tuple[Term, int]] = frozenset()
    number: int = 0

    @property
    def known(self) -> int | None:
        """The integer, None if it is not known."""
        return None if self.terms else self.number

    @property
    def sole(self) -> tuple[Term, int] | None:
        """The one term of the sum, with how often it occurs."""
        return next(iter(self.terms)) if len(self.terms) == 1 else None

    @property
    def term(self) -> Term | None:
        """The term that this is, None for a sum, a multiple or a number."""
        sole = self.sole
        return sole[0] if sole is not None and sole[1] == 1 and not self.number else None

    @property
    def is_huge(self) -> bool:
        """Return whether a number in it is too large to compute with."""
        return any(abs(n) > _LARGEST for n in (self.number, *(n for _, n in self.terms)))

    def __add__(self, other: SymInt) -> SymInt:
        """Add term by term."""
        times = Counter(dict(self.terms))
        times.update(dict(other.terms))
        terms = frozenset((term, n) for term, n in times.items() if n)
        return SymInt(terms, self.number + other.number)

    def times(self, number: int) -> SymInt:
        """Multiply by a number."""
        if not number:
            return SymInt()
        return SymInt(frozenset((t, n * number) for t, n in self.terms), self.number * number)

    def __neg__(self) -> SymInt:
        """Negate."""
        return self.times(-1)

    def __sub__(self, other: SymInt) -> SymInt:
        """Subtract term by term."""
        return self + -other

    def __mul__(self, other: SymInt) -> SymInt:
        """Multiply; the product of two that are not numbers is one term."""
        for known, rest in ((self.known, other), (other.known, self)):
            if known is not None:
                return rest.times(known)
        (left, m), (right, n) = self._factors(), other._factors()
        return SymInt(frozenset({(Term("*", (frozenset((left + right).items()),)), m * n)}))

    def _factors(self) -> tuple[Counter[SymInt], int]:
        """The factors of a product, and the number that it is multiplied by."""
        sole = self.sole
        if sole is None or self.number:
            return Counter({self: 1}), 1
        return Counter(dict(factors_of(sole[0]))), sole[1]


def factors_of(term: Term) -> tuple[tuple[SymInt, int], ...]:
    """The factors of a product, or the one of another term, with how often each occurs."""
    if term.kind != "*":
        return ((SymInt(frozenset({(term, 1)})), 1),)
    (factors,) = term.parts
    assert isinstance(factors, frozenset)
    return tuple(factors)


def of_term(kind: str, *parts: Hashable) -> SymInt:
    """The integer that is one term."""
    return SymInt(frozenset({(Term(kind, parts), 1)}))


def symbolic(expression: Expression) -> SymInt:
    """The symbolic integer of an expression."""
    return _Evaluation().of(expression, MAX_DEPTH)


def argument_list(term: Term, *names: str) -> tuple[SymInt, ...] | None:
    """The positional arguments of a call of one of some functions, None for anything else."""
    if term.kind != "call" or term.parts[0] not in names:
        return None
    arguments = [part for part in term.parts[2:] if isinstance(part, SymInt)]
    return tuple(arguments) if len(arguments) == len(term.parts) - 2 else None


class _Evaluation:
    """The evaluation of one expression, in a bounded number of steps."""

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def of(self, expression: Expression, depth: int) -> SymInt:
        """The symbolic integer of an expression that is ``depth`` operations deep at most."""
        expression = resolve_name(expression)
        node = expression.node
        self.left -= 1
        if depth == 0 or self.left < 0:
            return of_term("opaque", node)
        if isinstance(node, cst.Integer) and len(node.value) <= _LONGEST_NUMBER:
            return SymInt(number=int(node.value, 0))
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            return -self.of(expression.at(node.expression), depth - 1)
        if isinstance(node, cst.BinaryOperation):
            left = self.of(expression.at(node.left), depth - 1)
            right = self.of(expression.at(node.right), depth - 1)
            result = _operation(node.operator, left, right)
            return of_term("opaque", node) if result.is_huge else result
        if isinstance(node, cst.Name):
            return _of_name(node.value, expression)
        if isinstance(node, cst.Attribute):
            return of_term(
                "attribute", self.of(expression.at(node.value), depth - 1), node.attr.value
            )
        if isinstance(node, cst.Subscript) and len(node.slice) == 1:
            index = node.slice[0].slice
            if isinstance(index, cst.Index):
                base = self.of(expression.at(node.value), depth - 1)
                return of_term("item", base, self.of(expression.at(index.value), depth - 1))
        if isinstance(node, cst.Call) and not any(argument.star for argument in node.args):
            return self._of_call(node, expression, depth - 1)
        return of_term("float" if isinstance(node, cst.Float) else "opaque", node)

    def _of_call(self, node: cst.Call, expression: Expression, depth: int) -> SymInt:
        body = returned(expression)
        if body is not None:
            return self.of(body, depth)
        name = called(node, expression.scope)
        arguments: list[Hashable] = []
        for argument in node.args:
            value = self.of(expression.at(argument.value), depth)
            arguments.append(value if argument.keyword is None else (argument.keyword.value, value))
        if name == "int" and len(arguments) == 1:
            (whole,) = arguments
            if isinstance(whole, SymInt) and not is_float(whole):
                return whole
        return of_term("call", name, self.of(expression.at(node.func), depth), *arguments)


def _operation(operator: cst.BaseBinaryOp, left: SymInt, right: SymInt) -> SymInt:
    if isinstance(operator, cst.Add):
        return left + right
    if isinstance(operator, cst.Subtract):
        return left - right
    if isinstance(operator, cst.Multiply):
        return left * right
    name = type(operator).__name__
    return of_term({"FloorDivide": "//", "Divide": "/"}.get(name, name), left, right)


def _of_name(name: str, expression: Expression) -> SymInt:
    """A name that is bound to no expression: a parameter, or an imported number."""
    found = expression.scope.find(name)
    if found is not None and found[0].outer is None:
        value = expression.scope.module.frame.names.get(name)
        if isinstance(value, Number) and type(value.const) is int:
            return SymInt(number=value.const)
    return of_term("name", name, None if found is None else found[0].owner)


#: Functions that round up, and those that return floats.
CEILINGS = frozenset({"math.ceil", "np.ceil", "numpy.ceil", "ceil"})
FLOATS = frozenset(
    (
        *("np.ceil", "numpy.ceil", "float"),
        *("math.sqrt", "math.log2", "math.log", "math.pow", "math.exp"),
        *("np.floor", "numpy.floor", "np.round", "numpy.round", "np.rint", "numpy.rint"),
        *("np.sqrt", "numpy.sqrt"),
    )
)


def is_float(number: SymInt) -> bool:
    """Return whether an expression is a float by its own operators: ``n / 2``, ``np.ceil(x)``."""
    return any(_is_float(term) for term, _ in number.terms)


def _is_float(term: Term) -> bool:
    if term.kind in ("float", "/"):
        return True
    if term.kind == "call":
        chosen = argument_list(term, "max", "min", "abs")
        return all(map(is_float, chosen)) if chosen else term.parts[0] in FLOATS
    if term.kind == "*":
        return any(is_float(factor) for factor, _ in factors_of(term))
    if term.kind in ("name", "attribute", "item", "opaque"):
        return False
    return any(isinstance(part, SymInt) and is_float(part) for part in term.parts)
