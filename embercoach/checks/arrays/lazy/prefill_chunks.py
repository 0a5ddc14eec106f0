"""LAZY-001: chunks that fill a cache in a loop that evaluates nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.evaluation import evaluation_of
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.facts.facts import CallFact, LocalCall, ProjectCall
from embercoach.analysis.syntax.trees import (
    dotted,
    names_below,
    small_statements,
    target_names,
    walk,
)
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import Instance, LibraryObject, Unknown
from embercoach.checks.arrays.lazy.growth import path_of
from embercoach.checks.arrays.lazy.lazy_loops import MESSAGE, is_traced, may_ask
from embercoach.checks.arrays.lazy.step_loops import calls_below, is_long, walks_short_list
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module


@check("LAZY-001")
def unevaluated_chunks(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``model(prompt[:, start:stop], cache=cache)`` for each chunk of a prompt."""
    if "cache" not in module.source:
        return
    seen: set[int] = set()
    for fact in facts:
        if not fact.place.loops or not isinstance(fact, (CallFact, LocalCall, ProjectCall)):
            continue
        cache = None if id(fact.node) in seen else _cache_of(fact)
        if cache is None or is_traced(fact.place, module) or not may_ask(fact.place, module):
            continue
        seen.add(id(fact.node))
        for loop in layout_of(module, fact.place.function).loops(fact.place.statement):
            if is_long(loop) and _fills_cache(fact, cache, loop, module):
                yield Report.at(
                    fact,
                    "LAZY-001",
                    message=MESSAGE.format(cache),
                    help=f"Call `mx.eval([layer.state for layer in {cache}])` in each iteration",
                )
                break


def _cache_of(fact: CallFact | LocalCall | ProjectCall) -> str | None:
    """The cache that a model is called with."""
    if isinstance(fact, CallFact):
        if not isinstance(fact.callee, (Unknown, Instance, LibraryObject)):
            return None
    elif fact.function.cls is None or not is_layer(fact.function.cls):
        return None
    for argument in fact.node.args:
        path = dotted(argument.value)
        if path is not None and "cache" in path.rpartition(".")[2].lower():
            return path
    return None


def _fills_cache(
    fact: CallFact | LocalCall | ProjectCall,
    cache: str,
    loop: cst.For | cst.While,
    module: Module,
) -> bool:
    """Return whether each iteration gives a model a chunk, and nothing evaluates the cache."""
    evaluation, statement = evaluation_of(module), fact.place.statement
    if walks_short_list(loop, fact.place.function, module) or evaluation.evaluates(loop.body):
        return False
    varying = _bound_in(loop)
    if cache.partition(".")[0] in _of_element(loop):
        return False
    is_older = cache.partition(".")[0] not in varying
    is_element = is_older and _takes_element(fact, loop)
    if not is_element and not _takes_chunk(fact.node, varying, loop):
        return False
    targets = statement.targets if isinstance(statement, cst.Assign) else ()
    results = {name for target in targets for name in target_names(target.target)}
    kept = {cache.partition(".")[0], *results}
    for call in calls_below(loop.body):
        given = {name for argument in call.args for name in names_below(argument.value)}
        # A function that nothing is known of may evaluate the cache, or the result.
        is_known = evaluation.effect(call) == "lazy" or evaluation.local_call(call) is not None
        if call is not fact.node and not is_known and not kept.isdisjoint(given):
            return False
    return True


def _of_element(loop: cst.For | cst.While) -> set[str]:
    """The names of a loop's element and of its parts: ``cache = entry["cache"]``."""
    targets = set(target_names(loop.target)) if isinstance(loop, cst.For) else set()
    parts = {
        target.target.value
        for statement in small_statements(loop.body)
        if isinstance(statement, cst.Assign) and _root(statement.value) in targets
        for target in statement.targets
        if isinstance(target.target, cst.Name)
    }
    return targets | parts


def _root(node: cst.BaseExpression) -> str | None:
    """The name that a path of attributes, indices and ``.get(key)`` starts from."""
    path = path_of(node)
    return None if path is None else path.partition(".")[0]


def _bound_in(loop: cst.For | cst.While) -> set[str]:
    """The names that an iteration binds."""
    names = set(target_names(loop.target)) if isinstance(loop, cst.For) else set()
    for statement in small_statements(loop.body):
        if isinstance(statement, cst.Assign):
            names.update(n for target in statement.targets for n in target_names(target.target))
        elif isinstance(statement, cst.AugAssign):
            names.update(target_names(statement.target))
    return names


def _takes_element(fact: CallFact | LocalCall | ProjectCall, loop: cst.For | cst.While) -> bool:
    """Test for ``model(c, cache)`` with each ``c`` of a loop, of which only the cache is kept."""
    statement = fact.place.statement
    if not isinstance(statement, cst.Expr) or statement.value is not fact.node:
        return False
    elements = set(target_names(loop.target)) if isinstance(loop, cst.For) else set()
    return any(dotted(argument.value) in elements for argument in fact.node.args)


def _takes_chunk(call: cst.Call, varying: set[str], loop: cst.For | cst.While) -> bool:
    """Test whether a call gets a slice whose bounds, or whose array, change with the loop."""
    given = {name for argument in call.args for name in names_below(argument.value)} & varying
    sources: list[cst.CSTNode] = [argument.value for argument in call.args]
    for statement in small_statements(loop.body):
        if isinstance(statement, cst.Assign):
            bound = {n for target in statement.targets for n in target_names(target.target)}
            if bound & given:
                sources.append(statement.value)
    return any(
        isinstance(node, cst.Subscript)
        and any(isinstance(element.slice, cst.Slice) for element in node.slice)
        and not varying.isdisjoint(names_below(node))
        for source in sources
        for node in walk(source)
    )
