"""The state of a program on one path: names, objects, and what is learned of symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from embercoach.analysis.shapes.arrays import (
    ArrayShape,
    AxesSymbol,
    DTypeSymbol,
    ShapedArray,
)
from embercoach.analysis.shapes.python_values import (
    Attributes,
    Entries,
    FunctionValue,
    Items,
    Options,
    Place,
    Truth,
    new_number,
    one_of,
)
from embercoach.analysis.shapes.requirements import axis_symbols
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
)
from embercoach.analysis.shapes.value_joins import Facts, Joiner, common_facts, shape_under

if TYPE_CHECKING:
    import ast

    from embercoach.analysis.shapes.interpreter import SourceFile


class Frame(Struct, eq=False):
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
        """Return the frame that a name is bound in."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names and not (
                frame is not self and frame.function is None and frame.cls is not None
            ):
                return frame
            frame = frame.outer
        return None

    def may_see_other_arrays(self) -> bool:
        """Return whether unknown values may be arrays of another library than MLX."""
        return self.module.has_other_arrays or any(map(self.find, ("torch", "jax", "tf")))


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
    """Return the objects that changed since two paths parted.

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


class Snapshot(Struct):
    """A path's state: the names of the frame at hand, the heap, and the facts.

    changes: those of objects on the path.
    """

    names: dict[str, Any]
    heap: dict[int, Any]
    facts: Facts
    changes: Change | None = None

    def copy(self) -> Snapshot:
        """Return a copy, to come back to the state more than once."""
        return Snapshot(dict(self.names), dict(self.heap), self.facts.copy(), self.changes)


#: What decides between two paths.
_ARGUMENT, _SETTING, _LOOP = range(3)


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
        #: Whether the function at hand raises on a path that no call may take.
        self.has_dropped = False
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
        """Return the state at hand, to come back to."""
        return Snapshot(dict(frame.names), dict(self.objects), self.facts.copy(), self.changes)

    def restore(self, frame: Frame, state: Snapshot) -> None:
        """Go on from a state, which is not used otherwise again."""
        frame.names = state.names
        self.objects = state.heap
        self.facts = state.facts
        self.changes = state.changes

    def read(self, number: int) -> Any:
        """Return the known contents of an object; None of one that is not there."""
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
        """Return the integer with all that is known of its symbols."""
        if type(number) is SizeExpr and self.facts.sizes:
            return substituted(number, self.facts.sizes)
        return number

    def shape(self, shape: ArrayShape) -> ArrayShape:
        """Return the shape with all that is known of its symbols."""
        return shape_under(self.facts, shape)

    def value(self, value: Any) -> Any:
        """Return the value with all that is known of its symbols."""
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
                named.is_joined, named.is_loop = found.is_joined, found.is_loop
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
        """Return the number of axes."""
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
        """Return the value as one of many of its kind: what was made for it alone is unknown.

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
        """Return the state of a program that comes from one of two.

        Args:
            a: one of them; the head of a loop, where there is one.
            b: the other.
            fresh: gets the symbols made for sizes that differ; those in it stay as they are.
            is_invariant: what decides between the paths is the same whenever they are reached.
        """
        takes = _LOOP if fresh is not None else _SETTING if is_invariant else _ARGUMENT
        if a.facts.failed is not b.facts.failed:
            return self._without_failed(a, b, takes=takes)
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
        return Snapshot(names, heap, self._common(joiner, takes=takes), changes)

    def _without_failed(self, a: Snapshot, b: Snapshot, *, takes: int) -> Snapshot:
        """Return the one of two states in which nothing raises."""
        failed, other = (a, b) if a.facts.failed else (b, a)
        events = failed.facts.events
        added = self._of_one_path(events, takes=takes)
        self.has_dropped = self.has_dropped or len(added) < len(events)
        other.facts.events = _united(other.facts.events, added)
        return other

    def _of_one_path(self, events: tuple[Any, ...], *, takes: int) -> tuple[Any, ...]:
        """Return those events of one path that count where another path has others.

        ``takes``: what takes the path. Arguments may be such that no call does; a setting does at
        times, but what sizes may do then is its own business.
        """
        if self.is_root or takes == _LOOP:
            return events
        if takes == _SETTING:
            return tuple([event for event in events if event.condition is None])
        # Rules that report a path of a function, whether or not a call takes it.
        return tuple([event for event in events if event.code[:5] not in ("", "SHAPE")])

    def _common(self, joiner: Joiner, *, takes: int) -> Facts:
        """Return the facts learned on both paths."""
        a, b = joiner.a, joiner.b
        facts = common_facts(a, b)
        for axes in [one for one in a.axes if one in b.axes and one not in facts.axes]:
            known = ArrayShape((), axes)
            shape = joiner.shape(shape_under(a, known), shape_under(b, known))
            if shape.rank is not None:  # both paths have learned how many axes there are
                facts.axes[axes] = shape
        if self.is_root or a.failed:
            facts.events = _united(a.events, b.events)
        else:
            both = tuple(event for event in a.events if event in b.events)
            others = self._of_one_path((*a.events, *b.events), takes=takes)
            facts.events = _united(both, others)
            kept = facts.events
            if any(e not in kept and not (e.condition or e.code) for e in (*a.events, *b.events)):
                self.has_dropped = True
        return facts


def _with_change(changes: Change | None, number: int, old: Any, *, narrows: bool) -> Change:
    depth = 1 if changes is None else changes.depth + 1
    return Change(number, old, narrows, changes, depth)


#: Kinds of values that symbols occur in.
_WITH_SYMBOLS = frozenset((ShapedArray, SizeExpr, Place, Truth, tuple, Options))


def _precedence(symbol: SizeSymbol) -> tuple[bool, int]:
    """Return which of two equal symbols is replaced: one without a name, or the younger one."""
    return not symbol.is_named, symbol.serial


def _sole_divisor(number: SizeExpr, found: SizeSymbol) -> Integer | None:
    """Return the divisor ``H`` of ``H * (D // H)``."""
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


def _united(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return a if a is b else (*a, *(event for event in b if event not in a))


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
