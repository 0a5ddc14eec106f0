"""The state that all paths of a run share: the program, the launch, and the events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from embercoach.metal.execution.accessing import number
from embercoach.metal.execution.arithmetic import add, compare, multiply
from embercoach.metal.execution.conditions import Conditions, narrow
from embercoach.metal.execution.events import (
    Access,
    AccessKind,
    Configuration,
    Event,
    LostError,
    Mask,
)
from embercoach.metal.execution.path_state import Binding, Bundle, Pointer, Result, State, ratio
from embercoach.metal.execution.values import (
    ALL_AXES,
    GROUP,
    GROUP_AXES,
    SIMD_WIDTH,
    LaneValue,
    SymbolPool,
    UnknownNumber,
    ValueOrigin,
    value_of,
)
from embercoach.metal.program.nodes import (
    Assign,
    Call,
    Expression,
    MetalFunction,
    Program,
    Spot,
    Statement,
    Variable,
)
from embercoach.metal.program.types import DTYPES, Type
from embercoach.metal.work_budget import RUN

_F = TypeVar("_F", bound="Callable[..., Any]")

RULES: dict[type[Expression], Callable[[Machine, State, Any], Result]] = {}
_LINKED: dict[str, Any] = {}


def link(name: str) -> Callable[[_F], _F]:
    """Provide one of the functions below, by its name."""

    def register(function: _F) -> _F:
        _LINKED[name] = function
        return function

    return register


def evaluate(m: Machine, state: State, node: Expression) -> Result:
    """Return the value of an expression."""
    m.tick(node.spot)
    return RULES[type(node)](m, state, node)


def evaluate_number(m: Machine, state: State, node: Expression) -> LaneValue:
    """Return the value of an expression as one number."""
    return number(m, state, evaluate(m, state, node), node)


def assign(m: Machine, state: State, node: Assign) -> tuple[Result, Pointer | None]:
    """Follow an assignment; return its value and place (``expressions``)."""
    return cast("tuple[Result, Pointer | None]", _LINKED["assign"](m, state, node))


def execute(m: Machine, state: State, node: Statement) -> None:
    """Follow a statement (``statements``)."""
    _LINKED["execute"](m, state, node)


def call(m: Machine, state: State, node: Call) -> Result:
    """Follow a call; return its result (``calls``)."""
    return cast("Result", _LINKED["call"](m, state, node))


def unheard(m: Machine, state: State, given: Sequence[Expression], spot: Spot) -> Result:
    """Follow a call of something that the texts do not define (``calls``)."""
    return cast("Result", _LINKED["unheard"](m, state, given, spot))


#: What a node costs whatever the number of threads, in thread operations.
NODE = 128
MAX_EVENTS = 20_000
_AXES = "xyz"
#: Unknowns that are one of their last two operands, and how many of them an index is parted by.
_CHOOSING = frozenset({"?:", "min", "max"})
_MAX_CUTS = 3


class CallFrame(Struct):
    """A function that is being followed.

    Attributes:
        result: represents what it returns among a path's variables.
        returns: the paths that left it.
    """

    function: MetalFunction | None
    result: Variable | None
    returns: list[State] = field(default_factory=list)


class Turn(Struct):
    """A turn of a loop, or a switch: the paths that left it, and those that skipped its rest."""

    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


class Machine(Struct):
    """A run.

    Attributes:
        types: what template types represent.
        versions: how often each variable's memory was written.
        epoch: how often something was written that is not known.
        gaps: what was not followed, and changed no shared memory that is reported on.
        tainted: the axes along which what a threadgroup array holds may differ between groups.
        marks: remembered facts of nodes, by what they are and the node.
        cut_short: iterations of a loop were left out that certainly run.
        sized_inputs: those of known size in a known launch; only their reads are events.
        budget: thread operations after which the run ends.
    """

    program: Program
    configuration: Configuration
    pool: SymbolPool
    attributes: dict[str, LaneValue | Bundle]
    types: dict[str, str]
    globals: dict[Variable, Binding] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    returned: list[Mask] = field(default_factory=list)
    versions: dict[Variable, int] = field(default_factory=dict)
    epoch: int = 0
    frames: list[CallFrame] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    gaps: list[Spot] = field(default_factory=list)
    tainted: dict[Variable, int] = field(default_factory=dict)
    marks: dict[tuple[str, object], object] = field(default_factory=dict)
    cut_short: bool = False
    sized_inputs: frozenset[str] = frozenset()
    budget: int = RUN

    def tick(self, spot: Spot) -> None:
        """Count a step; stop when there were too many."""
        self.pool.steps += NODE
        if self.pool.steps > self.budget or len(self.events) > MAX_EVENTS:
            raise LostError(spot)

    def resolved(self, kind: Type) -> Type:
        """Return the type with what its template type represents."""
        real = self.types.get(kind.scalar or "")
        return kind if real is None else replace(kind, scalar=real)

    def scalar(self, kind: Type) -> str | None:
        """Return the scalar of a type, or what its template type represents."""
        name = kind.scalar
        return self.types.get(name, name) if name else name

    def root_type(self, root: Variable) -> Type:
        """Return the type of the elements of a variable's memory."""
        if root.kind in ("input", "output") and root.type.scalar is None:
            given = {one.name: one.dtype for one in self.configuration.inputs}
            given |= {one.name: one.dtype for one in self.configuration.outputs}
            scalar = DTYPES.get(given.get(root.name) or "")
            if scalar is not None:
                return replace(root.type, scalar=scalar)
        return self.resolved(root.type)

    def width(self, place: Pointer) -> int:
        """Get the number of components of the root's elements that an access to a place touches."""
        if place.root is None:
            return place.type.width
        factor = ratio(place.type.scalar, self.root_type(place.root).scalar)
        return place.type.width * (factor or 1)

    def taint(self, state: State, place: Pointer, value: LaneValue | None) -> None:
        """Remember of which axes a store makes its memory depend."""
        if place.root is None:
            return
        axes = place.offset.origin.axes
        axes |= ALL_AXES if value is None else value.origin.axes
        for condition in state.conditions:
            axes |= condition.symbol.origin.axes
        self.tainted[place.root] = self.tainted.get(place.root, 0) | axes

    def note(
        self,
        state: State,
        kind: AccessKind,
        place: Pointer,
        value: LaneValue | None,
        by: Spot | Call,
    ) -> None:
        """Record an access to memory, by what is at a spot or by an atomic's call."""
        if place.root is None:
            return
        choices = (
            self._cut(state.lanes, state.conditions, place.offset)
            if kind == "read"
            else self._choices(state, place.offset)
        )
        spot, function = (by.spot, by.name) if isinstance(by, Call) else (by, "")
        interval = state.threadgroup if place.memory == "threadgroup" else state.device
        for lanes, conditions, offset in choices:
            self.events.append(
                Access(
                    kind,
                    place.root,
                    place.memory,
                    offset,
                    value,
                    Mask(lanes, conditions),
                    interval,
                    state.phase,
                    spot,
                    self.width(place),
                    place.member,
                    function,
                )
            )

    def _choices(self, state: State, offset: LaneValue) -> list[tuple[int, Conditions, LaneValue]]:
        """Return an index that is chosen by a condition, as one for each outcome."""
        here = state.lanes, state.conditions
        symbol = offset.symbol
        if symbol is None or symbol.operation != "?:":
            return [(*here, offset)]
        condition, *sides = [part for part in symbol.operands if isinstance(part, LaneValue)]
        return self._parted(here, condition, (sides[0], sides[1]))

    def _cut(
        self, lanes: int, conditions: Conditions, offset: LaneValue, depth: int = 0
    ) -> list[tuple[int, Conditions, LaneValue]]:
        """Get an index that is chosen by conditions, or cut off at bounds, as one for each outcome.

        For reads alone: what many threads write where they are cut off may well be the same.
        """
        for symbol, factor in offset.terms if depth < _MAX_CUTS else ():
            # A call with another number of arguments has its name's namespaces before them.
            if symbol.operation in _CHOOSING and isinstance(symbol.operands[0], LaneValue):
                rest = value_of(
                    offset.offsets, tuple(t for t in offset.terms if t[0] is not symbol)
                )
                times = LaneValue(factor)
                return [
                    outcome
                    for within, inner, side in self._outcomes(
                        (lanes, conditions), symbol, depth + 1
                    )
                    for outcome in self._cut(
                        within,
                        inner,
                        add(self.pool, rest, multiply(self.pool, side, times)),
                        depth + 1,
                    )
                ]
        return [(lanes, conditions, offset)]

    def _outcomes(
        self, here: tuple[int, Conditions], symbol: UnknownNumber, depth: int
    ) -> list[tuple[int, Conditions, LaneValue]]:
        """Return the value of a choice; of ``min(max(i, 0), n)`` the inner one is made first."""
        *condition, left, right = [part for part in symbol.operands if isinstance(part, LaneValue)]
        if condition:
            return self._parted(here, condition[0], (left, right))
        found = []
        for lanes, inner, one in self._cut(*here, left, depth):
            for within, all_conditions, other in self._cut(lanes, inner, right, depth):
                smaller = compare(self.pool, "<", one, other)
                sides = (one, other) if symbol.operation == "min" else (other, one)
                found += self._parted((within, all_conditions), smaller, sides)
        return found

    def _parted(
        self, here: tuple[int, Conditions], chosen: LaneValue, sides: tuple[LaneValue, LaneValue]
    ) -> list[tuple[int, Conditions, LaneValue]]:
        """Return the first value where a condition holds, the second where it does not."""
        found = []
        for holds, side in zip((True, False), sides, strict=True):
            lanes, conditions = narrow(self.pool, *here, chosen, holds=holds)
            if lanes:
                found.append((lanes, conditions, side))
        return found


