"""Outputs that each thread writes at its position in the grid, whatever that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.execution.events import Access

if TYPE_CHECKING:
    from embercoach.metal.execution.events import Trace
    from embercoach.metal.execution.values import Symbol, Value
    from embercoach.metal.program.nodes import Variable

_AXES = "xyz"


def unguarded(trace: Trace, axis: int) -> frozenset[Variable]:
    """The outputs that all threads of a group write to at an index that grows with an axis.

    The index is the thread's position in the grid along that axis, times something, plus something
    else, and no condition keeps a thread from writing: not even the last of the grid.
    """
    return frozenset(
        event.variable
        for event in trace.events
        if isinstance(event, Access)
        and event.kind != "read"
        and event.variable.kind == "output"
        and event.mask.lanes == trace.everyone
        and not event.mask.conditions
        and _grows(event.index, trace, axis)
    )


def _grows(index: Value, trace: Trace, axis: int) -> bool:
    """Whether an index has the position along an axis as a part."""
    size = trace.configuration.threadgroup
    step = (1, size[0], size[0] * size[1])[axis]
    for symbol, factor in index.terms:
        if symbol.operation == f"group.{_AXES[axis]}" and factor > 0 and factor % size[axis] == 0:
            each = factor // size[axis]
            return size[axis] == 1 or index.offset(step) - index.offset(0) == each
        if symbol.operation == "*" and factor > 0 and _is_multiple(symbol, trace, axis):
            return True
    return False


def _is_multiple(symbol: Symbol, trace: Trace, axis: int) -> bool:
    """``position * width`` of an unknown width, which is the same for all threads."""
    from embercoach.metal.execution.values import Value

    operands = [operand for operand in symbol.operands if isinstance(operand, Value)]
    if len(operands) != 2:
        return False
    for position, width in (operands, operands[::-1]):
        if width.bits == 0 and _grows(position, trace, axis):
            return True
    return False
