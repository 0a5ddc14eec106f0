"""Follows a kernel: one threadgroup, its threads in lockstep, with unknown data."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from embercoach.metal.contract import MAX_THREADS
from embercoach.metal.execution import (  # noqa: F401  (link the recursion)
    follow_calls,
    follow_expressions,
)
from embercoach.metal.execution.events import LostError, Trace
from embercoach.metal.execution.follow_statements import declare, follow_statement
from embercoach.metal.execution.machine import CallFrame, Machine, attributes_of
from embercoach.metal.execution.memory import Bundle, Cells
from embercoach.metal.execution.path_state import State
from embercoach.metal.execution.values import LaneValue, SymbolPool
from embercoach.metal.program.types import DTYPES
from embercoach.metal.work_budget import RUN

if TYPE_CHECKING:
    from embercoach.metal.execution.events import Configuration
    from embercoach.metal.program.nodes import MetalFunction, Program, Spot, Variable


def follow(
    program: Program,
    configuration: Configuration,
    entry: MetalFunction | None = None,
    budget: int = RUN,
) -> Trace:
    """Follow a kernel through one threadgroup.

    Args:
        program: a kernel's body under its header, or a whole file.
        configuration: how it is launched.
        entry: of a whole file, the function that is launched.
        budget: thread operations after which it ends.

    Returns:
        What it did up to the first thing that is not followed.
    """
    threads = prod(configuration.threadgroup)
    bodies = [] if program.body is None else [program.body]
    if entry is not None:
        bodies = entry.bodies
    if not bodies or not 0 < threads <= MAX_THREADS:
        return Trace(configuration, max(threads, 0), (), ())
    m = _machine(program, configuration, threads)
    m.budget = budget
    state = State((1 << threads) - 1)
    too_deep = False
    lost: tuple[Spot, ...] = tuple(problem.spot for problem in program.problems)
    try:
        for declared in program.constants:
            declare(m, state, declared)
        m.globals.update(state.variables)
        state.variables = {}
        m.frames.append(CallFrame(None, None))
        for body in bodies:
            follow_statement(m, state, body)
    except LostError as error:
        lost += (bodies[0].spot if error.spot is None else error.spot,)
    except RecursionError:
        too_deep = True
        lost += (bodies[0].spot,)
    gaps = (*lost, *m.gaps)
    events = tuple(m.events)
    return Trace(
        configuration,
        threads,
        events,
        gaps,
        m.pool.steps,
        too_deep=too_deep,
        cut_short=m.cut_short,
    )


def _machine(program: Program, configuration: Configuration, threads: int) -> Machine:
    pool = SymbolPool(threads)
    given_types = ((name, DTYPES.get(str(given))) for name, given in configuration.template.items())
    types = {name: scalar for name, scalar in given_types if scalar is not None}
    m = Machine(program, configuration, pool, attributes_of(configuration, pool), types)
    if not configuration.assumed and None not in configuration.groups:
        # A kernel that asks for strides may get a view into a larger buffer.
        m.sized_inputs = frozenset(
            one.name
            for one in configuration.inputs
            if one.ndim and one.size and f"{one.name}_strides" not in program.variables
        )
    for name, variable in program.variables.items():
        given = configuration.template.get(name)
        if variable.kind == "template" and isinstance(given, int):
            m.globals[variable] = LaneValue(int(given))
        elif variable.kind == "attribute":
            _narrow(m, variable)
    _metadata(m)
    return m


def _narrow(m: Machine, variable: Variable) -> None:
    """An entry point may take a position as ``uint`` or ``uint2``."""
    known = m.attributes.get(variable.attribute or variable.name)
    width = variable.type.width
    if isinstance(known, Bundle) and width < len(known.parts):
        m.globals[variable] = known.parts[0] if width == 1 else Bundle(known.parts[:width])


def _metadata(m: Machine) -> None:
    """The known ranks and shapes of the inputs."""
    for given in m.configuration.inputs:
        rank = m.program.variables.get(f"{given.name}_ndim")
        if rank is not None and given.ndim is not None:
            m.globals[rank] = LaneValue(given.ndim)
        shape = m.program.variables.get(f"{given.name}_shape")
        if shape is not None and given.ndim == 1 and given.size is not None:
            m.globals[shape] = Cells({("", 0): LaneValue(given.size)}, 0)
