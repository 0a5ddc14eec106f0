"""Outputs that each thread writes at its position in the grid, whatever that is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from embercoach.metal.execution.conditions import threads_of
from embercoach.metal.execution.events import Access
from embercoach.metal.execution.values import LANE, SIMD

if TYPE_CHECKING:
    from embercoach.metal.execution.conditions import Condition
    from embercoach.metal.execution.events import Trace
    from embercoach.metal.execution.values import LaneValue, UnknownNumber
    from embercoach.metal.program.nodes import Variable

_AXES = "xyz"


def unguarded(trace: Trace, axis: int) -> frozenset[Variable]:
    """The outputs that all threads of a group write to at an index that grows with an axis.

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
    """The increase of a thread's index with its position along an axis."""
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
    from embercoach.metal.execution.values import LaneValue

    if symbol.origin.blurred or symbol.origin.axes >> axis & 1:
        return True
    operands = [operand for operand in symbol.operands if isinstance(operand, LaneValue)]
    if not operands:
        return bool(symbol.bits & (LANE | SIMD))
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
        if symbol.operation == f"group.{_AXES[axis]}" and factor > 0 and factor % size[axis] == 0:
            each = factor // size[axis]
            return size[axis] == 1 or index.offset(step) - index.offset(0) == each
        if symbol.operation == "*" and factor > 0 and _is_multiple(symbol, trace, axis):
            return True
    return False


def _is_multiple(symbol: UnknownNumber, trace: Trace, axis: int) -> bool:
    """``position * width`` of an unknown width, which is the same for all threads."""
    from embercoach.metal.execution.values import LaneValue

    operands = [operand for operand in symbol.operands if isinstance(operand, LaneValue)]
    if len(operands) != 2:
        return False
    for position, width in (operands, operands[::-1]):
        if width.bits == 0 and _grows(position, trace, axis):
            return True
    return False
