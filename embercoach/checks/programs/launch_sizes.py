"""Sizes of launches as they are written: sums, products, and divisions that round up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import libcst as cst
from msgspec import Struct

from embercoach.analysis.dataflow.scopes import Expression, called, resolve_name, returned
from embercoach.analysis.values.lattice import Number

#: Operations inside each other, and all of those of one expression, inlined functions included.
MAX_DEPTH, MAX_STEPS = 12, 256
#: Characters of an integer that is computed with. Python refuses to convert thousands of digits.
_LONGEST_NUMBER = 100
_LARGEST = 1 << 64


class Term(Struct, frozen=True):
    """A part of a symbolic integer that is neither a sum nor a number.

    kind: ``name``, ``attribute``, ``item``, ``call``, ``float``, ``opaque``, ``*``, ``/``, ``//``
        or the name of another binary operator.
    parts: operands, as symbolic integers; the factors of ``*`` with how often each occurs. A name
        has the owner of its scope, and what is opaque its node.
    """

    kind: str
    parts: tuple[Hashable, ...]


class SymInt(Struct, frozen=True):
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
        """Return the factors of a product, and the number that it is multiplied by."""
        sole = self.sole
        if sole is None or self.number:
            return Counter({self: 1}), 1
        return Counter(dict(factors_of(sole[0]))), sole[1]


def factors_of(term: Term) -> tuple[tuple[SymInt, int], ...]:
    """Return the factors of a product, or the one of another term, with how often each occurs."""
    if term.kind != "*":
        return ((SymInt(frozenset({(term, 1)})), 1),)
    (factors,) = term.parts
    assert isinstance(factors, frozenset)
    return tuple(factors)


def of_term(kind: str, *parts: Hashable) -> SymInt:
    """Return the integer that is one term."""
    return SymInt(frozenset({(Term(kind, parts), 1)}))


def symbolic(expression: Expression) -> SymInt:
    """Return the symbolic integer of an expression."""
    return _Evaluation().of(expression, MAX_DEPTH)


def argument_list(term: Term, *names: str) -> tuple[SymInt, ...] | None:
    """Get the positional arguments of a call of one of some functions, None for anything else."""
    if term.kind != "call" or term.parts[0] not in names:
        return None
    arguments = [part for part in term.parts[2:] if isinstance(part, SymInt)]
    return tuple(arguments) if len(arguments) == len(term.parts) - 2 else None


class _Evaluation:
    """The evaluation of one expression, in a bounded number of steps."""

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def of(self, expression: Expression, depth: int) -> SymInt:
        """Get the symbolic integer of an expression that is ``depth`` operations deep at most."""
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
    """Return a name that is bound to no expression: a parameter, or an imported number."""
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


class CeilDivision(Struct, frozen=True):
    """A count divided by something and rounded up."""

    count: SymInt
    divisor: SymInt

    @property
    def is_exact(self) -> bool:
        """Return whether nothing is left over: the count is certainly a multiple."""
        count, divisor = self.count, self.divisor
        if divisor.known is not None:
            numbers = (count.number, *(times for _, times in count.terms))
            return divisor.known != 0 and not any(number % divisor.known for number in numbers)
        if count.sole is None or count.number or divisor.term is None:
            return False
        held = dict(factors_of(count.sole[0]))
        return all(held.get(factor, 0) >= often for factor, often in factors_of(divisor.term))


def ceil_division(size: SymInt) -> CeilDivision | None:
    """Return the division that a size is, None if it is none that is rounded up.

    ``(n + d - 1) // d``, ``n // d + 1``, ``-(-n // d)``, ``math.ceil(n / d)``.
    """
    if size.sole is None:
        return None
    term, times = size.sole
    divided = _operands(term, "//")
    if divided is not None and times == -1 and not size.number:
        count = -divided[0]
        is_negated = not count.number and all(n > 0 for _, n in count.terms)
        return CeilDivision(count, divided[1]) if is_negated else None
    if divided is not None and times == 1 and size.number == 1:
        return CeilDivision(*divided)
    if size.term is None:
        return None
    if divided is not None:
        count = divided[0] - divided[1] + SymInt(number=1)
        is_count = count.terms and not count.number and all(n > 0 for _, n in count.terms)
        return CeilDivision(count, divided[1]) if is_count else None
    chosen = argument_list(term, "max", "int") or ()
    others = [choice for choice in chosen if choice.known != 1]
    if len(others) == 1:
        return ceil_division(others[0])
    rounded = argument_list(term, *CEILINGS) or ()
    quotient = rounded[0].term if len(rounded) == 1 else None
    divided = None if quotient is None else _operands(quotient, "/")
    return None if divided is None else CeilDivision(*divided)


def rounded_down(size: SymInt) -> SymInt | None:
    """Get the divisor of an array's size that is divided without rounding up: ``x.size // d``."""
    term = size.term
    divided = None if term is None else _operands(term, "//")
    if divided is None or not is_data_size(divided[0]):
        return None
    return divided[1]


