"""GRAPH-BREAK-003 and 004 for names that hold an array at one time, and a bool at another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.values.joins import as_number, options
from embercoach.analysis.values.lattice import Array
from embercoach.checks.arrays.pulls.pull_reports import pull
from embercoach.checks.arrays.pulls.pull_uses import only_exits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import TruthFact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.registry import Report


def mixed_test(fact: TruthFact, module: Module) -> Iterator[Report]:
    """``done = False``, then ``while not done: done = mx.all(x == end)``."""
    assert isinstance(fact.node, cst.Name)
    numbers = [as_number(o) for o in options(fact.value) if type(o) is not Array]
    if any(number is None or number.kind != "bool" for number in numbers):
        return
    if fact.form == "assert" or _is_parameter(fact.node.value, fact.place.function):
        return
    array = next(o for o in options(fact.value) if type(o) is Array)
    is_operand = fact.form in ("not", "and", "or")
    report = pull(
        fact,
        "GRAPH-BREAK-004" if is_operand else "GRAPH-BREAK-003",
        module,
        f"`{fact.form}` on a possible mx.array" if is_operand else "test of a possible mx.array",
        value=array,
        help="Read the array where it is assigned, or all elements by one .tolist() before",
        array_node=fact.node,
        may_leave=only_exits(fact.place.statement),
    )
    if isinstance(fact.place.statement, cst.While):
        report = replace(report, context="sink")  # each iteration needs to know if it is the last
    yield report


def _is_parameter(name: str, function: FunctionInfo | None) -> bool:
    """Test whether a name is a parameter here, or in a function around: callers may pass bools."""
    while function is not None:
        if any(parameter.name == name for parameter in function.parameters):
            return True
        function = function.outer
    return False