def attributes_of(configuration: Configuration, pool: SymbolPool) -> dict[str, LaneValue | Bundle]:
    """Return the thread attributes of each thread of the group."""
    size = configuration.threadgroup
    x, y, _ = size
    threads = range(pool.lanes)
    position = (
        value_of(tuple([t % x for t in threads])),
        value_of(tuple([t // x % y for t in threads])),
        value_of(tuple([t // (x * y) for t in threads])),
    )
    group, groups, grid = [], [], []
    for axis, count in enumerate(configuration.groups):
        origin = ValueOrigin(axes=1 << axis)
        symbol = GROUP_AXES[axis]
        group.append(LaneValue(0) if count == 1 else pool.result(symbol, (), GROUP, origin))
        letter = _AXES[axis]
        groups.append(LaneValue(count) if count is not None else pool.symbol(f"groups.{letter}"))
        known = size[axis] if count == 1 else configuration.grid[axis]
        if known is not None and known % size[axis]:
            known = None  # the last threadgroup has threads less, and all are followed
        grid.append(pool.symbol(f"grid.{letter}") if known is None else LaneValue(known))
    whole = tuple(LaneValue(n) for n in size)
    in_grid = tuple(
        add(pool, multiply(pool, group[axis], whole[axis]), position[axis]) for axis in range(3)
    )
    simdgroups = LaneValue(-(-pool.lanes // SIMD_WIDTH))
    quads = LaneValue(-(-pool.lanes // 4))
    width = LaneValue(SIMD_WIDTH)
    return {
        "thread_position_in_threadgroup": Bundle(position),
        "thread_position_in_grid": Bundle(in_grid),
        "thread_index_in_threadgroup": value_of(tuple(threads)),
        "thread_index_in_simdgroup": value_of(tuple([t % SIMD_WIDTH for t in threads])),
        "simdgroup_index_in_threadgroup": value_of(tuple([t // SIMD_WIDTH for t in threads])),
        "thread_index_in_quadgroup": value_of(tuple([t % 4 for t in threads])),
        "quadgroup_index_in_threadgroup": value_of(tuple([t // 4 for t in threads])),
        "threadgroup_position_in_grid": Bundle(tuple(group)),
        "threadgroups_per_grid": Bundle(tuple(groups)),
        "threads_per_grid": Bundle(tuple(grid)),
        "grid_size": Bundle(tuple(grid)),
        "grid_origin": Bundle((LaneValue(0),) * 3),
        "threads_per_threadgroup": Bundle(whole),
        "dispatch_threads_per_threadgroup": Bundle(whole),
        "simdgroups_per_threadgroup": simdgroups,
        "dispatch_simdgroups_per_threadgroup": simdgroups,
        "quadgroups_per_threadgroup": quads,
        "dispatch_quadgroups_per_threadgroup": quads,
        "threads_per_simdgroup": width,
        "thread_execution_width": width,
    }
