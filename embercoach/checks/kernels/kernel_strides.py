"""KERNEL-INDEX-002: loops whose step is the size of something else than their start counts in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from embercoach.checks.programs.metal_checks import MetalCode, MetalKernel, MetalReport
from embercoach.checks.registry import check
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Cast,
    Declare,
    Expression,
    Loop,
    Member,
    Name,
    Variable,
)
from embercoach.metal.program.walk import below

CODE = "KERNEL-INDEX-002"
_IN_GRID = "thread_position_in_grid"
_IN_GROUP = frozenset(("thread_position_in_threadgroup", "thread_index_in_threadgroup"))
_GROUP_SIZE = "threads_per_threadgroup"
_GRID_SIZE = "threads_per_grid"
_AXES = "xyz"
#: Local names that are followed one after the other.
_MOST_NAMES = 8


class _Attribute(NamedTuple):
    """An attribute of the thread, and the axis that is meant."""

    name: str
    axis: int


@check(CODE)
def loop_steps(code: MetalCode) -> Iterator[MetalReport]:
    """``for (uint i = thread_position_in_grid.x; i < n; i += threads_per_threadgroup.x)``."""
    if "threads_per_" not in code.text.text:
        return
    for kernel in code.kernels:
        body = kernel.own.body
        if body is None:
            continue
        nodes = tuple(below(body))
        initial = _initial_values(nodes)
        for node in nodes:
            if isinstance(node, Loop):
                start, step = _start_of(node, initial), _step_of(node, initial)
                if start is not None and step is not None and start.axis == step.axis:
                    yield from _mixed(node, start, step, kernel)


def _mixed(
    loop: Loop, start: _Attribute, step: _Attribute, kernel: MetalKernel
) -> Iterator[MetalReport]:
    # With one threadgroup the position in it is that in the grid.
    if all(launch.groups[start.axis] == 1 for launch in kernel.configurations):
        return
    assert loop.step is not None
    if start.name == _IN_GRID and step.name == _GROUP_SIZE:
        what = "loop from a position in the grid steps by the threadgroup: elements repeat"
        advice = f"Step by `{_GRID_SIZE}`"
    elif start.name in _IN_GROUP and step.name == _GRID_SIZE:
        what = "loop from a position in the threadgroup steps by the grid: elements are left out"
        advice = f"Start at `{_IN_GRID}`, or step by `{_GROUP_SIZE}`"
    else:
        return
    yield MetalReport(CODE, loop.step.spot, what, advice)


def _initial_values(nodes: tuple[object, ...]) -> dict[Variable, Expression]:
    """Return the values of local variables that only their declarations set."""
    assigned = {
        node.target.variable
        for node in nodes
        if isinstance(node, Assign) and isinstance(node.target, Name)
    }
    return {
        node.variable: node.initial
        for node in nodes
        if isinstance(node, Declare) and node.initial is not None and node.variable not in assigned
    }


def _start_of(loop: Loop, initial: Mapping[Variable, Expression]) -> _Attribute | None:
    """Return where a loop over one variable starts."""
    variable = _counted(loop)
    for statement in loop.start:
        if isinstance(statement, Declare) and statement.variable is variable:
            return None if statement.initial is None else _attribute(statement.initial, initial)
    return None


def _counted(loop: Loop) -> Variable | None:
    """Return the variable that a loop adds to."""
    step = loop.step
    if isinstance(step, Assign) and isinstance(step.target, Name):
        return step.target.variable
    return None


def _step_of(loop: Loop, initial: Mapping[Variable, Expression]) -> _Attribute | None:
    step, variable = loop.step, _counted(loop)
    if not isinstance(step, Assign) or variable is None:
        return None
    if step.operator == "+=":
        return _attribute(step.value, initial)
    value = step.value
    if step.operator == "=" and isinstance(value, Binary) and value.operator == "+":
        for side, other in ((value.left, value.right), (value.right, value.left)):
            if isinstance(side, Name) and side.variable is variable:
                return _attribute(other, initial)
    return None


def _attribute(expression: Expression, initial: Mapping[Variable, Expression]) -> _Attribute | None:
    """Return the attribute that an expression is, through casts and local variables."""
    axis = 0
    for _ in range(_MOST_NAMES):
        if isinstance(expression, Cast):
            expression = expression.operand
        elif isinstance(expression, Member) and expression.field in _AXES:
            axis = _AXES.index(expression.field)
            expression = expression.base
        elif not isinstance(expression, Name):
            return None
        elif expression.variable.kind == "attribute":
            variable = expression.variable
            return _Attribute(variable.attribute or variable.name, axis)
        elif expression.variable in initial:
            expression = initial[expression.variable]
        else:
            return None
    return None
