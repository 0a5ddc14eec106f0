"""Facts that a path shows of symbols, and joins of two paths: what differs gets a new symbol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from msgspec import Struct

from embercoach.analysis.shapes.arrays import (
    ANY_BOOL,
    ANY_FLOAT,
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    DType,
    DTypeSymbol,
    DTypeValue,
    PromotedDType,
    ShapedArray,
    dtype_symbol,
    is_floating,
    weak_kind,
)
from embercoach.analysis.shapes.python_values import (
    Attributes,
    Entries,
    Items,
    Iterator,
    Options,
    Place,
    Truth,
    one_of,
    options_of,
)
from embercoach.analysis.shapes.requirements import shape_of, sizes_of
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    SizeExpr,
    SizeSymbol,
    substituted,
    symbol,
    with_wholes,
)


class Facts(Struct):
    """The facts learned of symbols on a path."""

    sizes: dict[SizeSymbol, Integer]
    axes: dict[AxesSymbol, ArrayShape]
    places: dict[Place, Any]
    truths: dict[Truth, bool]
    #: What happens on the path for certain, in order.
    events: tuple[Any, ...] = ()
    #: Whether something on the path raises.
    failed: bool = False

    def copy(self) -> Facts:
        """Return a copy that is changed separately."""
        return Facts(
            dict(self.sizes),
            dict(self.axes),
            dict(self.places),
            dict(self.truths),
            self.events,
            self.failed,
        )


def shape_under(facts: Facts, shape: ArrayShape) -> ArrayShape:
    """Return a shape with all that is learned of its symbols."""
    middle = shape.middle
    while middle is not None and middle in facts.axes:
        found = facts.axes[middle]
        head = (*shape.head, *found.head)
        middle = found.middle
        if middle is None:
            shape = ArrayShape((*head, *shape.tail))
        else:
            shape = ArrayShape(head, middle, (*found.tail, *shape.tail))
    sizes = facts.sizes
    if not sizes:
        return shape
    head = tuple([substituted(n, sizes) if type(n) is SizeExpr else n for n in shape.head])
    tail = tuple([substituted(n, sizes) if type(n) is SizeExpr else n for n in shape.tail])
    if head == shape.head and tail == shape.tail:
        return shape
    return ArrayShape(head, middle, tail)


def common_facts(a: Facts, b: Facts) -> Facts:
    """Return the facts that two paths have in common; the events of the first."""
    if a.sizes == b.sizes and a.axes == b.axes and a.places == b.places and a.truths == b.truths:
        return a.copy()
    return Facts(
        {k: v for k, v in a.sizes.items() if b.sizes.get(k) == v},
        _common_axes(a.axes, b.axes),
        {k: v for k, v in a.places.items() if k in b.places and b.places[k] == v},
        {k: v for k, v in a.truths.items() if b.truths.get(k) is v},
        failed=a.failed,
    )


def _common_axes(
    a: dict[AxesSymbol, ArrayShape], b: dict[AxesSymbol, ArrayShape]
) -> dict[AxesSymbol, ArrayShape]:
    """Return the axes that both paths have learned, and numbers of axes that one has."""
    found = {k: v for k, v in a.items() if k in b and b[k] == v}
    for one, other in ((a, b), (b, a)):
        found.update((k, v) for k, v in one.items() if k not in other and v.middle is not None)
    return found


class Joiner:
    """The join of values of two paths; sizes that differ get new symbols."""

    def __init__(
        self,
        a: Facts,
        b: Facts,
        fresh: set[SizeSymbol | DTypeSymbol | AxesSymbol] | None = None,
        *,
        is_invariant: bool = False,
    ) -> None:
        """Make the join of two paths with these facts.

        Args:
            a: of one path.
            b: of the other.
            fresh: for the head of a loop, the symbols made for it, which get more.
            is_invariant: what decides between the paths is the same whenever they are reached.
        """
        self.a, self.b, self.is_loop = a, b, fresh is not None
        self.fresh: set[SizeSymbol | DTypeSymbol | AxesSymbol] = set() if fresh is None else fresh
        self.is_invariant = is_invariant
        self.made: dict[tuple[Any, Any], SizeExpr] = {}
        self.made_dtypes: dict[tuple[DType, DType], DTypeSymbol] = {}

    def mapping(self, a: Mapping[Any, Any], b: Mapping[Any, Any]) -> dict[Any, Any]:
        """Get the join of names or the like; one that is bound on one path is used there."""
        result = dict(a)
        for name, value in b.items():
            held = result.setdefault(name, value)
            if held is not value:
                result[name] = self.value(held, value, str(name))
        return result

    def object(self, a: Any, b: Any) -> Any:
        """Return the join of what a reference stands for."""
        if a is b or a == b:
            return a
        if type(a) is Attributes and type(b) is Attributes:
            doubtful = a.doubtful | b.doubtful | (a.values.keys() ^ b.values.keys())
            values = self.mapping(a.values, b.values)
            return Attributes(values, a.is_summary or b.is_summary, doubtful)
        if type(a) is Items and type(b) is Items:
            if a.items is not None and b.items is not None and len(a.items) == len(b.items):
                items = tuple(self.value(x, y, "") for x, y in zip(a.items, b.items, strict=True))
                return Items(items)
            return Items(None, self.any_of([*_held(a), *_held(b)]))
        if type(a) is Entries and type(b) is Entries:
            same = a.known.keys() == b.known.keys()
            return Entries(self.mapping(a.known, b.known), a.is_open or b.is_open or not same)
        return UNKNOWN

    def any_of(self, values: list[Any]) -> Any:
        """Return the join of some values; ``UNKNOWN`` for none."""
        return reduce(lambda a, b: self.value(a, b, ""), values) if values else UNKNOWN

    def value(self, a: Any, b: Any, name: str) -> Any:
        """Return the join of two values of one place."""
        if a is b or (type(a) is type(b) and a == b):
            return a
        if type(a) is Place:
            a = self.a.places.get(a, a)
        if type(b) is Place:
            b = self.b.places.get(b, b)
        kind = type(a)
        if a is UNKNOWN or b is UNKNOWN or (kind is Place and type(b) is Place):
            return UNKNOWN
        joined = _JOINS[kind](self, a, b, name) if kind is type(b) and kind in _JOINS else None
        if joined is None:
            joined = self._number(a, b, name)
        return self.options([*options_of(a), *options_of(b)], name) if joined is None else joined

    def _number(self, a: Any, b: Any, name: str) -> Any:
        """Return the join of two numbers of one kind; None of other values."""
        weak = weak_kind(a)
        if weak is None or weak != weak_kind(b):
            return None
        if weak == "int":
            return self.integer(a, b, name)
        return {"float": ANY_FLOAT, "bool": ANY_BOOL}.get(weak)

    def options(self, values: list[Any], name: str) -> Any:
        """Return one of some values, of which arrays and numbers are joined."""
        arrays = [value for value in values if type(value) is ShapedArray]
        integers = [value for value in values if weak_kind(value) == "int"]
        others = [v for v in values if type(v) is not ShapedArray and weak_kind(v) != "int"]
        if arrays:
            others.append(reduce(lambda a, b: self.array(a, b, name), arrays))
        if integers:
            others.append(reduce(lambda a, b: self.integer(a, b, name), integers))
        return one_of(others)

    def integer(self, a: Integer, b: Integer, name: str) -> Integer:
        """Return the join of two integers of one place: a new symbol, if they differ."""
        if a == b and type(a) is type(b):
            return a
        a, b = with_wholes(a), with_wholes(b)
        if a == b and type(a) is type(b):
            return a
        if type(a) is SizeExpr and a.symbol in self.fresh:
            return a
        if a is ANY_INT or b is ANY_INT:
            return ANY_INT
        key = (a, b)
        made = self.made.get(key)
        if made is None:
            known = a.symbol if type(a) is SizeExpr else None
            other = b.symbol if type(b) is SizeExpr else None
            # Sizes of one name on both paths, ``B`` of two calls, are one of that name.
            if known is not None and other is not None and known.name == other.name:
                name, is_named = known.name, known.is_named and not self.is_loop
            else:
                is_named = bool(name) and not self.is_loop
            made = self.made[key] = symbol(
                name or "n",
                is_named=is_named,
                is_local=not (self.is_invariant and _is_invariant(a) and _is_invariant(b)),
            )
            for one in made.symbols:
                one.is_loop = self.is_loop
                one.is_joined = True
            self.fresh.update(made.symbols)
        return made

    def array(self, a: ShapedArray, b: ShapedArray, name: str) -> ShapedArray:
        """Return the join of two arrays of one place."""
        if a == b:
            return a
        shapes = shape_under(self.a, a.shape), shape_under(self.b, b.shape)
        origin = a.origin if a.origin is b.origin else None
        shape = self.shape(*shapes)
        return ShapedArray(shape, self.dtype(a.dtype, b.dtype, name), a.line, origin)

    def dtype(self, a: DType, b: DType, name: str) -> DType:
        """Return the join of two dtypes of one place: a new symbol, if they differ."""
        if a == b:
            return a
        if a is None or b is None:
            return None
        if isinstance(a, PromotedDType) and a.symbols <= self.fresh:
            return a
        key = (a, b)
        found = self.made_dtypes.get(key)
        if found is None:
            is_float = is_floating(a) is True and is_floating(b) is True
            found = DTypeSymbol(name or "one of several", is_floating=is_float)
            self.made_dtypes[key] = found
            self.fresh.add(found)
        return dtype_symbol(found)

    def shape(self, a: ArrayShape, b: ArrayShape) -> ArrayShape:
        """Return the join of two shapes."""
        if a == b:
            return a
        if a.middle is b.middle and (len(a.head), len(a.tail)) == (len(b.head), len(b.tail)):
            head = [self.integer(m, n, "") for m, n in zip(a.head, b.head, strict=True)]
            tail = [self.integer(m, n, "") for m, n in zip(a.tail, b.tail, strict=True)]
            return ArrayShape(tuple(head), a.middle, tuple(tail))
        # The last axes of which both are known.
        ends = zip(reversed(_end(a)), reversed(_end(b)), strict=False)
        tail = [self.integer(m, n, "") for m, n in ends]
        middle = a.middle
        if middle is None or middle not in self.fresh or a.head or len(tail) < len(a.tail):
            middle = AxesSymbol()
            middle.joined = a, b, tuple(reversed(tail))
            self.fresh.add(middle)
        return ArrayShape((), middle, tuple(reversed(tail)))


def _tuples(joiner: Joiner, a: tuple[Any, ...], b: tuple[Any, ...], name: str) -> Any:
    if AxesSymbol in map(type, (*a, *b)):
        shape, other = shape_of(a), shape_of(b)
        return None if shape is None or other is None else sizes_of(joiner.shape(shape, other))
    if len(a) != len(b):
        return None
    return tuple(joiner.value(x, y, name) for x, y in zip(a, b, strict=True))


#: By the type that two values have in common: their join, None where they are alternatives.
_JOINS: dict[type, Callable[[Joiner, Any, Any, str], Any]] = {
    ShapedArray: Joiner.array,
    tuple: _tuples,
    DTypeValue: lambda *_: DTypeValue(None),
    Iterator: lambda joiner, a, b, _name: Iterator(None, joiner.any_of([*_held(a), *_held(b)])),
}


def _is_invariant(number: Integer) -> bool:
    return type(number) is not SizeExpr or not any(one.is_local for one in number.symbols)


def is_invariant(value: Any) -> bool:
    """Return whether a condition is the same whenever it is reached."""
    kind = type(value)
    if kind is Truth:
        return is_invariant(value.left) and is_invariant(value.right)
    if kind is SizeExpr:
        return _is_invariant(value)
    if kind is Place:
        return bool(value.is_setting)
    if kind is tuple or kind is Options:
        return all(map(is_invariant, value if kind is tuple else value.values))
    return value is None or kind in (int, str, float, bool)


def _end(shape: ArrayShape) -> tuple[Integer, ...]:
    return shape.head if shape.middle is None else shape.tail


def _held(value: Items | Iterator) -> list[Any]:
    return [value.common] if value.items is None else list(value.items)


def joined_values(values: list[Any], *, is_invariant: bool = False) -> Any:
    """Return the join of values of one place, on paths of which nothing else is known.

    Args:
        values: at least one.
        is_invariant: what decides between the paths is the same whenever they are reached.
    """
    facts = Facts({}, {}, {}, {})
    return reduce(
        lambda a, b: Joiner(facts, facts, is_invariant=is_invariant).value(a, b, ""), values
    )
