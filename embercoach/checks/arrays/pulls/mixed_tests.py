"""GRAPH-BREAK-003 and 004 for names that hold an array at one time, and a bool at another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import names_below
from embercoach.analysis.values.joins import as_number, options
from embercoach.analysis.values.lattice import Array
from embercoach.checks.arrays.pulls.pull_reports import pull

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import TruthFact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.registry import Report


def mixed_test(fact: TruthFact, module: Module) -> Iterator[Report]:
    """``done = False``, then ``while not done: done = mx.all(x == end)``; ``if stop(loss):``."""
    numbers = [as_number(o) for o in options(fact.value) if type(o) is not Array]
    if any(number is None or number.kind != "bool" for number in numbers):
        return
    if fact.form == "assert":
        return
    if isinstance(fact.node, cst.Name) and _is_parameter(fact.node.value, fact.place.function):
        return
    array = next(o for o in options(fact.value) if type(o) is Array)
    is_operand = fact.form in ("not", "and", "or")
    operation = f"`{fact.form}` on" if is_operand else "test of"
    report = pull(
        fact,
        "GRAPH-BREAK-004" if is_operand else "GRAPH-BREAK-003",
        module,
        f"{operation} a possible mx.array",
        value=array,
        help="Read the array where it is assigned, or all elements by one .tolist() before",
        array_node=fact.node,
    )
    if isinstance(fact.node, cst.Name) and _is_tested_around(fact.node, fact, module):
        message = f"{operation} a possible mx.array only costs a device-to-host copy"
        report = replace(report, context="minor", message=message)
    yield report


def _is_tested_around(node: cst.Name, fact: TruthFact, module: Module) -> bool:
    """Test whether an ``if`` around, or one that an ``elif`` belongs to, has tested the array."""
    name, statement = node.value, fact.place.statement
    reaching = scope_of(module, fact.place.function).reaching
    held = reaching.before(statement, name)
    for level in layout_of(module, fact.place.function).outward(statement):
        owner = level.owner
        if isinstance(owner, cst.If) and name in names_below(owner.test):
            return held is not None and held == reaching.before(owner, name)
        if isinstance(owner, (cst.For, cst.While)):
            break
    return False


def _is_parameter(name: str, function: FunctionInfo | None) -> bool:
    """Test whether a name is a parameter here, or in a function around: callers may pass bools."""
    while function is not None:
        if any(parameter.name == name for parameter in function.parameters):
            return True
        function = function.outer
    return False