def whole_multiple(size: SymInt) -> CeilDivision | None:
    """The count that a size is rounded up from to a multiple of something: ``-(-n // d) * d``."""
    if size.sole is None:
        return None
    term, times = size.sole
    sign = 1 if times > 0 else -1
    for factor, occurs in factors_of(term) if not size.number else ():
        rest = SymInt(number=abs(times))
        for other, power in factors_of(term):
            for _ in range(power - (occurs if other == factor else 0)):
                rest = rest * other
        found = ceil_division(factor.times(sign)) if occurs == 1 else None
        if found is not None and found.divisor == rest:
            return found
    # ``(n // 4 + 1) * 4`` is ``n // 4 * 4 + 4``.
    quotient = SymInt(frozenset({(term, sign)}), size.number // abs(times))
    found = ceil_division(quotient) if size.number % abs(times) == 0 else None
    return found if found is not None and found.divisor.known == abs(times) else None


def _operands(term: Term, symbol: str) -> tuple[SymInt, SymInt] | None:
    if term.kind != symbol:
        return None
    left, right = term.parts
    assert isinstance(left, SymInt)
    assert isinstance(right, SymInt)
    return left, right


def is_data_size(size: SymInt) -> bool:
    """Return whether a size is one of an array's: ``x.shape[0]``, ``x.size``, products of these."""
    return size.term is not None and _is_data_size(size.term)


def _is_data_size(term: Term) -> bool:
    if term.kind == "*":
        return all(is_data_size(factor) for factor, _ in factors_of(term))
    if term.kind == "attribute":
        return term.parts[1] == "size"
    owner = term.parts[0] if term.kind == "item" else None
    return isinstance(owner, SymInt) and is_attribute(owner, "shape")


def is_attribute(number: SymInt, name: str) -> bool:
    """Return whether a number is the value of an object's attribute ``name``."""
    term = number.term
    return term is not None and term.kind == "attribute" and term.parts[1] == name


def is_item(number: SymInt, owner: SymInt) -> bool:
    """Return whether a number is an item of a sequence."""
    return number.term is not None and number.term.kind == "item" and number.term.parts[0] == owner


def grows_with_data(size: SymInt) -> bool:
    """Return whether a size grows with an array's only: ``x.size // 100 * 100``."""
    if size.sole is None or size.sole[1] < 0:
        return False
    term = size.sole[0]
    divided = _operands(term, "//")
    if divided is not None:
        return (divided[1].known or 0) > 0 and grows_with_data(divided[0])
    return _is_data_size(term)


def alternatives(size: SymInt) -> tuple[SymInt, ...]:
    """Return a size, or what ``min(...)`` chooses from."""
    chosen = None if size.term is None else argument_list(size.term, "min")
    return chosen or (size,)
