"""Values as a followed kernel knows them: offsets known for each thread, plus unknown symbols.

Threads are numbered as in ``thread_index_in_threadgroup``, 32 to a SIMD group. How a value differs
between threads is kept as three bits, since a value may well differ between the lanes of a SIMD
group and yet be the same in each group (what lane 3 holds, for example).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct, field

if TYPE_CHECKING:
    from embercoach.metal.program.nodes import Call

#: How far a value is the same: for all threads, those of a threadgroup, of a SIMD group, or not.
Reach = Literal["grid", "threadgroup", "simdgroup", "thread"]

#: A value differs between threadgroups, between SIMD groups of one, between lanes of a SIMD group.
GROUP, SIMD, LANE = 1, 2, 4
#: A value differs between threads of one threadgroup.
WITHIN = SIMD | LANE
ANYWHERE = GROUP | WITHIN
#: Operations of the symbols for the position of the threadgroup.
GROUP_AXES = ("group.x", "group.y", "group.z")
#: A value may depend on the position of the threadgroup along each axis.
ALL_AXES = 7
#: Threads of a SIMD group.
SIMD_WIDTH = 32


def reach_of(bits: int) -> Reach:
    """Return the reach of a value that differs as the bits say."""
    if bits & LANE:
        return "thread"
    if bits & SIMD:
        return "simdgroup"
    return "threadgroup" if bits & GROUP else "grid"


class ValueOrigin(Struct, frozen=True):
    """Notes on the origin of a value; they pass on to all results that depend on it.

    Attributes:
        reduced: the SIMD reductions.
        blurred: it may be the same for more threads than its bits say (after a shuffle).
        single: at most one thread may see a certain value of it (what an atomic returned).
        axes: those along which the position of the threadgroup may have a part in it, as bits.
    """

    reduced: frozenset[Call] = frozenset()
    blurred: bool = False
    single: bool = False
    axes: int = 0

    def joined(self, other: ValueOrigin) -> ValueOrigin:
        """Both together."""
        if other is self or other is NOWHERE:
            return self
        if self is NOWHERE:
            return other
        if other in (self, NOWHERE):
            return self
        if self == NOWHERE:
            return other
        return ValueOrigin(
            self.reduced | other.reduced,
            self.blurred or other.blurred,
            self.single or other.single,
            self.axes | other.axes,
        )


NOWHERE = ValueOrigin()


class UnknownNumber(Struct, frozen=True, eq=False):
    """An unknown number: the same symbol is the same number, within its reach.

    Attributes:
        number: in the order of appearance.
        bits: how it differs between threads.
        operation: what it is the result of; ``load``, ``<`` and so on.
        operands: of the operation.
    """

    number: int
    bits: int
    operation: str
    operands: tuple[object, ...] = ()
    origin: ValueOrigin = NOWHERE


class LaneValue(NamedTuple):
    """A number: what is known of it for each thread, plus multiples of unknowns.

    Attributes:
        offsets: the known part: one number for all threads, or one for each thread of the group.
        terms: unknowns with their factors, in the order of their numbers.
        bits: how the whole value differs between threads, which the others decide.
    """

    offsets: int | tuple[int, ...] = 0
    terms: tuple[tuple[UnknownNumber, int], ...] = ()
    bits: int = 0

    @property
    def reach(self) -> Reach:
        """For which threads it is the same."""
        return reach_of(self.bits)

    @property
    def comparable(self) -> bool:
        """Return whether threads of a threadgroup compare in it: its unknowns are one for all."""
        return not any(symbol.bits & WITHIN for symbol, _ in self.terms)

    @property
    def exact(self) -> bool:
        """Return whether it is known for each thread."""
        return not self.terms

    @property
    def constant(self) -> int | None:
        """The number, where it is known and one for all threads."""
        return self.offsets if not self.terms and isinstance(self.offsets, int) else None

    @property
    def symbol(self) -> UnknownNumber | None:
        """The unknown, where the value is nothing but that."""
        if self.offsets == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None

    @property
    def origin(self) -> ValueOrigin:
        """The origins of its unknowns."""
        terms = self.terms
        if not terms:
            return NOWHERE
        origin = terms[0][0].origin
        for symbol, _ in terms[1:]:
            origin = origin.joined(symbol.origin)
        return origin

    def offset(self, thread: int) -> int:
        """Return the known part for one thread."""
        return self.offsets if isinstance(self.offsets, int) else self.offsets[thread]


ZERO, ONE = LaneValue(0), LaneValue(1)


def spread(offsets: tuple[int, ...]) -> int:
    """Return the differences of numbers between the threads that have them, as bits."""
    bits = 0
    if offsets[SIMD_WIDTH:] != offsets[:-SIMD_WIDTH]:
        bits = SIMD
    for start in range(0, len(offsets), SIMD_WIDTH):
        chunk = offsets[start : start + SIMD_WIDTH]
        if chunk.count(chunk[0]) != len(chunk):
            return bits | LANE
    return bits


def value_of(
    offsets: int | tuple[int, ...], terms: tuple[tuple[UnknownNumber, int], ...] = ()
) -> LaneValue:
    """Return a value in its shortest form."""
    bits = 0
    if not isinstance(offsets, int):
        if offsets.count(offsets[0]) == len(offsets):
            offsets = offsets[0]
        else:
            bits = spread(offsets)
    for symbol, _ in terms:
        bits |= symbol.bits
    return LaneValue(offsets, terms, bits)


class SymbolPool(Struct):
    """Makes symbols: one for each operation on the same operands.

    Attributes:
        lanes: number of threads in the group.
        steps: operations done so far, weighed by the threads that they were done for.
    """

    lanes: int
    steps: int = 0
    _made: dict[object, LaneValue] = field(default_factory=dict)
    _count: int = 0

    def symbol(self, operation: str, operands: tuple[object, ...] = (), bits: int = 0) -> LaneValue:
        """The symbol of an operation: it differs as its operands do, and comes from where they do.

        Args:
            operation: its name.
            operands: values, and whatever else identifies the operation.
            bits: how it differs besides.
        """
        known = self._made.get((operation, operands))
        if known is not None:
            return known
        origin = NOWHERE
        for operand in operands:
            if isinstance(operand, LaneValue):
                bits |= operand.bits
                if operand.terms:
                    origin = origin.joined(operand.origin)
        return self.result(operation, operands, bits, origin)

    def result(
        self, operation: str, operands: tuple[object, ...], bits: int, origin: ValueOrigin
    ) -> LaneValue:
        """Get the symbol of an operation that differs by these bits, whatever its operands do."""
        key = (operation, operands)
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = self.fresh(operation, operands, bits, origin)
        return known

    def fresh(
        self,
        operation: str,
        operands: tuple[object, ...] = (),
        bits: int = ANYWHERE,
        origin: ValueOrigin = NOWHERE,
    ) -> LaneValue:
        """Return a symbol that no other operation gave."""
        self._count += 1
        made = UnknownNumber(self._count, bits, operation, operands, origin)
        return LaneValue(0, ((made, 1),), bits)

    def unknown(self, operation: str = "?") -> LaneValue:
        """Return a value that nothing is known of."""
        return self.fresh(operation, (), ANYWHERE, ValueOrigin(blurred=True, axes=ALL_AXES))
