"""LAZY-001: attributes that a method accumulates, called in a loop that evaluates neither."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.facts import BinaryFact, CallFact
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.joins import as_array
from embercoach.checks.arrays.lazy.lazy_loops import HELP, is_traced, may_ask
from embercoach.checks.arrays.lazy.step_loops import is_long, is_step, lineage_of, runs_model
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Fact, LocalCall
    from embercoach.analysis.project.module import Module


class Accumulated(NamedTuple):
    """An attribute that a method adds to: a sum, a list, or a tree of averages."""

    name: str
    kind: Literal["sum", "list", "tree"]


@check("LAZY-001")
def growing_attribute(fact: LocalCall, module: Module) -> Iterator[Report]:
    """``ema.update(model)`` in a training loop, where ``update`` averages into ``self.shadow``."""
    func, place = fact.node.func, fact.place
    if not place.loops or not fact.is_bound or not isinstance(func, cst.Attribute):
        return
    added = accumulated(fact.function, module)
    path = dotted(func.value)
    if added is None or path is None or is_traced(place, module) or not may_ask(place, module):
        return
    for loop in layout_of(module, place.function).loops(place.statement):
        if not _is_older(path, loop, fact, module):
            return
        if is_long(loop) and _grows(added, path, loop, fact, module):
            break
    else:
        return
    yield Report.at(
        fact,
        "LAZY-001",
        message=f"`{added.name}` is not evaluated in the loop: its graph grows in every iteration",
        help=HELP.format(f"{path}.{added.name}"),
    )


def _is_older(path: str, loop: cst.For | cst.While, fact: LocalCall, module: Module) -> bool:
    """Return whether an object has been made before a loop."""
    function = fact.place.function
    reaching, layout = scope_of(module, function).reaching, layout_of(module, function)
    name = path.partition(".")[0]
    bindings = (reaching.before(fact.place.statement, name) if reaching else None) or ()
    return not any(b.statement is loop or layout.is_inside(b.statement, loop) for b in bindings)


def _grows(
    added: Accumulated,
    path: str,
    loop: cst.For | cst.While,
    fact: LocalCall,
    module: Module,
) -> bool:
    """Return whether a loop over data evaluates neither the attribute nor what is added to it."""
    names = {path}
    lineages = []
    if added.kind != "tree":  # a tree of averages keeps the weights of all steps, evaluated or not
        for argument in fact.node.args:
            lineages.append(lineage_of(argument.value, fact.place, loop, module))
            names |= lineages[-1].names
    if evaluation_of(module).may_evaluate(loop.body.body, names):
        return False
    if is_step(loop, module, by_evaluation=added.kind != "list"):
        return True
    return any(
        runs_model(lineage, loop, module) and (added.kind == "sum" or lineage.is_reduced)
        for lineage in lineages
    )


@lru_cache(maxsize=32)
def accumulated(method: FunctionInfo, module: Module) -> Accumulated | None:
    """The attribute that a method adds arrays to, if it adds to one."""
    if not method.is_method or not method.parameters or method.cls is None or is_layer(method.cls):
        return None
    owner = method.parameters[0].name
    for fact in module.facts_of(method):
        found = _accumulation(fact)
        holder, _, name = found[0].partition(".") if found is not None else ("", "", "")
        if found is not None and holder == owner and name and "." not in name:
            return Accumulated(name, found[1])
    return None


def _accumulation(fact: Fact) -> tuple[str, Literal["sum", "list", "tree"]] | None:
    """The path that a fact adds arrays to, and in which way."""
    statement = fact.place.statement
    target = None
    if isinstance(statement, cst.Assign) and statement.value is fact.node:
        target = dotted(statement.targets[0].target)
    if isinstance(fact, BinaryFact):
        if fact.operator not in ("+", "-"):
            return None
        left, right = fact.left, fact.right
        if fact.in_place:
            path = dotted(left.node)
            return (path, "sum") if path is not None and right.array is not None else None
        for known, other in ((left, right), (right, left)):
            if target is not None and _is_path(known.node, target) and other.array is not None:
                return target, "sum"
    if not isinstance(fact, CallFact):
        return None
    if fact.symbol == "mlx.utils.tree_map" and target is not None:
        others = (dotted(argument.node) for argument in fact.arguments[1:])
        return (target, "tree") if target in others else None
    first = fact.positional(0)
    is_append = isinstance(fact.node.func, cst.Attribute) and fact.node.func.attr.value == "append"
    if is_append and first is not None and fact.receiver_node is not None:
        path = dotted(fact.receiver_node)
        return (path, "list") if path is not None and as_array(first.value) is not None else None
    return None


def _is_path(node: cst.BaseExpression, path: str) -> bool:
    """Return whether an expression is a path, or a number times it."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        return _is_path(node.left, path) or _is_path(node.right, path)
    return dotted(node) == path
