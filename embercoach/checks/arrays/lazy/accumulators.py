"""LAZY-001: functions that add to an accumulator, called in a loop that evaluates neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.evaluation import evaluation_of, is_plainly_lazy
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.scopes import by_parameter, passed_with_owner, scope_of
from embercoach.analysis.facts.facts import LocalCall
from embercoach.analysis.syntax.trees import (
    SCOPES,
    dotted,
    head_of,
    names_below,
    small_statements,
    target_names,
    walk,
)
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import holds_arrays
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.arrays.lazy.growth import (
    Accumulation,
    accumulation_by_text,
    accumulations,
    each_iteration,
    grows,
    is_consumed,
    path_of,
)
from embercoach.checks.arrays.lazy.lazy_loops import (
    MESSAGE,
    help_of,
    is_short_loop,
    is_traced,
    may_ask,
)
from embercoach.checks.arrays.lazy.step_loops import (
    is_long,
    is_older,
    is_short,
    lineage_of,
    runs_model,
)
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Fact, FactPlace, ProjectCall
    from embercoach.analysis.project.module import Module

_COMPREHENSIONS = (cst.ListComp, cst.GeneratorExp)


@check("LAZY-001")
def losses_at_once(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``sum(loss_fn(model, x) for x in batches)``."""
    seen: set[int] = set()
    for fact in facts:
        place = fact.place
        if not place.loop_names or id(place.statement) in seen:
            continue
        seen.add(id(place.statement))
        for node in head_of(place.statement):
            if type(node) in _COMPREHENSIONS and _keeps_graphs(node, place, module):  # type: ignore[arg-type]
                yield Report.at(
                    fact,
                    "LAZY-001",
                    node=node,
                    message="no element is evaluated: the graphs of all batches are kept",
                    help="Evaluate each element: `.item()`, or a loop with `mx.eval()`",
                )


def _keeps_graphs(node: cst.ListComp | cst.GeneratorExp, place: FactPlace, module: Module) -> bool:
    if is_traced(place, module) or not may_ask(place, module):
        return False
    loop, statement, function = node.for_in, place.statement, place.function
    targets = set(target_names(loop.target))
    if is_short(loop.iter, function, module):
        return False
    if any(isinstance(n, cst.Call) and dotted(n.func) in targets for n in walk(node.elt, SCOPES)):
        return False  # over layers
    lineage = lineage_of(node.elt, statement, function, loop, module)
    if not lineage.is_reduced or lineage.is_evaluated or not runs_model(lineage, loop, module):
        return False
    return is_consumed(node, statement, function, module)


#: Functions that are followed from a loop, and additions of one function.
_MOST_CALLS, _MOST_ADDED = 3, 8
_ADDS = "each call adds to it here"


@check("LAZY-001")
def growing_attribute(fact: LocalCall, module: Module) -> Iterator[Report]:
    """``ema.update(model)`` in a training loop, where ``update`` averages into ``self.shadow``."""
    if fact.place.loops and not is_traced(fact.place, module):
        added = accumulated(fact.function, module)
        yield from _reports(_of_call(fact, added), fact, module)


@check("LAZY-001")
def growing_elsewhere(fact: ProjectCall, module: Module) -> Iterator[Report]:
    """The same, where the function is one of another file."""
    if not fact.place.loops or is_traced(fact.place, module) or not is_plainly_lazy(fact.function):
        return
    found = accumulated_by_text(fact.function)
    if not found:
        return
    given = {item.node for _, item in _additions_of(fact.function, _array_parameters(fact))}
    added = [item for item in found if item.kind == "tree" or item.node in given]  # of weights
    yield from _reports(_of_call(fact, added), fact, module)


def _array_parameters(call: ProjectCall) -> set[str]:
    """The parameters that a call passes arrays for."""
    pairs = [(argument.keyword, argument.node) for argument in call.arguments]
    passed = by_parameter(call.function, pairs, is_bound=call.is_bound)
    arrays = {id(argument.node) for argument in call.arguments if holds_arrays(argument.value)}
    keywords = next((p.name for p in call.function.parameters if p.star == "**"), None)
    own = {parameter.name for parameter in call.function.parameters}
    found = (
        name if name in own else keywords for name, node in passed.items() if id(node) in arrays
    )
    return {name for name in found if name is not None}


def _reports(
    accumulated: list[Accumulation], fact: LocalCall | ProjectCall, module: Module
) -> Iterator[Report]:
    place = fact.place
    for found in accumulated:
        if not may_ask(place, module):
            return
        for loop in layout_of(module, place.function).loops(place.statement):
            if not _is_kept(found, loop, fact, module):
                break
            if is_short_loop(loop, place, module):
                continue
            if is_long(loop) and grows(found, loop, place, module, is_state=True):
                yield Report.at(
                    fact,
                    "LAZY-001",
                    message=MESSAGE.format(found.path),
                    help=help_of(found.path, place, module),
                    related=() if found.inner is None else (Stop(*found.inner, _ADDS),),
                )
                return


def _is_kept(
    found: Accumulation,
    loop: cst.For | cst.While,
    fact: LocalCall | ProjectCall,
    module: Module,
) -> bool:
    """Return whether what a function adds to is older than a loop, and nothing there resets it."""
    if not is_older(found.path, loop, fact.place, module):
        return False
    owner, _, name = found.path.rpartition(".")
    for statement in small_statements(loop.body):
        targets = statement.targets if isinstance(statement, cst.Assign) else ()
        if any(dotted(target.target) == found.path for target in targets):
            return False
    for node in _run_each_time(found, loop, module):
        if not isinstance(node, cst.Call) or node is fact.node or not owner:
            continue
        if isinstance(node.func, cst.Attribute) and dotted(node.func.value) == owner:
            evaluation = evaluation_of(module)
            local = evaluation.local_call(node) or evaluation.elsewhere.get(node)
            cls = fact.function.cls
            is_setter = local is None and cls is not None and node.func.attr.value in cls.setters
            if local is None and not is_setter:
                return False
            other = None if local is None or local.function is fact.function else local.function
            if other is not None and name in names_below(other.node.body):
                return False
    return True


