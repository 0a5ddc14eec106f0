"""The state of a program on one path: names, objects, and what is learned of symbols."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

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
    FunctionValue,
    Items,
    Iterator,
    Options,
    Place,
    Truth,
    new_number,
    one_of,
    options_of,
)
from embercoach.analysis.shapes.requirements import axis_symbols, shape_of, sizes_of
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    SizeExpr,
    SizeOperation,
    SizeSymbol,
    common_factors,
    exact_quotient,
    multiply,
    of_atom,
    substituted,
    subtract,
    symbol,
    with_wholes,
)

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Mapping

    from embercoach.analysis.shapes.interpreter import SourceFile


@dataclass(eq=False, repr=False)
class Frame:
    """The names of a function's activation or of a module.

    Attributes:
        names: the local names.
        outer: the frame that free names are looked up in.
        module: the file that holds the function.
        function: the function, None for a module or a class.
        caller: what runs when this frame ends.
        call_line: the line of the caller's call.
        depth: how many frames are inside each other.
        cls: the class whose body this is.
        returns: for a function, the values that it has returned, with the states at that.
        globals_named: names of ``global`` and ``nonlocal`` statements.
        is_root: whether nothing calls the function.
        splits: conditions on which all that follows is run twice.
        logged: for records, the values of assigned names.
        yielded: the values of ``yield``.
        loops: those that are running.
        dims: the sizes of names in the annotations of its parameters.
    """

    names: dict[str, Any]
    outer: Frame | None
    module: SourceFile
    function: FunctionValue | None = None
    caller: Frame | None = None
    call_line: int = 0
    depth: int = 0
    cls: Any = None
    returns: list[tuple[Any, Snapshot]] | None = None
    globals_named: frozenset[str] = frozenset()
    is_root: bool = False
    splits: int = 0
    logged: list[tuple[ast.AST, str, Any]] | None = None
    yielded: list[Any] = field(default_factory=list)
    loops: list[Any] = field(default_factory=list)
    dims: dict[str, Integer] = field(default_factory=dict)

    def find(self, name: str) -> Frame | None:
        """The frame that a name is bound in."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names and not (
                frame is not self and frame.function is None and frame.cls is not None
            ):
                return frame
            frame = frame.outer
        return None


@dataclass(slots=True)
class Facts:
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
        """A copy that is changed separately."""
        return Facts(
            dict(self.sizes),
            dict(self.axes),
            dict(self.places),
            dict(self.truths),
            self.events,
            self.failed,
        )


class Change(NamedTuple):
    """A change of what is known of an object on a path, and the change before it.

    Attributes:
        number: of the object.
        old: what was known of it.
        narrows: the object is the same, but a condition shows more of it.
        before: the change before it.
        depth: how many changes there are up to it.
    """

    number: int
    old: Any
    narrows: bool
    before: Change | None
    depth: int


def changed_between(a: Change | None, b: Change | None) -> dict[int, tuple[Any, bool]]:
    """The objects that changed since two paths parted.

    Returns:
        By number what was known of each before, and whether only more is known of it now.
    """
    found: dict[int, tuple[Any, bool]] = {}
    while a is not b:
        if a is None or (b is not None and b.depth > a.depth):
            a, b = b, a
        assert a is not None
        known = found.get(a.number)
        found[a.number] = a.old, a.narrows and (known is None or known[1])
        a = a.before
    return found


@dataclass(slots=True)
class Snapshot:
    """A path's state: the names of the frame at hand, the heap, and the facts.

    changes: those of objects on the path.
    """

    names: dict[str, Any]
    heap: dict[int, Any]
    facts: Facts
    changes: Change | None = None

    def copy(self) -> Snapshot:
        """A copy, to come back to the state more than once."""
        return Snapshot(dict(self.names), dict(self.heap), self.facts.copy(), self.changes)


