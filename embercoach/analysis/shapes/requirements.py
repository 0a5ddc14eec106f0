"""Requirements on the sizes of a call's arguments, for the call not to raise.

A transfer function computes the shape that a function of MLX returns, for known and for symbolic
sizes alike, and asks here for what MLX checks. What fails for all values of the symbols raises
``ShapeError``; what may fail is kept as a ``Condition``, which holds wherever the program goes on.
"""

from __future__ import annotations

from typing import NoReturn, TypeGuard

from msgspec import Struct

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    ShapedArray,
    unknown_shape,
    weak_kind,
)
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    AnyInt,
    Comparison,
    Integer,
    SizeExpr,
    at_least,
    compare,
    symbol,
)

#: An array of so many axes is taken for one that no other adds axes to.
MANY_AXES = 3


#: Axes of shapes that are looked at for sizes in other places.
MOST_AXES = 8


class ShapeError(Exception):
    """MLX raises for all values of the symbols.

    Attributes:
        reason: one clause, with the sizes: ``the inner sizes are 3 and 4``.
        meant: what the operation that is certainly meant returns.
    """

    def __init__(self, reason: str, meant: object = UNKNOWN) -> None:
        """Make the error of a reason."""
        super().__init__(reason)
        self.reason = reason
        self.meant = meant


class ArgumentError(ShapeError):
    """MLX refuses an argument for its kind: ``None`` for an array, a name for a dtype."""


class Condition(Struct, frozen=True):
    """Two sizes that must be equal, or the call raises.

    comparison: DEGENERATE or POSSIBLE.
    allows_one: it doesn't raise where one of them is 1, either.
    adds_axes: one of the shapes has fewer axes than the other.
    is_unmeant: the shapes themselves show that these sizes are of different things.
    reason: as that of ``ShapeError``.
    """

    left: Integer
    right: Integer
    comparison: Comparison
    reason: str
    allows_one: bool = False
    adds_axes: bool = False
    is_unmeant: bool = False


