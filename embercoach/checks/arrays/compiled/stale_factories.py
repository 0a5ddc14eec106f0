"""COMPILE-007: compiled functions that a factory makes around a model that is trained later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import CompiledCall, CompileFact
from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.value_sources import Callee, argument_of, sources_of
from embercoach.analysis.values.lattice import Function, Sequence, Transformed
from embercoach.checks.arrays.compiled.compilations import nodes_in, root_of
from embercoach.checks.arrays.compiled.model_calls import variable
from embercoach.checks.arrays.compiled.stale import HELP_WITH_STATE
from embercoach.checks.arrays.compiled.updates import updates_of
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CallFact, Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value


@check("COMPILE-007")
def stale_factory(fact: CallFact, module: Module) -> Iterator[Report]:
    """``evaluate = make_evaluate(model)`` before a loop that trains the model and calls it."""
    if type(fact.callee) is not Function:
        return
    factory = fact.callee.info
    for function in _compiled_in(fact.result):
        if function.outer is None or function.outer.node is not factory.node:
            continue
        if _captures(factory, module) or not _is_stale(fact, factory, function, module):
            continue
        compiled = [f for f in module.facts_of(factory) if type(f) is CompileFact]
        where: Fact = compiled[0] if len(compiled) == 1 and factory.module is module else fact
        yield Report.at(
            where,
            "COMPILE-007",
            message="weights are read when traced: optimizer updates have no effect",
            help=HELP_WITH_STATE,
            context="compiled",
        )
        return


def _compiled_in(result: Value) -> Iterator[FunctionInfo]:
    """The functions that are compiled in what a call returns."""
    for item in result.items or () if type(result) is Sequence else (result,):
        root = root_of(item)
        if root is not None and type(item) is Transformed and item.transform == "compile":
            yield root


def _captures(factory: FunctionInfo, module: Module) -> bool:
    """Return whether a factory passes ``inputs=``, for whatever it compiles."""
    return any(
        isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "inputs"
        for node in walk(factory.node)
    )


def _is_stale(
    fact: CallFact, factory: FunctionInfo, function: FunctionInfo, module: Module
) -> bool:
    """Return whether a loop calls the function, and updates a model that the factory was given."""
    caller = fact.place.function
    loops = [
        call.place.loop
        for call in module.facts_of(caller)
        if type(call) is CompiledCall
        and call.place.loop is not None
        and root_of(call.callee) is function
    ]
    if not loops or fact.place.loop in loops:
        return False
    sources = sources_of(module)
    callee = Callee(factory, fact.callee.bound is not None)  # type: ignore[attr-defined]
    for parameter in factory.parameters:
        if not _runs(function, parameter.name, module):
            continue
        given = argument_of(sources.of(fact, fact.node), callee, parameter.name)
        path = None if given is None else dotted(given.node)
        if path is None:
            continue
        model = variable(path, caller, module)
        for update in updates_of(module):
            if update.model is None or update.function is not caller or not update.in_loop:
                continue
            if variable(update.model, caller, module) == model:
                return True
    return False


def _runs(function: FunctionInfo, name: str, module: Module) -> bool:
    """Return whether a function calls a model, or passes it to what may call it."""
    if any(parameter.name == name for parameter in function.parameters):
        return False
    return any(
        isinstance(node, cst.Call)
        and (dotted(node.func) == name or any(dotted(a.value) == name for a in node.args))
        for node in nodes_in(function.node.body, module)
    )