class Heap:
    """The state that is common to all frames, on the path at hand.

    Attributes:
        objects: what each reference stands for.
        facts: what is learned of symbols.
        changes: those of objects on the path at hand.
        reads: gets the numbers of the objects that are read, if it is not None.
        ranks: for unknown axes, the symbol that stands for their number.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.objects: dict[int, Any] = {}
        self.facts = Facts({}, {}, {}, {})
        #: Whether the function at hand was not called: all of its branches count.
        self.is_root = True
        self.changes: Change | None = None
        self.reads: set[int] | None = None
        self.ranks: dict[AxesSymbol, SizeSymbol] = {}
        self.axes_of_rank: dict[SizeSymbol, AxesSymbol] = {}
        #: Unknown axes as others before one that is known to be there.
        self.last_axes: dict[AxesSymbol, ArrayShape] = {}
        #: Pairs of symbols that the program compares with each other, and of their names.
        self.compared: set[frozenset[SizeSymbol] | frozenset[str]] = set()

    # -- paths -------------------------------------------------------------------------------

    def snapshot(self, frame: Frame) -> Snapshot:
        """The state at hand, to come back to."""
        return Snapshot(dict(frame.names), dict(self.objects), self.facts.copy(), self.changes)

    def restore(self, frame: Frame, state: Snapshot) -> None:
        """Go on from a state, which is not used otherwise again."""
        frame.names = state.names
        self.objects = state.heap
        self.facts = state.facts
        self.changes = state.changes

    def read(self, number: int) -> Any:
        """The known contents of an object; None of one that is not there."""
        if self.reads is not None:
            self.reads.add(number)
        return self.objects.get(number)

    def write(self, number: int, value: Any, *, narrows: bool = False) -> None:
        """Change an object, or with ``narrows`` only what is known of it on this path."""
        old = self.objects.get(number)
        if old != value:
            self.objects[number] = value
            self.changes = _with_change(self.changes, number, old, narrows=narrows)

    # -- resolution --------------------------------------------------------------------------

    def integer(self, number: Integer) -> Integer:
        """The integer with all that is known of its symbols."""
        if type(number) is SizeExpr and self.facts.sizes:
            return substituted(number, self.facts.sizes)
        return number

    def shape(self, shape: ArrayShape) -> ArrayShape:
        """The shape with all that is known of its symbols."""
        return shape_under(self.facts, shape)

    def value(self, value: Any) -> Any:
        """The value with all that is known of its symbols."""
        kind = type(value)
        if kind not in _WITH_SYMBOLS:
            return value
        if kind is ShapedArray:
            shape = shape_under(self.facts, value.shape)
            if shape is value.shape:
                return value
            return ShapedArray(shape, value.dtype, value.line, value.origin)
        if kind is SizeExpr:
            return self.integer(value)
        if kind is Place:
            found = self.facts.places.get(value)
            return value if found is None else self.value(found)
        if kind is Truth:
            return self.truth(value)
        if kind is tuple:
            items = []
            for item in value:
                if type(item) is AxesSymbol and item in self.facts.axes:
                    found = self.shape(ArrayShape((), item))
                    items += [*found.head, *([found.middle] if found.middle else ()), *found.tail]
                else:
                    items.append(self.value(item))
            return tuple(items)
        if kind is Options:
            return one_of([self.value(option) for option in value.values])
        return value

    def truth(self, value: Truth) -> Any:
        """Return whether a condition is true, or the condition if that is not known."""
        key = replace(value, is_negated=False) if value.is_negated else value
        found = self.facts.truths.get(key)
        return value if found is None else found != value.is_negated

    # -- learning ----------------------------------------------------------------------------

    def learn_equal(self, a: Integer, b: Integer) -> bool:
        """Learn that two integers are equal; False if they can't be."""
        a, b = self.integer(a), self.integer(b)
        if a is ANY_INT or b is ANY_INT or a == b:
            return True
        difference = subtract(a, b)
        if type(difference) is int:
            return difference == 0
        if type(difference) is not SizeExpr:
            return True
        for candidates in ((a, b), (b, a)):
            left, right = candidates
            if type(left) is not SizeExpr:
                continue
            found = left.symbol
            other = right.symbol if type(right) is SizeExpr else None
            if found is None or (other is not None and _precedence(other) > _precedence(found)):
                continue
            if type(right) is SizeExpr and found in right.symbols:
                continue
            self.bind(found, right)
            return True
        return self._learn_difference(difference)

    def _learn_difference(self, difference: SizeExpr) -> bool:
        """Learn that a sum is zero, from a symbol that occurs in it once."""
        common = common_factors(difference)
        if common is not None:
            # ``B * S * D == B * S * H * E``: sizes are not zero.
            rest = exact_quotient(difference, common)
            if type(rest) is int:
                return rest == 0
            if type(rest) is SizeExpr:
                difference = rest
        alone = [
            (factors[0], times)
            for factors, times in difference.terms.items()
            if abs(times) == 1 and len(factors) == 1 and isinstance(factors[0], SizeSymbol)
        ]
        for found, times in sorted(alone, key=lambda term: term[0].is_named):
            rest = subtract(of_atom(found), multiply(difference, times))
            if type(rest) is not SizeExpr or found not in rest.symbols:
                self.bind(found, rest)
                return True
            # ``D - H * (D // H) == 0``: D is a multiple of H.
            divisor = _sole_divisor(rest, found)
            if divisor is not None:
                named = SizeSymbol(
                    f"{found.name} // {divisor}", place=found.place, is_local=found.is_local
                )
                if divisor is not ANY_INT:
                    named.quotient = found, divisor
                self.bind(found, multiply(divisor, of_atom(named)))
                return True
        # ``2 * D == 6`` and the like.
        if len(difference.terms) == 2 and difference.constant:
            ((factors, times),) = [t for t in difference.terms.items() if t[0]]
            if len(factors) == 1 and isinstance(factors[0], SizeSymbol):
                whole = exact_quotient(-difference.constant, times)
                if whole is None:
                    return False
                self.bind(factors[0], whole)
        return True

    def bind(self, found: SizeSymbol, value: Integer) -> None:
        """Learn what a symbol is."""
        facts = self.facts
        one = {found: value}
        for held, number in facts.sizes.items():
            if type(number) is SizeExpr and found in number.symbols:
                facts.sizes[held] = substituted(number, one)
        facts.sizes[found] = value
        axes = self.axes_of_rank.get(found)
        if axes is not None and type(value) is int and 0 <= value <= 8:
            self.bind_axes(axes, ArrayShape(axis_symbols(axes, value)))

    def bind_axes(self, axes: AxesSymbol, shape: ArrayShape) -> None:
        """Learn what unknown axes are."""
        known = self.shape(ArrayShape((), axes))
        if known.middle is axes:
            if shape.middle is not axes:
                self.facts.axes[axes] = shape
            return
        number = len(shape.head)
        if shape.middle is not None or known.least_rank > number:
            return
        if known.middle is not None:
            start, end = len(known.head), number - len(known.tail)
            self.bind_axes(known.middle, ArrayShape(shape.head[start:end]))
            known = self.shape(known)
        if len(known.head) == number:
            for a, b in zip(known.head, shape.head, strict=True):
                self.learn_equal(a, b)

    def learn_last_axes(self, shape: ArrayShape, number: int) -> None:
        """Learn that an array has at least so many axes."""
        shape = self.shape(shape)
        while shape.middle is not None and shape.least_rank < number:
            made = self.last_axes.get(shape.middle)
            if made is None:
                axes = shape.middle
                last = symbol(axes.axis_name(-1), is_named=False, place=axes)
                made = ArrayShape((), axes.inner(0, 1), (last,))
                self.last_axes[shape.middle] = made
            self.facts.axes[shape.middle] = made
            shape = self.shape(shape)

    def rank_of(self, shape: ArrayShape) -> Integer:
        """The number of axes."""
        shape = self.shape(shape)
        if shape.middle is None:
            return len(shape.head)
        found = self.ranks.get(shape.middle)
        if found is None:
            found = self.ranks[shape.middle] = SizeSymbol(
                f"{shape.middle.name}.ndim", is_named=False
            )
            self.axes_of_rank[found] = shape.middle
        known = self.facts.sizes.get(found)
        number: Integer = of_atom(found) if known is None else known
        return subtract(number, -shape.least_rank)

    def generalize(self, value: Any, start: tuple[int, int]) -> Any:
        """The value as one of many of its kind: what was made for it alone is unknown.

        Args:
            value: what a body that runs many times makes.
            start: the serial numbers of the first symbol and object that it may have made.
        """
        return _Generalization(self, start).value(value)

    # -- joins -------------------------------------------------------------------------------

    def join(
        self,
        a: Snapshot,
        b: Snapshot,
        fresh: set[SizeSymbol | DTypeSymbol | AxesSymbol] | None = None,
        *,
        is_invariant: bool = False,
    ) -> Snapshot:
        """The state of a program that comes from one of two.

        Args:
            a: one of them; the head of a loop, where there is one.
            b: the other.
            fresh: gets the symbols made for sizes that differ; those in it stay as they are.
            is_invariant: what decides between the paths is the same whenever they are reached.
        """
        if a.facts.failed is not b.facts.failed:
            return self._without_failed(a, b)
        joiner = Joiner(a.facts, b.facts, fresh, is_invariant=is_invariant)
        names = joiner.mapping(a.names, b.names)
        heap = {**b.heap, **a.heap}
        changes = a.changes
        for number, (old, narrows) in changed_between(a.changes, b.changes).items():
            held, other = a.heap.get(number), b.heap.get(number)
            if held is None or other is None or held is other:
                continue
            heap[number] = old if narrows else joiner.object(held, other)
            changes = _with_change(changes, number, held, narrows=narrows)
        return Snapshot(names, heap, self._common(joiner), changes)

    def _without_failed(self, a: Snapshot, b: Snapshot) -> Snapshot:
        """The one of two states in which nothing raises."""
        failed, other = (a, b) if a.facts.failed else (b, a)
        events = failed.facts.events
        added = events if self.is_root else _of_any_path(events)
        other.facts.events = _united(other.facts.events, added)
        return other

    def _common(self, joiner: Joiner) -> Facts:
        """Return the facts learned on both paths."""
        a, b = joiner.a, joiner.b
        facts = _common(a, b)
        for axes in [one for one in a.axes if one in b.axes and one not in facts.axes]:
            known = ArrayShape((), axes)
            shape = joiner.shape(shape_under(a, known), shape_under(b, known))
            if shape.rank is not None:  # both paths have learned how many axes there are
                facts.axes[axes] = shape
        if self.is_root or a.failed:
            facts.events = _united(a.events, b.events)
        else:
            both = tuple(event for event in a.events if event in b.events)
            facts.events = _united(both, _of_any_path((*a.events, *b.events)))
        return facts