class Requirements:
    """The requirements of one call.

    Attributes:
        conditions: that may not hold, in order.
        axes: what unknown axes must be, for the call not to raise.
    """

    def __init__(self, *, assumes: bool = False, assumes_ranks: bool = False) -> None:
        """Begin with none.

        Args:
            assumes: that a size which has a name is not 1.
            assumes_ranks: that an array of many axes gets no more of them: to show shapes by, not
                to find errors by.
        """
        self.assumes = assumes
        self.assumes_ranks = assumes_ranks
        self.conditions: list[Condition] = []
        self.axes: list[tuple[AxesSymbol, ArrayShape]] = []

    def fail(self, reason: str) -> NoReturn:
        """Raise ``ShapeError``."""
        raise ShapeError(reason)

    def one_of(self, name: str, value: object, allowed: tuple[str, ...]) -> None:
        """Require a text to be one of some."""
        if isinstance(value, str) and value not in allowed:
            self.fail(f"the {name} is {value!r}, not one of {', '.join(map(repr, allowed))}")

    def refuse(self, reason: str) -> NoReturn:
        """Raise ``ArgumentError``."""
        raise ArgumentError(reason)

    def equal(self, a: Integer, b: Integer, reason: str, *, is_unmeant: bool = False) -> Integer:
        """Require two sizes to be equal, and return the one of which more is known.

        Args:
            a: a size.
            b: another one.
            reason: why the call raises if they differ.
            is_unmeant: that they are equal would be chance.
        """
        comparison = compare(a, b)
        if comparison is Comparison.EQUAL:
            return a
        if comparison is Comparison.DIFFERENT:
            raise ShapeError(reason)
        if a is ANY_INT or b is ANY_INT:
            return b if a is ANY_INT else a
        self.conditions.append(Condition(a, b, comparison, reason, is_unmeant=is_unmeant))
        return a if type(a) is int else b

    def equal_unless_one(
        self,
        a: Integer,
        b: Integer,
        reason: str,
        *,
        adds_axes: bool = False,
        is_unmeant: bool = False,
    ) -> None:
        """Note that two sizes must be equal, or one of them 1."""
        comparison = compare(a, b)
        if comparison is Comparison.DIFFERENT:
            comparison = Comparison.DEGENERATE
        if comparison is not Comparison.EQUAL:
            condition = Condition(a, b, comparison, reason, True, adds_axes, is_unmeant)
            self.conditions.append(condition)

    def last_equal(self, shape: ArrayShape, size: Integer, reason: str) -> Integer:
        """Require the last axis of a shape to have a size.

        Where another of its axes has just this size, the axes are in another order.
        """
        others = (*shape.head, *shape.tail)[:-1]
        return self.equal(shape.size(-1), size, reason, is_unmeant=is_among(size, others))

    def broadcast(self, *shapes: ArrayShape) -> ArrayShape:
        """Require shapes to broadcast, and return the common one."""
        result = shapes[0]
        for shape in shapes[1:]:
            result = self._broadcast(result, shape)
        return result

    def _broadcast(self, a: ArrayShape, b: ArrayShape) -> ArrayShape:
        if a == b or b.rank == 0:
            return a
        if a.rank == 0:
            return b
        if a.middle is None and b.middle is None:
            longer, shorter = (a.head, b.head) if len(a.head) >= len(b.head) else (b.head, a.head)
            ahead = len(longer) - len(shorter)
            sizes = [self._common(m, n, a, b) for m, n in zip(longer[ahead:], shorter, strict=True)]
            return ArrayShape((*longer[:ahead], *sizes))
        if a.middle is b.middle and len(a.head) == len(b.head) and len(a.tail) == len(b.tail):
            head = [self._common(m, n, a, b) for m, n in zip(a.head, b.head, strict=True)]
            tail = [self._common(m, n, a, b) for m, n in zip(a.tail, b.tail, strict=True)]
            return ArrayShape(tuple(head), a.middle, tuple(tail))
        # The last axes are aligned; how many precede is unknown, unless one shape covers the other.
        mine, theirs = (a.tail if a.middle else a.head), (b.tail if b.middle else b.head)
        common = min(len(mine), len(theirs))
        tail = [
            self._common(m, n, a, b)
            for m, n in zip(mine[len(mine) - common :], theirs[len(theirs) - common :], strict=True)
        ]
        for known, other in ((a, b), (b, a)):
            # Arrays of many axes are combined with others of fewer, such as masks and scales.
            rank = known.rank
            if rank is None or not self.assumes_ranks:
                continue
            if rank >= MANY_AXES and other.least_rank <= rank and 1 not in known.head:
                # What remains what it is when it is combined with an unknown size.
                sizes = [
                    n if (type(n) is int and n > 1) or is_named(n) else ANY_INT
                    for n in known.head[: rank - common]
                ]
                return ArrayShape((*sizes, *tail))
        for known, other in ((a, b), (b, a)):
            if known.middle is not None and other.middle is None:
                ahead = len(known.tail) - len(other.head)
                if ahead >= 0:
                    return ArrayShape(known.head, known.middle, (*known.tail[:ahead], *tail))
        # Whatever the other has there, the axes of the longer one remain.
        longer = mine[: len(mine) - common] or theirs[: len(theirs) - common]
        sizes = [self._common(size, ANY_INT, a, b) for size in longer]
        return ArrayShape((), AxesSymbol(), (*sizes, *tail))

    def _common(self, m: Integer, n: Integer, a: ArrayShape, b: ArrayShape) -> Integer:
        """Return the size of an axis, of two that are equal unless one is 1."""
        if type(m) is int and m == 1:
            return n
        if type(n) is int and n == 1:
            return m
        if m is ANY_INT or n is ANY_INT:
            # Whatever the other is, a size above 1 remains; one that has a name is seldom 1.
            known = n if m is ANY_INT else m
            if isinstance(known, SizeExpr) and min(len(a.head), len(b.head)) > 1:
                self._note_broadcast(m, n, a, b, is_known=False)
            above_one = type(known) is int and known > 1
            return known if above_one or (self.assumes and is_named(known)) else ANY_INT
        if compare(m, n) is Comparison.EQUAL:
            return m
        if type(m) is int and type(n) is int:
            raise ShapeError(f"the shapes {a} and {b} don't broadcast")
        self._note_broadcast(m, n, a, b)
        for known, other in ((m, n), (n, m)):
            if type(known) is int and known > 1:
                return known
            # ``min(2048, L)`` of a slice is L, or the call raises.
            is_longer = is_named(known) and (not is_named(other) or at_least(known, other))
            if self.assumes and is_longer:
                return known
        return ANY_INT

    def _note_broadcast(
        self, m: Integer, n: Integer, a: ArrayShape, b: ArrayShape, *, is_known: bool = True
    ) -> None:
        """Note that two sizes must be equal or 1; otherwise only where the shapes say they aren't.

        ``is_known``: whether both sizes are known.
        """
        misplaced = _out_of_place(a, b)
        is_unmeant = misplaced is not None and misplaced in (m, n)
        is_unmeant = is_unmeant or _fits_elsewhere(a, b)
        if is_known or is_unmeant:
            reason = f"the shapes {a} and {b} don't broadcast"
            adds_axes = a.least_rank != b.least_rank
            self.equal_unless_one(m, n, reason, adds_axes=adds_axes, is_unmeant=is_unmeant)

    def rank(self, array: ShapedArray, rank: int, reason: str) -> tuple[Integer, ...]:
        """Require a number of axes, and return their sizes."""
        shape = array.shape
        if shape.middle is None:
            if len(shape.head) != rank:
                raise ShapeError(reason)
            return shape.head
        missing = rank - shape.least_rank
        if missing < 0:
            raise ShapeError(reason)
        between = axis_symbols(shape.middle, missing)
        self.axes.append((shape.middle, ArrayShape(between)))
        return (*shape.head, *between, *shape.tail)

    def same_rank(self, a: ArrayShape, b: ArrayShape, reason: str) -> None:
        """Require two shapes to have as many axes, also where the same ones of both are unknown."""
        is_known = a.rank is not None and b.rank is not None
        if (is_known or a.middle is b.middle) and a.least_rank != b.least_rank:
            raise ShapeError(reason)

    def least_rank(self, array: ShapedArray, rank: int, reason: str) -> ArrayShape:
        """Require at least so many axes."""
        shape = array.shape
        if shape.middle is None and len(shape.head) < rank:
            raise ShapeError(reason)
        return shape

    def axis(self, axis: object, shape: ArrayShape, added: int = 0) -> int | None:
        """Return the axis that an argument names, None if that is unknown.

        Where the number of axes is known it is at least 0; else it may count from the end.

        Args:
            axis: the argument.
            shape: the array's.
            added: how many more axes the result has (1 for ``mx.expand_dims`` and ``mx.stack``).
        """
        if type(axis) is not int:
            return None
        if shape.rank is None:
            return axis
        rank = shape.rank + added
        if not -rank <= axis < rank:
            raise ShapeError(f"axis {axis} is out of bounds for the shape {shape}")
        return axis % rank


