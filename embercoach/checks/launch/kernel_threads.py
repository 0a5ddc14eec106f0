"""KERNEL-GRID-004 to 006: more threads than elements, and sizes of threadgroups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from math import prod
from operator import mul

import libcst as cst

from embercoach.analysis.dataflow.scopes import Expression, scope_at
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import walk
from embercoach.analysis.values.facts import CallFact
from embercoach.checks.programs.kernels import PythonKernel, launched
from embercoach.checks.programs.launch_sizes import (
    CeilDivision,
    SymInt,
    Term,
    grows_with_data,
    is_attribute,
    is_item,
    symbolic,
    whole_multiple,
)
from embercoach.checks.programs.launches import (
    Entries,
    Entry,
    Launch,
    OutputShape,
    configurations_of,
    entries_of,
    item_node,
)
from embercoach.checks.registry import VALUE, Report, check
from embercoach.metal import hazards
from embercoach.metal.contract import MAX_THREADS
from embercoach.metal.execution.conditions import Condition, threads_of
from embercoach.metal.execution.events import Access, Trace
from embercoach.metal.execution.follow import follow
from embercoach.metal.execution.values import (
    GROUP_AXES,
    SIMD_WIDTH,
    WITHIN,
    LaneValue,
    UnknownNumber,
)
from embercoach.metal.program.nodes import Variable
from embercoach.metal.tokens import tokens_of

AXES = "xyz"
_EXACT_GRID = "Pass the number of elements itself: the last threadgroup may be smaller"
_WHOLE_GROUPS = "Keep the grid, whose threadgroups share memory, and guard the write: `if (i < n)`"


@check("KERNEL-GRID-004")
def rounded_grids(kernel: PythonKernel) -> Iterator[Report]:
    """``grid=((n + 255) // 256 * 256, 1, 1)`` and ``y[thread_position_in_grid.x] = ...``."""
    for launch in kernel.launches:
        for axis, entry in enumerate(launch.grid or ()):
            rounded = None if entry.size is None else whole_multiple(entry.size)
            if rounded is None or not _overshoots(rounded, launch, kernel.module):
                continue
            written = _unguarded(kernel, launch, axis) & _of_count(launch, rounded)
            argument = launch.fact.keyword("grid")
            if not written or argument is None:
                continue
            yield Report.at(
                launch.fact,
                node=item_node(argument, axis),
                message=(
                    f"{AXES[axis]} entry of `grid` is rounded up: "
                    f"{hazards.out_of_bounds('write', min(written))}"
                ),
                help=_WHOLE_GROUPS if _shares(kernel) else _EXACT_GRID,
            )


def _shares(kernel: PythonKernel) -> bool:
    """Return whether the threads of a group fill memory for each other, or wait at a barrier."""
    texts = kernel.readable or ()
    words = {token.text for text in texts for token in tokens_of(text)}
    return not words.isdisjoint(("threadgroup", "threadgroup_barrier"))


def _overshoots(rounded: CeilDivision, launch: Launch, module: Module) -> bool:
    """Return whether rounding up may change the count."""
    if rounded.is_exact:
        return False
    if rounded.divisor.known is not None and rounded.count.known is not None:
        return rounded.divisor.known != 0
    function = launch.fact.place.function
    scope = scope_at(launch.fact, module)
    # A function that asks for ``n % divisor`` may see to it that nothing is left.
    return not any(
        isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.Modulo)
        and symbolic(Expression(node.right, scope)) == rounded.divisor
        for node in walk(module.tree if function is None else function.node)
    )


def _of_count(launch: Launch, rounded: CeilDivision) -> set[str]:
    """Return the outputs that have as many elements, along some axis, as was rounded up from."""
    names = [output.name for output in launch.outputs or ()]
    pairs = zip(names, launch.shapes, strict=False)
    return {name for name, shape in pairs if _has(shape, rounded.count)}


def _has(shape: OutputShape, count: SymInt) -> bool:
    if shape.sizes is not None:
        return count in (*shape.sizes, reduce(mul, shape.sizes))
    # The shape of an array, and a count that is its size or the length of one of its axes.
    whole = None if shape.expression is None else symbolic(shape.expression)
    if whole is None or whole.term is None or not is_attribute(whole, "shape"):
        return False
    size = Term("attribute", (whole.term.parts[0], "size"))
    return count.term == size or is_item(count, whole)


def _unguarded(kernel: PythonKernel, launch: Launch, axis: int) -> set[str]:
    """The outputs that every thread of a group writes to, at its own position, without a guard."""
    program, arguments = kernel.program(launch), kernel.arguments(launch)
    if program is None or arguments is None or program.problems:
        return set()
    found = [
        {variable.name for variable in unguarded(follow(program, configuration), axis)}
        for configuration in configurations_of(arguments, launch)
    ]
    return set.intersection(*found) if found else set()


#: A launch of fewer threads is over before idle lanes matter.
MANY_THREADS = 1024


@check("KERNEL-GRID-005", "KERNEL-GRID-006", of=(VALUE,))
def threadgroup_sizes(fact: CallFact, module: Module) -> Iterator[Report]:
    """``threadgroup=(64, 32, 1)``, ``threadgroup=(48, 1, 1)``."""
    argument = fact.keyword("threadgroup")
    if argument is None or not launched(fact, module):
        return
    group, grid = entries_of(fact, "threadgroup", module), entries_of(fact, "grid", module)
    if group is None:
        return
    threads = _most_threads(group, grid)
    if threads > MAX_THREADS:
        certain = all(entry.known is not None for entry in group if entry.limit is not None)
        yield Report.at(
            fact,
            "KERNEL-GRID-005",
            node=argument.node,
            message=(
                f"threadgroup {'has' if certain else 'can have'} {threads} threads, "
                f"the limit is {MAX_THREADS}"
            ),
            help=f"Keep the product of the three entries at {MAX_THREADS} or less",
        )
        return
    threads = _threads_of_partial_groups(group, grid)
    if threads:
        yield Report.at(
            fact,
            "KERNEL-GRID-006",
            node=argument.node,
            message=(
                f"threadgroup of {threads} thread{'s' * (threads > 1)} leaves "
                f"{-threads % SIMD_WIDTH} of {SIMD_WIDTH} lanes "
                f"{'of its last simdgroup ' * (threads > SIMD_WIDTH)}idle"
            ),
            help=f"Use a multiple of {SIMD_WIDTH} threads, such as 256",
        )