def _with_change(changes: Change | None, number: int, old: Any, *, narrows: bool) -> Change:
    depth = 1 if changes is None else changes.depth + 1
    return Change(number, old, narrows, changes, depth)


#: Kinds of values that symbols occur in.
_WITH_SYMBOLS = frozenset((ShapedArray, SizeExpr, Place, Truth, tuple, Options))


def _precedence(symbol: SizeSymbol) -> tuple[bool, int]:
    """Which of two equal symbols is replaced: one without a name, or the younger one."""
    return not symbol.is_named, symbol.serial


def _sole_divisor(number: SizeExpr, found: SizeSymbol) -> Integer | None:
    """The divisor ``H`` of ``H * (D // H)``."""
    if len(number.terms) != 1:
        return None
    (factors,) = number.terms
    for atom in factors:
        if (
            isinstance(atom, SizeOperation)
            and atom.kind == "//"
            and atom.operands[0].symbol is found
        ):
            rest = exact_quotient(number, of_atom(atom))
            divisor = atom.operands[1]
            if rest is not None and rest in (divisor, divisor.constant):
                return rest
    return None


def shape_under(facts: Facts, shape: ArrayShape) -> ArrayShape:
    """A shape with all that is learned of its symbols."""
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


def _united(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return a if a is b else (*a, *(event for event in b if event not in a))


def _of_any_path(events: tuple[Any, ...]) -> tuple[Any, ...]:
    """Those of rules that report a path of a function, whether or not a call takes it."""
    return tuple([event for event in events if event.code[:5] not in ("", "SHAPE")])


def _common(a: Facts, b: Facts) -> Facts:
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
    """The axes that both paths have learned, and numbers of axes that one has."""
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

    def mapping(self, a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
        """The join of names, or of attributes; one that is bound on one path is used there."""
        result = dict(a)
        for name, value in b.items():
            held = result.setdefault(name, value)
            if held is not value:
                result[name] = self.value(held, value, name)
        return result

    def object(self, a: Any, b: Any) -> Any:
        """The join of what a reference stands for."""
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
            known = {}
            for key in {**a.known, **b.known}:
                if key in a.known and key in b.known:
                    known[key] = self.value(a.known[key], b.known[key], str(key))
                else:
                    known[key] = a.known.get(key, b.known.get(key))
            same = a.known.keys() == b.known.keys()
            return Entries(known, a.is_open or b.is_open or not same)
        return UNKNOWN

    def any_of(self, values: list[Any]) -> Any:
        """Return the join of some values; ``UNKNOWN`` for none."""
        if not values:
            return UNKNOWN
        result = values[0]
        for value in values[1:]:
            result = self.value(result, value, "")
        return result

    def value(self, a: Any, b: Any, name: str) -> Any:
        """The join of two values of one place."""
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
        """The join of two numbers of one kind; None of other values."""
        weak = weak_kind(a)
        if weak is None or weak != weak_kind(b):
            return None
        if weak == "int":
            return self.integer(a, b, name)
        return {"float": ANY_FLOAT, "bool": ANY_BOOL}.get(weak)

    def options(self, values: list[Any], name: str) -> Any:
        """One of some values, of which arrays and numbers are joined."""
        arrays = [value for value in values if type(value) is ShapedArray]
        integers = [value for value in values if weak_kind(value) == "int"]
        others = [v for v in values if type(v) is not ShapedArray and weak_kind(v) != "int"]
        if arrays:
            joined = arrays[0]
            for array in arrays[1:]:
                joined = self.array(joined, array, name)
            others.append(joined)
        if integers:
            number = integers[0]
            for other in integers[1:]:
                number = self.integer(number, other, name)
            others.append(number)
        return one_of(others)

    def integer(self, a: Integer, b: Integer, name: str) -> Integer:
        """The join of two integers of one place: a new symbol, if they differ."""
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
        """The join of two arrays of one place."""
        if a == b:
            return a
        shapes = shape_under(self.a, a.shape), shape_under(self.b, b.shape)
        origin = a.origin if a.origin is b.origin else None
        shape = self.shape(*shapes)
        return ShapedArray(shape, self.dtype(a.dtype, b.dtype, name), a.line, origin)

    def dtype(self, a: DType, b: DType, name: str) -> DType:
        """The join of two dtypes of one place: a new symbol, if they differ."""
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
        """The join of two shapes."""
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


def _iterators(joiner: Joiner, a: Iterator, b: Iterator, name: str) -> Iterator:
    return Iterator(None, joiner.any_of([*_held(a), *_held(b)]))


def _dtypes(joiner: Joiner, a: DTypeValue, b: DTypeValue, name: str) -> DTypeValue:
    return DTypeValue(None)


#: By the type that two values have in common: their join, None where they are alternatives.
_JOINS: dict[type, Callable[[Joiner, Any, Any, str], Any]] = {
    ShapedArray: Joiner.array,
    tuple: _tuples,
    DTypeValue: _dtypes,
    Iterator: _iterators,
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
    if value.items is not None:
        return list(value.items)
    return [value.common]


def next_serials() -> tuple[int, int]:
    """Numbers that separate what exists from what will be made: symbols and objects."""
    (found,) = symbol("").symbols
    return found.serial, new_number()


class _Generalization:
    """Forget the symbols that differ between the elements of a list."""

    def __init__(self, heap: Heap, start: tuple[int, int]) -> None:
        self.heap = heap
        self.first_symbol, self.first_object = start
        self.seen: set[int] = set()

    def value(self, value: Any) -> Any:
        kind = type(value)
        if kind is SizeExpr:
            return self.integer(value)
        if kind is ShapedArray:
            shape = value.shape
            head = tuple(map(self.integer, shape.head))
            tail = tuple(map(self.integer, shape.tail))
            middle = shape.middle
            if middle is not None and middle.serial >= self.first_symbol:
                middle = AxesSymbol()
            return replace(value, shape=ArrayShape(head, middle, tail))
        if kind is tuple:
            return tuple(map(self.value, value))
        if kind is Options:
            return one_of([self.value(option) for option in value.values])
        number = getattr(value, "number", None)
        if number is not None and number >= self.first_object and number not in self.seen:
            self.seen.add(number)
            self.object(number)
        return value

    def integer(self, number: Integer) -> Integer:
        if type(number) is SizeExpr and any(
            symbol.serial >= self.first_symbol and symbol.is_local for symbol in number.symbols
        ):
            return ANY_INT
        return number

    def object(self, number: int) -> None:
        held = self.heap.objects.get(number)
        if type(held) is Attributes:
            values = {name: self.value(item) for name, item in held.values.items()}
            self.heap.write(number, Attributes(values, True, held.doubtful))
        elif type(held) is Items:
            items = None if held.items is None else tuple(map(self.value, held.items))
            self.heap.write(number, Items(items, self.value(held.common)))
        elif type(held) is Entries:
            known = {key: self.value(item) for key, item in held.known.items()}
            self.heap.write(number, Entries(known, held.is_open))


def joined_values(values: list[Any], *, is_invariant: bool = False) -> Any:
    """The join of values of one place, on paths of which nothing else is known.

    Args:
        values: at least one.
        is_invariant: what decides between the paths is the same whenever they are reached.
    """
    facts = Facts({}, {}, {}, {})
    found = values[0]
    for value in values[1:]:
        found = Joiner(facts, facts, is_invariant=is_invariant).value(found, value, "")
    return found