def is_among(size: Integer, others: tuple[Integer, ...]) -> bool:
    """Return whether a size is that of one of some axes, for certain."""
    is_one = type(size) is int and size == 1
    return not (is_one or size is ANY_INT) and any(
        type(n) is type(size) and n == size for n in others
    )


def _fits_elsewhere(a: ArrayShape, b: ArrayShape) -> bool:
    """Return whether axes of two shapes are equal that broadcasting doesn't combine.

    All axes of one are axes of the other, with new ones between them: ``(B,)`` is the first axis of
    ``(B, S)``. Or the last one of a matrix is the first one of the other: ``(B, D)`` and
    ``(D, N)``.
    """
    # Unknown axes ahead of others don't matter.
    ends = [one.head or one.tail for one in (a, b)]
    if any(one.head and one.middle is not None for one in (a, b)) or not all(ends):
        return False
    shorter, longer = sorted(ends, key=len)
    sizes = [n for n in shorter if not (type(n) is int and n == 1)]
    if not sizes or not all(isinstance(n, SizeExpr) for n in (*sizes, longer[-1])):
        return False
    if len(shorter) == len(longer):
        return a.rank == b.rank == 2 and any(
            m.head[-1] == n.head[0] and m.head[0] not in n.head for m, n in ((a, b), (b, a))
        )
    left = iter(longer)
    return all(any(n == other for other in left) for n in sizes)


