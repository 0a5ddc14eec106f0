"""Divisions that round up, and sizes of arrays: how symbolic integers are composed."""

from __future__ import annotations

from dataclasses import dataclass

from embercoach.analysis.sizes.symbolic import CEILINGS, SymInt, Term, argument_list, factors_of


@dataclass(frozen=True, slots=True)
class CeilDivision:
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
    """The division that a size is, None if it is none that is rounded up.

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
    """The divisor of an array's size that is divided without rounding up: ``x.size // d``."""
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
    """A size, or what ``min(...)`` chooses from."""
    chosen = None if size.term is None else argument_list(size.term, "min")
    return chosen or (size,)
