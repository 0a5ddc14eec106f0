"""KERNEL-INIT-001, by following the kernel: outputs that are stored only where data allow it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from embercoach.checks.programs.contracted import contracted
from embercoach.checks.programs.kernel_plans import kernels_of
from embercoach.checks.registry import Report, check
from embercoach.metal import hazards
from embercoach.metal.work_budget import WorkBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.contracted import Contracted
    from embercoach.metal.execution.events import Access, Trace
    from embercoach.metal.program.nodes import Spot


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
        from embercoach.metal.inspections.data_conditions import decides_by_data

        if decides_by_data(program):
            with suppress(WorkBudgetExceeded):
                yield from _unfilled(kernel)


def _unfilled(kernel: Contracted) -> Iterator[Report]:
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
    from embercoach.metal.inspections.stores import unfilled

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
