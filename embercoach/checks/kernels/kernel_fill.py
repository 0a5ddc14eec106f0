"""KERNEL-INIT-001, by following the kernel: outputs that are stored only where data allow it."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from embercoach.checks.programs.kernel_plans import contracted, kernels_of
from embercoach.checks.registry import Report, check
from embercoach.metal import hazards
from embercoach.metal.execution.events import Access
from embercoach.metal.execution.values import LANE, SIMD
from embercoach.metal.inspections.footprints import comparable, differ, exclusive, meetings
from embercoach.metal.program.nodes import Assign, Declare, If, Index, Name, Switch
from embercoach.metal.program.walk import base, below, mentioned
from embercoach.metal.work_budget import WorkBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.kernel_plans import Contracted
    from embercoach.metal.execution.conditions import Condition
    from embercoach.metal.execution.events import Trace
    from embercoach.metal.execution.values import LaneValue
    from embercoach.metal.program.nodes import Program, Spot, Variable
    from embercoach.metal.program.walk import Node


def decides_by_data(program: Program) -> bool:
    """Return whether an ``if`` or ``switch`` of the body depends on an input's element.

    A quick answer from the text, which says yes too often; nothing is followed.
    """
    if program.body is None:
        return False
    conditions = [
        node.condition if isinstance(node, If) else node.value
        for node in below(program.body)
        if isinstance(node, (If, Switch))
    ]
    if not conditions:
        return False
    held = _held(program.body)
    return any(_reads(condition) or mentioned(condition) & held for condition in conditions)


def _reads(node: Node) -> bool:
    """Return whether a node contains an element of an input."""
    return any(isinstance(inner, Index) and _is_input(base(inner.base)) for inner in below(node))


def _is_input(variable: Variable | None) -> bool:
    return variable is not None and variable.kind == "input"


def _held(body: Node) -> frozenset[Variable]:
    """The variables that elements of inputs, or pointers to them, flow into."""
    flows: list[tuple[Variable, Node]] = []
    inputs: set[Variable] = set()
    for node in below(body):
        if isinstance(node, Name) and _is_input(node.variable):
            inputs.add(node.variable)
        elif isinstance(node, Declare) and node.initial is not None:
            flows.append((node.variable, node.initial))
        elif isinstance(node, Assign):
            target = base(node.target)
            if target is not None:
                flows.append((target, node.value))
    held: set[Variable] = set()
    while True:
        before = len(held)
        for variable, value in flows:
            if variable not in held and mentioned(value) & (held | inputs):
                held.add(variable)
        if len(held) == before:
            return frozenset(held)


_AXES = "xyz"
#: In the names of atomic functions that make the new value of the old one.
_FETCH = "_fetch_"


@dataclass(frozen=True, slots=True)
class Overlap:
    """One statement by which several threads store different values in one element.

    Attributes:
        access: the store.
        threads: two of one threadgroup that race; None where whole threadgroups do.
        axis: the axis along which different threadgroups write the same; None within one.
        certain: it is known that there are several threadgroups along that axis.
        update: the stored value is made of what the element held: updates get lost.
    """

    access: Access
    threads: tuple[int, int] | None
    axis: int | None
    certain: bool
    update: bool

    @property
    def words(self) -> str:
        """The racing threads, for a message."""
        if self.threads is not None:
            return f"threads {self.threads[0]} and {self.threads[1]} of a threadgroup"
        return f"all threadgroups along {_AXES[self.axis or 0]}"


def overlaps(trace: Trace) -> tuple[Overlap, ...]:
    """The stores that several threads make to one element, one for each place in the text."""
    found: dict[Spot, Overlap] = {}
    for event in trace.events:
        if not isinstance(event, Access) or (event.kind, event.memory) != ("write", "device"):
            continue
        known = found.get(event.spot)
        if known is not None and known.axis is None:
            continue
        overlap = _within(event) or (None if known else _between(event, trace))
        if overlap is not None:
            found[event.spot] = overlap
    return tuple(found.values())


def updates(access: Access) -> bool:
    """Return whether the stored value depends on the variable's old value."""
    if access.value is None:
        return False
    symbols = [symbol for symbol, _ in access.value.terms]
    return any(s.operation == "load" and s.operands[:1] == (access.variable,) for s in symbols)


def _within(access: Access) -> Overlap | None:
    if not comparable(access.index) or exclusive(access.mask.conditions):
        return None
    update = updates(access)
    for _, one, other in meetings(access, access, apart="any"):
        if update or differ(access, access, one, other):
            return Overlap(access, (one, other), None, certain=True, update=update)
    return None


def _between(access: Access, trace: Trace) -> Overlap | None:
    """Return whether each threadgroup along an axis stores the same element."""
    value = access.value
    if value is None or value.origin.blurred or access.index.origin.blurred:
        return None
    if exclusive(access.mask.conditions) or access.index.origin.single:
        return None
    deciding = access.index.origin.axes
    for condition in access.mask.conditions:
        deciding |= condition.symbol.origin.axes
    update = updates(access)
    for axis, count in enumerate(trace.configuration.groups):
        if count == 1 or deciding >> axis & 1:
            continue
        if update or value.origin.axes >> axis & 1:
            return Overlap(access, None, axis, certain=count is not None, update=update)
    return None