def _run_each_time(
    found: Accumulation, loop: cst.For | cst.While, module: Module
) -> Iterator[cst.CSTNode]:
    """The nodes of a loop, without the step that takes a sum of gradients after some of them."""
    body: list[cst.BaseStatement | cst.BaseSmallStatement] = [*loop.body.body]
    always = each_iteration(body, module) if found.kind == "tree" else body
    for statement in body:
        is_kept = statement in always
        node = statement.test if isinstance(statement, cst.If) and not is_kept else statement
        yield from walk(node, (cst.ClassDef,))


def _of_call(call: LocalCall | ProjectCall, accumulated: list[Accumulation]) -> list[Accumulation]:
    """The additions of a call, by the paths of the caller."""
    function, passed = call.function, passed_with_owner(call)
    own = {parameter.name for parameter in function.parameters}
    given = [argument.value for argument in call.node.args]
    found: list[Accumulation] = []
    for inner in accumulated:
        root, _, rest = inner.path.partition(".")
        path: str | None = inner.path
        if root in own:
            path = _path_in_caller(passed.get(root), rest)
        if path is not None:
            added = tuple(node for node in given if path_of(node) != path)
            found.append(inner._replace(path=path, added=added, node=call.node, function=function))
    return found


def _path_in_caller(owner: cst.BaseExpression | None, rest: str) -> str | None:
    """The path of ``self.REST`` where a method is called; for ``totals[name]``, ``totals``."""
    if owner is None:
        return None
    path = dotted(owner)
    return path_of(owner) if path is None or not rest else f"{path}.{rest}"


@kept_for_file
def accumulated(function: FunctionInfo, module: Module, depth: int = 0) -> list[Accumulation]:
    """The additions of a function to attributes of its parameters and to outer variables."""
    if function.cls is not None and is_layer(function.cls):
        return []
    if isinstance(function.node, cst.Lambda) or function.name == "__init__":
        return []
    own = {parameter.name for parameter in function.parameters}
    outer = {*function.nonlocal_names, *function.global_names}
    found = [*_own_additions(function, module)]
    if depth < _MOST_CALLS:
        calls = (fact for fact in module.facts_of(function) if isinstance(fact, LocalCall))
        for call in calls:
            found += _of_call(call, accumulated(call.function, module, depth + 1))
    return [
        item
        for item in found
        if (item.path.partition(".")[0] in own and (item.in_place or "." in item.path))
        or item.path in outer
        or (item.kind == "list" and _is_outer(item.path, function, module))
    ][:_MOST_ADDED]


@kept_for_file
def _own_additions(function: FunctionInfo, module: Module) -> tuple[Accumulation, ...]:
    """The additions of a function's own statements."""
    places = {id(fact.place.statement): fact.place for fact in module.facts_of(function)}
    found = [
        item._replace(inner=(item.node, place.statement))
        for place in places.values()
        for item in accumulations(place, module)
    ]
    return (*found, *_kept_keywords(function))


def _kept_keywords(function: FunctionInfo) -> list[Accumulation]:
    """The ``self.rows.append(row)`` of ``**row``, and what is added of its values."""
    keywords = {parameter.name for parameter in function.parameters if parameter.star == "**"}
    if not keywords or isinstance(function.node, cst.Lambda):
        return []
    return [
        item._replace(in_place=item.kind == "list", inner=(item.node, statement))
        for statement, item in _additions_of(function, keywords)
    ]


def _additions_of(
    function: FunctionInfo, names: set[str]
) -> Iterator[tuple[cst.CSTNode, Accumulation]]:
    """Yield what the text of a function adds of what it is given under some names."""
    derived = set(names)
    for node in walk(function.node.body):  # in order: a name is bound before it is used
        value = node.iter if isinstance(node, cst.For) else getattr(node, "value", None)
        targets = [node.target] if isinstance(node, cst.For) else []
        if isinstance(node, cst.Assign):
            targets = [target.target for target in node.targets]
        if targets and value is not None and not derived.isdisjoint(names_below(value)):
            derived.update(name for target in targets for name in target_names(target))
    for statement in small_statements(function.node.body):
        item = accumulation_by_text(statement)
        if item is not None and not derived.isdisjoint(
            n for a in item.added for n in names_below(a)
        ):
            yield statement, item


@kept_for_file
def accumulated_by_text(function: FunctionInfo) -> list[Accumulation]:
    """The additions of a function of another file to attributes of its parameters."""
    own = {parameter.name for parameter in function.parameters}
    if isinstance(function.node, cst.Lambda) or function.name == "__init__":
        return []
    if function.cls is not None and is_layer(function.cls):
        return []
    found: list[Accumulation] = []
    for statement in small_statements(function.node.body):
        item = accumulation_by_text(statement)
        if item is None or item.path.partition(".")[0] not in own:
            continue
        if "." in item.path or (item.kind == "tree" and item.in_place):
            found.append(item)
    return found[:_MOST_ADDED]


def _is_outer(path: str, function: FunctionInfo, module: Module) -> bool:
    """Test whether a list is one of a scope around."""
    if function.outer is None or "." in path:
        return False
    return not scope_of(module, function).binds(path)
