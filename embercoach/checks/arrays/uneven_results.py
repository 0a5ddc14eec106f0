"""CALL-003: unpacked results, of which one return has more or fewer than the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import display
from embercoach.analysis.dataflow.value_sources import returned_by
from embercoach.analysis.values.facts import LocalCall, ProjectCall, calls_of
from embercoach.analysis.values.lattice import Array
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.fallbacks import is_attempted
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module

#: Characters of a name that a message quotes.
_LONGEST = 24


class _Result(NamedTuple):
    """A return statement, with how many results it has; 0 for one array."""

    statement: cst.CSTNode
    size: int


@check("CALL-003")
def uneven_results(fact: LocalCall | ProjectCall, module: Module) -> Iterator[Report]:
    """``q, k, v = split(x)`` of a function that returns two for an empty array."""
    statement, function = fact.place.statement, fact.function
    if type(statement) is not cst.Assign or statement.value is not fact.node:
        return
    if isinstance(fact, ProjectCall) and not fact.is_certain:
        return
    targets = display(statement.targets[0].target)
    if targets is None or len(targets) < 2:
        return
    results = _results(function, module)
    uneven = next((one for one in results if one.size != len(targets)), None)
    if uneven is None or all(one.size != len(targets) for one in results):
        return
    if _is_chosen(function) or is_attempted(module, statement):
        return
    what = f"{uneven.size} results" if uneven.size else "one array"
    stop = Stop(uneven.statement, uneven.statement, f"here it returns {what}")
    yield Report.at(
        fact,
        message=f"`{last_name(fact.node)[:_LONGEST]}()` may return {what}, not {len(targets)}",
        help="Return as many results on all paths",
        related=(stop,) if function.module is module else (),
    )


@kept_for_file
def _results(function: FunctionInfo, module: Module) -> tuple[_Result, ...]:
    """Return the results of a function of which it is known how many they are."""
    found: list[_Result] = []
    for value, statement in returned_by(function):
        items, known = display(value), calls_of(module).get(value)
        if items is not None:
            found.append(_Result(statement, len(items)))
        elif known is not None and type(known.result) is Array:
            found.append(_Result(statement, 0))
    return tuple(found)


@kept_for_file
def _is_chosen(function: FunctionInfo) -> bool:
    """Return whether options or attributes decide which results there are."""
    layout = layout_of(function.module, function)
    own = {p.name for p in function.parameters if p.default is not None or p.star}
    own.update(p.name for p in function.parameters[: function.is_method])
    tests = [
        level.owner.test
        for _, statement in returned_by(function)
        for level in layout.outward(statement)
        if isinstance(level.owner, cst.If)
    ]
    return any(not own.isdisjoint(contents_of(test).names) for test in tests)