@dataclass(frozen=True, slots=True)
class Unfilled:
    """An output that the kernel only writes in part, or only adds to.

    Attributes:
        reason: ``atomic``: it is only updated atomically, from a value that nobody set;
            ``condition``: each store is under a condition on data, and nothing is stored where
            that fails; ``never``: there is no store.
        access: one of the stores; None where there is none.
        condition: for that reason, the condition of that store.
    """

    variable: Variable
    reason: Literal["atomic", "condition", "never"]
    access: Access | None
    condition: Condition | None = None


def unfilled(trace: Trace, outputs: tuple[Variable, ...]) -> tuple[Unfilled, ...]:
    """Outputs that keep, in part, what their memory held before.

    Args:
        trace: of a kernel that was followed to its end; for others nothing is reported.
        outputs: the variables of its outputs.
    """
    if trace.lost:
        return ()
    stores: dict[Variable, list[Access]] = defaultdict(list)
    for event in trace.events:
        if isinstance(event, Access) and event.kind != "read" and event.memory == "device":
            stores[event.variable].append(event)
    found = (_unfilled(variable, stores.get(variable, [])) for variable in outputs)
    return tuple(one for one in found if one is not None)


def _unfilled(variable: Variable, stores: list[Access]) -> Unfilled | None:
    if not stores:
        return Unfilled(variable, "never", None)
    if all(store.kind == "atomic" for store in stores):
        updated = all(_FETCH in store.function for store in stores)
        return Unfilled(variable, "atomic", stores[0]) if updated else None
    deciding = [_deciding(store) for store in stores]
    if any(condition is None for condition in deciding):
        return None
    held = {(condition.symbol, condition.holds) for condition in deciding if condition is not None}
    if any((symbol, not holds) in held for symbol, holds in held):
        return None
    return Unfilled(variable, "condition", stores[0], deciding[0])


def _deciding(store: Access) -> Condition | None:
    """The first condition on data around a store."""
    for condition in store.mask.conditions:
        if condition.varies and not _is_guard(condition) and not condition.symbol.origin.blurred:
            return condition
    return None


def _is_guard(condition: Condition) -> bool:
    """Return whether a condition bounds the thread's position: ``i < n``, also several of them."""
    sides = condition.sides
    if sides is None:
        return condition.symbol.operation in ("&&", "||", "!", "path", "?:")
    return not any(_data(side) for side in sides)


def _data(value: LaneValue) -> bool:
    return any(
        symbol.bits & (LANE | SIMD) and symbol.operation not in ("/", "%", "*", "&")
        for symbol, _ in value.terms
    )


@check("KERNEL-INIT-001")
def conditional_stores(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Kernels without ``init_value`` that decide by their data what to store."""
    for kernel in contracted(module, facts):
        launches = kernel.launches
        if not launches or any(launch.has_init_value is not False for launch in launches):
            continue
        program = kernel.program if kernel.whole else None
        if program is None or program.problems:
            continue

        if decides_by_data(program):
            with suppress(WorkBudgetExceeded):
                yield from _unfilled_reports(kernel)


def _unfilled_reports(kernel: Contracted) -> Iterator[Report]:
    """Outputs that every way of launching leaves unset in part."""
    found: dict[str, list[Spot]] = {}
    runs = 0
    for planned in kernels_of(kernel.definition, kernel.module):
        for trace in planned.traces:
            runs += 1
            for name, spot in _of_trace(trace):
                found.setdefault(name, []).append(spot)
    for name, spots in found.items():
        if len(spots) == runs and spots[0].text == "body":
            yield from kernel.at(
                "KERNEL-INIT-001",
                spots[0].place,
                f"{hazards.unwritten_output(name)} where the condition on data fails",
                hazards.UNWRITTEN_HELP,
            )


def _of_trace(trace: Trace) -> Iterator[tuple[str, Spot]]:
    from embercoach.metal.execution.events import Access

    stores = [
        event
        for event in trace.events
        if isinstance(event, Access) and event.kind == "write" and event.memory == "device"
    ]
    variables = {s.variable: None for s in stores if s.variable.kind == "output"}
    for one in unfilled(trace, tuple(variables)):
        own = [s for s in stores if s.variable is one.variable]
        if one.reason == "condition" and own and all(map(_is_owned, own)):
            yield one.variable.name, own[0].spot


def _is_owned(store: Access) -> bool:
    """Return whether each thread stores its own element, which no other thread stores."""
    from embercoach.metal.execution.conditions import threads_of
    from embercoach.metal.execution.values import LANE, SIMD

    if any(symbol.bits & (LANE | SIMD) for symbol, _ in store.index.terms):
        return False
    threads = list(threads_of(store.mask.lanes))
    return len(threads) > 1 and len({store.index.offset(t) for t in threads}) == len(threads)
