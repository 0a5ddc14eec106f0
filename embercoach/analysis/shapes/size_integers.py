"""Integers of a program: known ones, symbolic ones, and unknown ones.

A known integer is an ``int``. A symbolic one is a polynomial, ``SizeExpr``, over atoms: symbols, of
which each stands for one integer of one place, floor quotients, minima and maxima. Equal
polynomials are equal integers; others may still be equal. ``ANY_INT`` is an integer of which
nothing is known, and is never equal to itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from itertools import count
from math import gcd, lcm

from msgspec import Struct, field

#: More terms in a sum, factors in a product or operations inside each other are not computed with.
MAX_TERMS, MAX_FACTORS, MAX_NESTED = 12, 8, 5
#: A number beyond this isn't a size.
LARGEST = 1 << 62

_serial = count(1)


class AnyInt(Enum):
    """The type of ``ANY_INT``."""

    ANY = "?"

    def __str__(self) -> str:
        """As messages write it."""
        return "?"


ANY_INT = AnyInt.ANY


class SizeSymbol(Struct, eq=False):
    """One unknown integer of one place: an element of a shape, an argument, an attribute.

    Attributes:
        name: as the program calls it.
        serial: distinguishes it from all others; older ones have smaller numbers.
        is_named: whether the program gives it its name (``B, S = x.shape``, a parameter).
        place: what reads it: the scope and kind of its name; sizes whose names stand side by side
            in one scope are meant to differ.
        is_local: whether it is made anew whenever its place is reached again, so that the rounds
            of a loop have different ones; that of a configuration's field is not.
        is_foreign: whether the name is of another file.
        is_joined: whether it is one of two integers, of different paths.
        is_loop: whether it stands for a number that the rounds of a loop change.
        quotient: for one that is a whole symbol divided by a divisor of it, these two.
    """

    name: str
    is_named: bool = True
    place: object = None
    is_local: bool = True
    is_foreign: bool = False
    is_joined: bool = False
    is_loop: bool = False
    quotient: tuple[SizeSymbol, int | SizeExpr] | None = None
    serial: int = field(default_factory=_serial.__next__)
    #: What it is sorted by.
    key: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        """Set the key."""
        self.key = (0, self.serial)

    @property
    def nested(self) -> int:
        """How many operations are inside each other: none."""
        return 0

    def __repr__(self) -> str:
        """Return the name."""
        return self.name


class SizeOperation:
    """A quotient that is rounded down (``//``), or the least (``min``) or greatest of integers."""

    __slots__ = ("key", "kind", "nested", "operands", "symbols")

    def __init__(self, kind: str, operands: tuple[SizeExpr, ...]) -> None:
        """Make the operation of these operands."""
        self.kind = kind
        self.operands = operands
        self.key: tuple[object, ...] = (1, kind, tuple(o.key for o in operands))
        self.nested = 1 + max(o.nested for o in operands)
        self.symbols: frozenset[SizeSymbol] = frozenset().union(*(o.symbols for o in operands))

    def __eq__(self, other: object) -> bool:
        """Compare by content."""
        return isinstance(other, SizeOperation) and self.key == other.key

    def __hash__(self) -> int:
        """Hash by content."""
        return hash(self.key)

    def __repr__(self) -> str:
        """As Python writes it."""
        if self.kind == "//":
            left, right = self.operands
            return f"{_grouped(left)} // {_grouped(right)}"
        return f"{self.kind}({', '.join(map(str, self.operands))})"


Atom = SizeSymbol | SizeOperation
#: Factors in order, each as often as it occurs.
Monomial = tuple[Atom, ...]


class SizeExpr:
    """A polynomial with integer coefficients; a constant one occurs in operands only."""

    __slots__ = ("_hash", "_key", "_symbols", "_text", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        """Make the sum of monomials, each times its coefficient; none is zero."""
        self.terms = terms
        self._hash = 0
        self._key: tuple[object, ...] | None = None
        self._symbols: frozenset[SizeSymbol] | None = None
        self._text: tuple[int, str] = (-1, "")

    @property
    def key(self) -> tuple[object, ...]:
        """The key that expressions are sorted by."""
        if self._key is None:
            self._key = tuple(
                sorted(
                    (tuple([atom.key for atom in factors]), times)
                    for factors, times in self.terms.items()
                )
            )
        return self._key

    @property
    def nested(self) -> int:
        """How many operations are inside each other."""
        return max((atom.nested for factors in self.terms for atom in factors), default=0)

    @property
    def symbols(self) -> frozenset[SizeSymbol]:
        """All symbols in it."""
        if self._symbols is None:
            found: set[SizeSymbol] = set()
            for factors in self.terms:
                for atom in factors:
                    if isinstance(atom, SizeSymbol):
                        found.add(atom)
                    else:
                        found |= atom.symbols
            self._symbols = frozenset(found)
        return self._symbols

    def __eq__(self, other: object) -> bool:
        """Compare by content."""
        return self is other or (type(other) is SizeExpr and self.terms == other.terms)

    def __hash__(self) -> int:
        """Hash by content."""
        if not self._hash:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    @property
    def symbol(self) -> SizeSymbol | None:
        """The symbol that this is, if it is nothing else."""
        atom = self.atom
        return atom if type(atom) is SizeSymbol else None

    @property
    def atom(self) -> Atom | None:
        """The atom that this is, if it is nothing else."""
        if len(self.terms) != 1:
            return None
        ((factors, times),) = self.terms.items()
        return factors[0] if times == 1 and len(factors) == 1 else None

    @property
    def constant(self) -> int:
        """The number that is added to the other terms."""
        return self.terms.get((), 0)

    def __repr__(self) -> str:
        """As Python writes it, positive terms first."""
        version, text = self._text
        if version != _names.version:
            text = _written(self)
            self._text = (_names.version, text)
        return text


class _Names:
    """Counts the changes of symbols' names, after which texts are written anew."""

    version = 0


_names = _Names()


def rename(found: SizeSymbol, name: str) -> None:
    """Give a symbol another name."""
    found.name = name
    found.is_named = True
    _names.version += 1


#: What a program knows of an integer.
Integer = int | SizeExpr | AnyInt


def symbol(
    name: str, *, is_named: bool = True, place: object = None, is_local: bool = True
) -> SizeExpr:
    """Return a new symbol."""
    return of_atom(SizeSymbol(name, is_named=is_named, place=place, is_local=is_local))


def of_atom(atom: Atom) -> SizeExpr:
    """Return the integer that is one atom."""
    return SizeExpr({(atom,): 1})


def _terms_of(number: int | SizeExpr) -> Mapping[Monomial, int]:
    if isinstance(number, SizeExpr):
        return number.terms
    return {(): number} if number else {}


def _made(terms: dict[Monomial, int]) -> Integer:
    """Return the integer of a sum; ``ANY_INT`` if it is too long or too large."""
    found = {factors: times for factors, times in terms.items() if times}
    if not found:
        return 0
    if len(found) > MAX_TERMS or max(map(abs, found.values())) > LARGEST:
        return ANY_INT
    if len(found) == 1 and () in found:
        return found[()]
    if max(map(len, found)) > MAX_FACTORS:
        return ANY_INT
    return SizeExpr(found)


def _small(number: int) -> Integer:
    """Return a number that may be a size, or a part of one."""
    return number if -LARGEST < number < LARGEST else ANY_INT


def add(a: Integer, b: Integer) -> Integer:
    """Return ``a + b``."""
    if type(a) is int and type(b) is int:
        return _small(a + b)
    return _sum(a, b, 1)


def _sum(a: Integer, b: Integer, sign: int) -> Integer:
    if a is ANY_INT or b is ANY_INT:
        return ANY_INT
    terms = dict(_terms_of(a))
    for factors, times in _terms_of(b).items():
        terms[factors] = terms.get(factors, 0) + sign * times
    return _made(terms)


def subtract(a: Integer, b: Integer) -> Integer:
    """Return ``a - b``."""
    if type(a) is int and type(b) is int:
        return _small(a - b)
    return _sum(a, b, -1)


def multiply(a: Integer, b: Integer) -> Integer:
    """Return ``a * b``."""
    if type(a) is int and type(b) is int:
        return _small(a * b)
    if (type(a) is int and a == 0) or (type(b) is int and b == 0):
        return 0
    if a is ANY_INT or b is ANY_INT:
        return ANY_INT
    if type(a) is int and a == 1:
        return b
    if type(b) is int and b == 1:
        return a
    terms: dict[Monomial, int] = {}
    for left, m in _terms_of(a).items():
        for right, n in _terms_of(b).items():
            factors = tuple(sorted(left + right, key=_key)) if left and right else left + right
            terms[factors] = terms.get(factors, 0) + m * n
    return _made(terms)


def _key(atom: Atom) -> tuple[object, ...]:
    return atom.key


def product(numbers: Iterable[Integer]) -> Integer:
    """Return the product of integers; of none it is 1."""
    result: Integer = 1
    for number in numbers:
        result = multiply(result, number)
    return result


def floor_divide(a: Integer, b: Integer) -> Integer:
    """Return ``a // b``; ``ANY_INT`` for a zero divisor."""
    if type(a) is int and type(b) is int:
        return a // b if b else ANY_INT
    if a is ANY_INT or b is ANY_INT or b == 0:
        return ANY_INT
    whole = exact_quotient(a, b)
    if whole is not None:
        return whole
    a, b = without_common_factors(a, b)
    if b == 1:
        return a
    if isinstance(a, SizeExpr) and isinstance(b, SizeExpr):
        common = gcd(*a.terms.values(), *b.terms.values())
        if common > 1:
            return floor_divide(_scaled_down(a, common), _scaled_down(b, common))
    # ``(3 * D + r) // 3`` is ``D + r // 3``: what the divisor divides leaves the quotient.
    taken: dict[Monomial, int] = {}
    left: dict[Monomial, int] = {}
    for factors, times in _terms_of(a).items():
        part = _monomial_quotient(factors, times, b)
        if part is None:
            left[factors] = times
        else:
            taken[part[0]] = taken.get(part[0], 0) + part[1]
    return add(_made(taken), _rest_divided(_made(left), b))


def _rest_divided(rest: Integer, b: int | SizeExpr) -> Integer:
    """Return the quotient of terms that the divisor does not divide."""
    if rest is ANY_INT:
        return ANY_INT
    if type(b) is not int:
        return _operation("//", (rest, b))
    if type(rest) is int:
        return rest // b
    assert isinstance(rest, SizeExpr)
    common = gcd(b, *rest.terms.values())
    if common > 1:
        return floor_divide(_scaled_down(rest, common), b // common)
    sole = rest.atom
    if isinstance(sole, SizeOperation) and sole.kind == "//" and b > 0:
        divisor = sole.operands[1]
        if set(divisor.terms) == {()} and divisor.constant > 0:
            return floor_divide(_plain(sole.operands[0]), divisor.constant * b)
    return _operation("//", (rest, b))


def without_common_factors(
    a: int | SizeExpr, b: int | SizeExpr
) -> tuple[int | SizeExpr, int | SizeExpr]:
    """Return two integers without the symbols that are factors of both, which are not zero."""
    if not isinstance(a, SizeExpr) or not isinstance(b, SizeExpr) or len(b.terms) != 1:
        return a, b
    factor = _shared_factor([*a.terms, *b.terms])
    if factor is None:
        return a, b
    parts = exact_quotient(a, factor), exact_quotient(b, factor)
    if parts[0] is None or parts[1] is None or parts[0] is ANY_INT or parts[1] is ANY_INT:
        return a, b
    return parts[0], parts[1]


def common_factors(number: SizeExpr) -> SizeExpr | None:
    """Return the product of the symbols that are factors of all terms, None if there are none."""
    return _shared_factor(number.terms)


def _shared_factor(terms: Iterable[Monomial]) -> SizeExpr | None:
    """Return the product of the atoms that all terms have, each as often as in all of them."""
    first, *others = terms
    shared = Counter(first)
    for factors in others:
        shared &= Counter(factors)
    return SizeExpr({tuple(sorted(shared.elements(), key=_key)): 1}) if shared else None


def _plain(number: SizeExpr) -> Integer:
    """Return the integer of an operand, which may be a constant."""
    return number.constant if set(number.terms) <= {()} else number


def _scaled_down(number: SizeExpr, divisor: int) -> Integer:
    return _made({factors: times // divisor for factors, times in number.terms.items()})


def _monomial_quotient(
    factors: Monomial, times: int, divisor: int | SizeExpr
) -> tuple[Monomial, int] | None:
    """Return a monomial divided by a number or a monomial, None if something is left over."""
    if isinstance(divisor, int):
        return (factors, times // divisor) if times % divisor == 0 else None
    if len(divisor.terms) != 1:
        return None
    ((others, number),) = divisor.terms.items()
    if times % number:
        return None
    left = list(factors)
    for atom in others:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left), times // number


def exact_quotient(a: Integer, b: Integer) -> Integer | None:
    """Return ``a / b`` where ``b`` certainly divides ``a``, None where that is not known."""
    if a is ANY_INT or b is ANY_INT or b == 0:
        return None
    if type(a) is int and type(b) is int:
        return a // b if a % b == 0 else None
    if a == b:
        return 1
    if a == 0:
        return 0
    if isinstance(b, SizeExpr) and len(b.terms) > 1:
        return _polynomial_quotient(a, b)
    result: dict[Monomial, int] = {}
    for factors, times in _terms_of(a).items():
        part = _monomial_quotient(factors, times, b)
        if part is None:
            return None
        result[part[0]] = result.get(part[0], 0) + part[1]
    made = _made(result)
    return None if made is ANY_INT else made


def _polynomial_quotient(a: Integer, b: SizeExpr) -> Integer | None:
    """Divide by a sum, term by term: ``(2 * C + 2 * D) / (C + D)``."""
    if not isinstance(a, SizeExpr):
        return None
    lead, number = max(b.terms.items(), key=_lead)
    left: Integer = a
    result: Integer = 0
    for _ in range(MAX_TERMS):
        if left == 0:
            return result
        if not isinstance(left, SizeExpr):
            return None
        factors, times = max(left.terms.items(), key=_lead)
        part = _monomial_quotient(factors, times, SizeExpr({lead: number}))
        if part is None:
            return None
        step = _made({part[0]: part[1]})
        result = add(result, step)
        left = subtract(left, multiply(step, b))
    return None


def _lead(term: tuple[Monomial, int]) -> tuple[int, tuple[object, ...]]:
    return len(term[0]), tuple(atom.key for atom in term[0])


def modulo(a: Integer, b: Integer) -> Integer:
    """Return ``a % b``."""
    if type(a) is int and type(b) is int:
        return a % b if b else ANY_INT
    quotient = floor_divide(a, b)
    return subtract(a, multiply(quotient, b))


def ceil_divide(a: Integer, b: Integer) -> Integer:
    """Return ``-(-a // b)``."""
    return multiply(floor_divide(multiply(a, -1), b), -1)


def least(numbers: Iterable[Integer]) -> Integer:
    """Return the least of integers."""
    return _extreme("min", tuple(numbers))


def greatest(numbers: Iterable[Integer]) -> Integer:
    """Return the greatest of integers."""
    return _extreme("max", tuple(numbers))


def _extreme(kind: str, numbers: tuple[Integer, ...]) -> Integer:
    choose: Callable[[int, int], int] = min if kind == "min" else max
    found: dict[Integer, None] = {}
    known: int | None = None
    for number in numbers:
        if number is ANY_INT:
            return ANY_INT
        if type(number) is int:
            known = number if known is None else choose(known, number)
        else:
            found[number] = None
    kept: list[Integer] = list(found)
    if known is not None:
        kept.append(known)
    # ``min(S, S + 1)`` is ``S``.
    dominated = {
        i
        for i, a in enumerate(kept)
        for j, b in enumerate(kept)
        if i != j and type(d := subtract(a, b)) is int and (d > 0 if kind == "min" else d < 0)
    }
    kept = [number for i, number in enumerate(kept) if i not in dominated]
    return kept[0] if len(kept) == 1 else _operation(kind, tuple(kept))


def _operation(kind: str, operands: tuple[Integer, ...]) -> Integer:
    given = []
    for operand in operands:
        if operand is ANY_INT:
            return ANY_INT
        given.append(operand if isinstance(operand, SizeExpr) else SizeExpr({(): operand}))
    if kind != "//":
        given.sort(key=lambda operand: operand.key)
    if len(given) > MAX_TERMS or max(operand.nested for operand in given) >= MAX_NESTED:
        return ANY_INT
    return of_atom(SizeOperation(kind, tuple(given)))


def substituted(number: Integer, values: Mapping[SizeSymbol, Integer]) -> Integer:
    """Return the integer where symbols are replaced."""
    if not isinstance(number, SizeExpr) or not values or number.symbols.isdisjoint(values):
        return number
    result: Integer = 0
    for factors, times in number.terms.items():
        part: Integer = times
        for atom in factors:
            part = multiply(part, _atom_substituted(atom, values))
        result = add(result, part)
    return result


def _atom_substituted(atom: Atom, values: Mapping[SizeSymbol, Integer]) -> Integer:
    if isinstance(atom, SizeSymbol):
        found = values.get(atom)
        return of_atom(atom) if found is None else found
    operands = [substituted(_plain(operand), values) for operand in atom.operands]
    if atom.kind == "//":
        return floor_divide(*operands)
    return least(operands) if atom.kind == "min" else greatest(operands)


class Comparison(Enum):
    """The relation known between two sizes, which are not negative.

    EQUAL, DIFFERENT: for all values of the symbols.
    DEGENERATE: different unless a symbol is 0.
    POSSIBLE: equal for some values.
    """

    EQUAL = "equal"
    DIFFERENT = "different"
    DEGENERATE = "degenerate"
    POSSIBLE = "possible"


def compare(a: Integer, b: Integer) -> Comparison:
    """Compare two sizes."""
    if a is ANY_INT or b is ANY_INT:
        return Comparison.POSSIBLE
    if a == b:
        return Comparison.EQUAL
    return _compare_to_zero(subtract(a, b))


def _compare_to_zero(difference: Integer | None) -> Comparison:
    if type(difference) is int:
        return Comparison.EQUAL if difference == 0 else Comparison.DIFFERENT
    if not isinstance(difference, SizeExpr):
        return Comparison.POSSIBLE
    if _never_divides(difference):
        return Comparison.DIFFERENT
    if sign_of_sizes(difference):
        return Comparison.DEGENERATE
    return _compare_operands(difference)


def _compare_operands(difference: SizeExpr) -> Comparison:
    """Compare ``max(S - 1, 0) - S`` to zero: each operand may be the greatest."""
    for factors, times in difference.terms.items():
        atom = factors[0] if len(factors) == 1 else None
        if isinstance(atom, SizeOperation) and atom.kind in ("min", "max"):
            rest = subtract(difference, multiply(times, of_atom(atom)))
            found = {_compare_to_zero(add(rest, multiply(times, o))) for o in atom.operands}
            if found <= {Comparison.DIFFERENT, Comparison.DEGENERATE}:
                return Comparison.DEGENERATE if len(found) > 1 else found.pop()
            break
    return Comparison.POSSIBLE


def _never_divides(difference: SizeExpr) -> bool:
    """Return whether it is never zero, as ``2 * D + 1``: all but the constant share a factor."""
    constant = difference.constant
    if not constant:
        return False
    common = gcd(*(times for factors, times in difference.terms.items() if factors))
    return constant % common != 0


def sign_of_sizes(number: SizeExpr) -> int:
    """The sign that a polynomial has wherever its symbols are above 0; 0 if that is not known."""
    if any(not isinstance(atom, SizeSymbol) for factors in number.terms for atom in factors):
        return 0
    # With ``s = t + 1`` for each symbol, coefficients of one sign decide.
    terms: dict[Monomial, int] = {}
    for factors, times in number.terms.items():
        expanded: dict[Monomial, int] = {(): times}
        for atom in factors:
            step: dict[Monomial, int] = {}
            for held, n in expanded.items():
                step[held] = step.get(held, 0) + n
                more = tuple(sorted((*held, atom), key=_key))
                step[more] = step.get(more, 0) + n
            expanded = step
        if len(expanded) > 1 << MAX_FACTORS:
            return 0
        for held, n in expanded.items():
            terms[held] = terms.get(held, 0) + n
    if terms.get((), 0) > 0 and all(times >= 0 for times in terms.values()):
        return 1
    if terms.get((), 0) < 0 and all(times <= 0 for times in terms.values()):
        return -1
    return 0


def at_least(a: Integer, b: Integer) -> bool:
    """Return whether ``a >= b`` for all values of the symbols, which are not negative."""
    difference = subtract(a, b)
    if type(difference) is int:
        return difference >= 0
    if not isinstance(difference, SizeExpr):
        return False
    if _is_sum_of_sizes(difference) or _is_sum_of_sizes(_without_quotients(difference)):
        return True
    for factors, times in difference.terms.items():
        chosen = factors[0] if len(factors) == 1 and times in (1, -1) else None
        if isinstance(chosen, SizeOperation) and chosen.kind in ("min", "max"):
            rest = subtract(difference, _made({factors: times}))
            enough = any if (times == 1) == (chosen.kind == "max") else all
            parts = (multiply(_plain(operand), times) for operand in chosen.operands)
            return enough(at_least(add(rest, part), 0) for part in parts)
    return False


def not_below_zero(size: Integer) -> Integer:
    """Return the size, or 0 for a negative one."""
    return size if at_least(size, 0) else greatest((size, 0))


def _is_sum_of_sizes(number: Integer) -> bool:
    """Return whether an integer is certainly not negative, if symbols are not."""
    if not isinstance(number, SizeExpr):
        return type(number) is int and number >= 0
    return all(
        times >= 0 and all(_is_size(atom) for atom in factors)
        for factors, times in number.terms.items()
    )


def _without_quotients(number: SizeExpr) -> Integer:
    """Return a multiple of a number that is not greater: ``n // k`` is subtracted as ``n / k``."""
    scale = 1
    quotients: dict[Monomial, tuple[SizeOperation, int]] = {}
    for factors, times in number.terms.items():
        found = [atom for atom in factors if isinstance(atom, SizeOperation) and atom.kind == "//"]
        if times >= 0 or not found:
            continue
        divisor = found[0].operands[1]
        known = divisor.constant if set(divisor.terms) == {()} else 1
        if len(found) > 1 or known < 1 or not _is_size(found[0]):
            return ANY_INT
        scale = lcm(scale, known)
        quotients[factors] = (found[0], known)
    result: Integer = 0
    for factors, times in number.terms.items():
        part = _made({factors: times * scale})
        if factors in quotients:
            quotient, known = quotients[factors]
            rest = tuple(atom for atom in factors if atom is not quotient)
            part = multiply(_made({rest: times * scale // known}), _plain(quotient.operands[0]))
        result = add(result, part)
    return result


def _is_size(atom: Atom) -> bool:
    """Return whether an atom is certainly not negative, if symbols are not."""
    if isinstance(atom, SizeSymbol):
        return True
    parts = [
        all(times >= 0 and all(map(_is_size, factors)) for factors, times in operand.terms.items())
        for operand in atom.operands
    ]
    return any(parts) if atom.kind == "max" else all(parts)


def _written(number: SizeExpr) -> str:
    parts: list[tuple[str, str]] = []
    whole = with_wholes(number)
    terms = whole.terms if isinstance(whole, SizeExpr) else number.terms
    ordered = sorted(terms.items(), key=lambda term: (term[1] < 0, not term[0], _lead(term)))
    for factors, times in ordered:
        alone = len(terms) == 1 and len(factors) == 1 and times == 1
        names = [_factor(atom, alone=alone) for atom in factors]
        if abs(times) != 1 or not factors:
            names.insert(0, str(abs(times)))
        parts.append(("-" if times < 0 else "+", " * ".join(names)))
    text = "".join(f" {sign} {part}" for sign, part in parts)
    return text.removeprefix(" + ") if text.startswith(" + ") else "-" + text.removeprefix(" - ")


def with_wholes(number: Integer) -> Integer:
    """Return the integer where a quotient that is multiplied by its divisor is the whole again."""
    if not isinstance(number, SizeExpr) or not any(s.quotient for s in number.symbols):
        return number
    terms: dict[Monomial, int] = {}
    for factors, times in number.terms.items():
        key, often = _with_wholes(factors, times)
        terms[key] = terms.get(key, 0) + often
    return _made(terms)


def _with_wholes(factors: Monomial, times: int) -> tuple[Monomial, int]:
    for atom in factors:
        if not isinstance(atom, SizeSymbol) or atom.quotient is None:
            continue
        whole, divisor = atom.quotient
        if isinstance(divisor, SizeExpr) and len(divisor.terms) != 1:
            continue
        ((others, number),) = _terms_of(divisor).items()
        left = list(factors)
        left.remove(atom)
        if times % number == 0 and all(left.count(one) >= others.count(one) for one in others):
            for one in others:
                left.remove(one)
            return _with_wholes(tuple(sorted((whole, *left), key=_key)), times // number)
    return factors, times


def _factor(atom: Atom, *, alone: bool) -> str:
    text = repr(atom)
    is_call = isinstance(atom, SizeOperation) and atom.kind != "//"
    return text if alone or is_call or " // " not in text else f"({text})"


def _grouped(number: SizeExpr) -> str:
    text, atom = repr(number), number.atom
    is_quotient = isinstance(atom, SizeOperation) and atom.kind == "//"
    is_plain = set(number.terms) <= {()} or (atom is not None and not is_quotient)
    return text if is_plain else f"({text})"
