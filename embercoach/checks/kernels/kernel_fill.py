"""KERNEL-ATOMIC and KERNEL-INIT: how a kernel writes its outputs, and what they held before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.dataflow.scopes import Expression, items, scope_at
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import CallFact
from embercoach.checks.programs.kernels import KernelBody, PythonKernel
from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.checks.registry import Report, check
from embercoach.metal import hazards
from embercoach.metal.execution.conditions import Condition, threads_of
from embercoach.metal.execution.events import Access, Trace
from embercoach.metal.execution.parameter_uses import OutputUses, output_uses
from embercoach.metal.execution.values import WITHIN, LaneValue, UnknownNumber
from embercoach.metal.program.nodes import If, Index, Program, Spot, Switch, Variable
from embercoach.metal.program.walk import Node, base, below, mentioned, sources_of

#: Dtypes that Metal has an atomic type for.
ATOMIC = frozenset({"int32", "uint32", "float32", "uint64", "bool", "bool_"})


@check("KERNEL-ATOMIC-001")
def atomic_dtypes(kernel: PythonKernel) -> Iterator[Report]:
    """Yield the dtypes of atomic outputs."""
    if kernel.flag("atomic_outputs", default=False) is not True:
        return
    for launch in kernel.launches:
        for index, output in enumerate(launch.outputs or ()):
            if output.dtype is not None and output.dtype not in ATOMIC:
                yield Report.at(
                    launch.fact,
                    node=_dtype_node(launch.fact, index, kernel.module),
                    message=f"no atomic type for {output.dtype} output `{output.name}`",
                    help="Write float32, int32 or uint32 in the kernel, and convert the result",
                )
                break


def _dtype_node(fact: CallFact, index: int, module: Module) -> cst.CSTNode:
    """The expression of one of ``output_dtypes``, or of the whole list where it is elsewhere."""
    argument = fact.keyword("output_dtypes")
    if argument is None:
        return fact.node
    dtypes = items(Expression(argument.node, scope_at(fact, module)))
    return dtypes[index].node if dtypes is not None and index < len(dtypes) else argument.node


@check("KERNEL-ATOMIC-002", "KERNEL-INIT-001")
def output_writes(kernel: KernelBody) -> Iterator[MetalReport]:
    """Check how a kernel whose texts and names are known writes its outputs."""
    program = kernel.program() if kernel.is_whole else None
    if program is None or program.problems:
        return
    uses = output_uses(program)
    atomic = kernel.flag("atomic_outputs", default=False)
    if atomic is not None:
        yield from _plain_accesses(uses) if atomic else _atomic_calls(uses)
    # Some launch leaves the outputs uninitialized.
    if any(launch.has_init_value is False for launch in kernel.launches):
        yield from _uninitialized(kernel, uses)


def _plain_accesses(uses: dict[str, OutputUses]) -> Iterator[MetalReport]:
    for name, use in uses.items():
        spot = next(iter((*use.stores, *use.updates, *use.reads)), None)
        if spot is None or spot.text != "body":
            continue
        stored = bool(use.stores or use.updates)
        yield MetalReport(
            "KERNEL-ATOMIC-002",
            spot,
            f"plain {'assignment to' if stored else 'read of'} atomic output `{name}`",
            f"Use `atomic_store_explicit(&{name}[i], v, memory_order_relaxed)` or "
            "`atomic_fetch_..._explicit`"
            if stored
            else f"Use `atomic_load_explicit(&{name}[i], memory_order_relaxed)`",
        )
        return


def _atomic_calls(uses: dict[str, OutputUses]) -> Iterator[MetalReport]:
    """Yield the first atomic function on a plain output."""
    for name, use in uses.items():
        if use.uncast and use.uncast[0].text == "body":
            what = f"atomic function on output `{name}`, which is not atomic"
            yield MetalReport("KERNEL-ATOMIC-002", use.uncast[0], what, hazards.ATOMIC_OUTPUT_HELP)
            return


def _uninitialized(kernel: KernelBody, uses: dict[str, OutputUses]) -> Iterator[MetalReport]:
    """Outputs that are updated, and never written before."""
    for name in kernel.outputs or ():
        use = uses.get(name)
        if use is None or use.stores or use.escapes:
            continue
        spot = next(iter((*use.updates, *use.atomic_updates)), None)
        if spot is None or spot.text != "body":
            continue
        yield MetalReport(
            "KERNEL-INIT-001",
            spot,
            f"{hazards.uninitialized_read(name)}: updated without an initial value",
            hazards.UNINITIALIZED_HELP,
        )


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
    held = {v for v in sources_of(program.body, _is_input) if not _is_input(v)}
    return any(_reads(condition) or mentioned(condition) & held for condition in conditions)


def _reads(node: Node) -> bool:
    """Return whether a node contains an element of an input."""
    return any(isinstance(inner, Index) and _is_input(base(inner.base)) for inner in below(node))


def _is_input(variable: Variable | None) -> bool:
    return variable is not None and variable.kind == "input"


def unfilled(trace: Trace) -> Iterator[Access]:
    """Stores to outputs that keep, in part, what their memory held before; one of each output.

    Each of the output's stores is under a condition on data, and nothing is stored where that
    fails. Nothing is reported for a kernel that was not followed to its end.
    """
    stores: dict[Variable, list[Access]] = defaultdict(list)
    for event in () if trace.lost else trace.events:
        if isinstance(event, Access) and event.kind != "read" and event.variable.kind == "output":
            stores[event.variable].append(event)
    for found in stores.values():
        written = [store for store in found if store.kind == "write"]
        if written and _is_conditional(found) and all(map(_is_owned, written)):
            yield written[0]


def _is_conditional(stores: list[Access]) -> bool:
    held: set[tuple[UnknownNumber, bool]] = set()
    for store in stores:
        condition = _deciding(store)
        if condition is None:
            return False
        held.add((condition.symbol, condition.holds))
    return not any((symbol, not holds) in held for symbol, holds in held)


def _deciding(store: Access) -> Condition | None:
    """Return the first condition on data around a store."""
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
        symbol.bits & WITHIN and symbol.operation not in ("/", "%", "*", "&")
        for symbol, _ in value.terms
    )


@check("KERNEL-INIT-001")
def conditional_stores(kernel: KernelBody) -> Iterator[MetalReport]:
    """Yield kernels without ``init_value`` that decide by their data what to store.

    Every way of launching leaves some output unset in part.
    """
    if not kernel.launches or any(la.has_init_value is not False for la in kernel.launches):
        return
    program = kernel.program() if kernel.is_whole else None
    if program is None or program.problems or not decides_by_data(program):
        return
    found: dict[str, list[Spot]] = {}
    runs = 0
    for planned in kernel.kernels:
        for trace in planned.traces:
            runs += 1
            for store in unfilled(trace):
                found.setdefault(store.variable.name, []).append(store.spot)
    for name, spots in found.items():
        if len(spots) == runs and spots[0].text == "body":
            what = f"{hazards.unwritten_output(name)} where the condition on data fails"
            yield MetalReport("KERNEL-INIT-001", spots[0], what, hazards.UNWRITTEN_HELP)


def _is_owned(store: Access) -> bool:
    """Return whether each thread stores its own element, which no other thread stores."""
    if not store.index.comparable:
        return False
    threads = list(threads_of(store.mask.lanes))
    return len(threads) > 1 and len({store.index.offset(t) for t in threads}) == len(threads)