def _most_threads(group: Entries, grid: Entries | None) -> int:
    """The most threads that a group is known to get: MLX makes no entry larger than the grid's."""
    most = [
        entry.limit if threads is None or entry.limit is None else min(entry.limit, threads)
        for entry, threads in zip(group, _known(grid), strict=True)
    ]
    return prod(n for n in most if n is not None and n > 0)


def _known(grid: Entries | None) -> tuple[int | None, ...]:
    return (None,) * 3 if grid is None else tuple(entry.known for entry in grid)


def _threads_of_partial_groups(group: Entries, grid: Entries | None) -> int:
    """Threads of a group whose last simdgroup is not full, if there are many groups; else 0."""
    sizes = [entry.known for entry in group]
    if grid is None or None in sizes:
        return 0
    threads = prod(n for n in sizes if n is not None)
    return threads if threads > 0 and threads % SIMD_WIDTH and _is_large(grid, group) else 0


def _is_large(grid: Entries, group: Entries) -> bool:
    """Return whether there are many groups: by a known number of threads, or by data."""
    if prod(entry.known for entry in grid if entry.known is not None) >= MANY_THREADS:
        return True
    pairs = zip(grid, group, strict=True)
    return any(_follows_data(entry, size) for entry, size in pairs)


def _follows_data(entry: Entry, group: Entry) -> bool:
    if entry.size is None or entry.known is not None:
        return False
    return grows_with_data(entry.size) and entry.size != group.size


def unguarded(trace: Trace, axis: int) -> frozenset[Variable]:
    """Return the outputs that all threads of a group write to at an index that grows with an axis.

    The index is the thread's position in the grid along that axis, times something, plus something
    else, and no condition keeps a thread from writing: not even the last of the grid. One on the
    position along another axis does not: `if (x < width)` lets any `y` through.
    """
    return frozenset(
        event.variable
        for event in trace.events
        if isinstance(event, Access)
        and event.kind != "read"
        and event.variable.kind == "output"
        and _grows(event.index, trace, axis)
        and _is_whole(event.mask.lanes, trace, axis)
        and all(_is_of_others(condition, trace, axis) for condition in event.mask.conditions)
    )


def _is_whole(lanes: int, trace: Trace, axis: int) -> bool:
    """Return whether in each row of threads along an axis all are active, or none."""
    step, size = _step(trace, axis), trace.configuration.threadgroup[axis]
    lines = Counter(thread - thread // step % size * step for thread in threads_of(lanes))
    return bool(lines) and all(count == size for count in lines.values())


def _step(trace: Trace, axis: int) -> int:
    """Return the increase of a thread's index with its position along an axis."""
    x, y, _ = trace.configuration.threadgroup
    return (1, x, x * y)[axis]


def _is_of_others(condition: Condition, trace: Trace, axis: int) -> bool:
    """Return whether a condition concerns only positions along other axes.

    One that is the same for all threads is none: it may ask whether the size is a multiple.
    """
    symbol = condition.symbol
    positions = condition.varies or symbol.origin.axes
    return bool(positions) and not _depends(symbol, trace, axis)


def _depends(symbol: UnknownNumber, trace: Trace, axis: int) -> bool:
    """Return whether an unknown may differ along an axis."""
    if symbol.origin.blurred or symbol.origin.axes >> axis & 1:
        return True
    operands = [operand for operand in symbol.operands if isinstance(operand, LaneValue)]
    if not operands:
        return bool(symbol.bits & WITHIN)
    return any(
        _moves(value, trace, axis) or any(_depends(s, trace, axis) for s, _ in value.terms)
        for value in operands
    )


def _moves(value: LaneValue, trace: Trace, axis: int) -> bool:
    """Return whether the known part of a value differs along an axis."""
    step, size = _step(trace, axis), trace.configuration.threadgroup[axis]
    threads = range(trace.threads)
    return any(
        value.offset(thread) != value.offset(thread - thread // step % size * step)
        for thread in threads
    )


def _grows(index: LaneValue, trace: Trace, axis: int) -> bool:
    """Return whether an index has the position along an axis as a part."""
    size = trace.configuration.threadgroup
    step = _step(trace, axis)
    for symbol, factor in index.terms:
        if symbol.operation == GROUP_AXES[axis] and factor > 0 and factor % size[axis] == 0:
            each = factor // size[axis]
            return size[axis] == 1 or index.offset(step) - index.offset(0) == each
        if symbol.operation == "*" and factor > 0 and _is_multiple(symbol, trace, axis):
            return True
    return False


def _is_multiple(symbol: UnknownNumber, trace: Trace, axis: int) -> bool:
    """``position * width`` of an unknown width, which is the same for all threads."""
    operands = [operand for operand in symbol.operands if isinstance(operand, LaneValue)]
    if len(operands) != 2:
        return False
    for position, width in (operands, operands[::-1]):
        if width.bits == 0 and _grows(position, trace, axis):
            return True
    return False
