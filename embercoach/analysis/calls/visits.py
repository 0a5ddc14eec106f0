"""Launches in functions that others call: what each of the calls launches.

The analysis of a function holds for all of its callers, so that it knows little of a helper's
``grid`` and ``threadgroup``. Here the helper is run again for each call in the file, with what
that call is known to pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.calls import constants, functions
from embercoach.analysis.calls.kernel_objects import holds_kernel, kernels_in
from embercoach.analysis.values.facts import Argument, CallFact, Fact, FunctionVisit
from embercoach.analysis.values.lattice import Function, Value

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.project.module import Module

#: A helper may call another one, and so on.
MAX_HELPERS = 3
#: A file with more calls of helpers is left to the analysis that holds for all of them.
MAX_VISITS = 128


def launches(callee: Value) -> bool:
    """Return whether a call of a value launches a kernel."""
    return type(callee) is not Function and any(True for _ in kernels_in(callee))


def note(frame: Frame, node: cst.Call, callee: Function, arguments: tuple[Argument, ...]) -> None:
    """Note a call of a function of the file whose arguments can be distinguished."""
    info = callee.info
    if info.module is not frame.module or any(argument.star for argument in arguments):
        return
    closure = None if info.outer is None else constants.closure_at(frame, info)
    if closure is None and info.outer is not None:
        return
    visit = FunctionVisit(node, frame.place(), info, callee.bound, arguments, closure, frame.visit)
    if frame.record:
        frame.add(visit)
    else:
        frame.seen.append(visit)


def launches_by_call(module: Module, facts: list[Fact]) -> list[CallFact]:
    """Get the launches in functions of a file, once for each call of the function in the file."""
    visits = [fact for fact in facts if isinstance(fact, FunctionVisit)]
    launching = _launching(visits, facts)
    # What a helper calls is seen once it is visited itself, with what that call passes.
    visited = {v.function for v in visits if v.function is not v.place.function}
    pending = [
        (visit, 1)
        for visit in visits
        if visit.function in launching and visit.place.function not in visited
    ]
    found: list[CallFact] = []
    for number, (visit, depth) in enumerate(pending):
        if number == MAX_VISITS:
            return []
        for fact in functions.seen_in(visit):
            if isinstance(fact, CallFact):
                found.append(fact)
            elif (
                isinstance(fact, FunctionVisit)
                and depth < MAX_HELPERS
                and fact.function in launching
            ):
                pending.append((fact, depth + 1))
    return found


def _launching(visits: list[FunctionVisit], facts: list[Fact]) -> set[FunctionInfo]:
    """Return the functions that launch kernels, by themselves or by what they call."""
    found = {
        fact.place.function
        for fact in facts
        if isinstance(fact, CallFact) and launches(fact.callee)
    }
    found.update(v.function for v in visits if any(holds_kernel(a.value) for a in v.arguments))
    callers: dict[FunctionInfo, list[FunctionInfo]] = {}
    for visit in visits:
        if visit.place.function is not None:
            callers.setdefault(visit.function, []).append(visit.place.function)
    pending = [info for info in found if info is not None]
    known = set(pending)
    while pending:
        for caller in callers.get(pending.pop(), ()):
            if caller not in known:
                known.add(caller)
                pending.append(caller)
    return known