def _out_of_place(a: ArrayShape, b: ArrayShape) -> SizeExpr | None:
    """Return the axis of both shapes that is broadcast at one place, and combined with another one.

    ``(n, 1, L, B)`` with ``(1, B, L, D)``: batches are combined with features.
    """
    if a.rank is None or b.rank is None or max(a.rank, b.rank) > MOST_AXES:
        return None
    for one, other in ((a.head[::-1], b.head[::-1]), (b.head[::-1], a.head[::-1])):
        for at, size in enumerate(one[: len(other)]):
            if not isinstance(size, SizeExpr) or one.count(size) != 1 or other.count(size) != 1:
                continue
            place = other.index(size)
            beside = one[place] if place < len(one) else 1
            is_added = len(one) < len(other) and beside is ANY_INT
            is_broadcast = is_added or (type(beside) is int and beside == 1)
            partner = other[at]
            if is_broadcast and partner != size and not (type(partner) is int and partner == 1):
                return size
    return None


def is_named(number: Integer) -> bool:
    """Return whether the program gives a symbolic size its name."""
    return isinstance(number, SizeExpr) and all(one.is_named for one in number.symbols)


def axis_symbols(middle: AxesSymbol, number: int) -> tuple[Integer, ...]:
    """New symbols for so many axes that were unknown."""
    return tuple(symbol(middle.axis_name(at), is_named=False, place=middle) for at in range(number))


def is_integer(value: object) -> TypeGuard[Integer]:
    """Return whether a value is an integer, of whatever size; ``True`` is none."""
    return type(value) is int or type(value) is SizeExpr or type(value) is AnyInt


def integers_of(value: object) -> tuple[Integer, ...] | None:
    """Return the integers of a tuple or list, or a lone one; None if some are unknown values."""
    if is_integer(value):
        return (value,)
    if not isinstance(value, (tuple, list)) or not all(map(is_integer, value)):
        return None
    return tuple(value)


def array_of(value: object) -> ShapedArray | None:
    """Return the array that an argument is; of an unknown one any; None for what isn't an array.

    A Python number stands for an array without axes or a dtype.
    """
    if isinstance(value, ShapedArray):
        return value
    if value is UNKNOWN:
        return ShapedArray(unknown_shape())
    return ShapedArray(ArrayShape()) if weak_kind(value) is not None else None


def shape_of(value: object) -> ArrayShape | None:
    """Return the shape that an argument asks for; one ``AxesSymbol`` in it stands for unknown axes.

    None for a value that may be of any length.
    """
    if is_integer(value):
        return ArrayShape((value,))
    if not isinstance(value, (tuple, list)):
        return None
    places = [at for at, item in enumerate(value) if isinstance(item, AxesSymbol)]
    items = tuple(item if is_integer(item) else ANY_INT for item in value)
    if not places:
        return ArrayShape(items)
    if len(places) > 1:
        return ArrayShape(items[: places[0]], AxesSymbol(), items[places[-1] + 1 :])
    at = places[0]
    return ArrayShape(items[:at], value[at], items[at + 1 :])


def sizes_of(shape: ArrayShape) -> tuple[object, ...]:
    """Return the value of ``x.shape``: sizes, and an ``AxesSymbol`` where axes are unknown."""
    if shape.middle is None:
        return shape.head
    return (*shape.head, shape.middle, *shape.tail)
