"""Loops whose graph grows with what they accumulate: the conditions of LAZY-001."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.facts import calls_by_function
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import made_in_init, scope_of
from embercoach.analysis.shapes.node_shapes import shape_at
from embercoach.analysis.syntax.trees import (
    head_of,
    names_below,
    small_statements,
    target_names,
    walk,
)
from embercoach.analysis.values.joins import as_array
from embercoach.checks.arrays.lazy.loop_lengths import is_counted
from embercoach.checks.arrays.lazy.step_loops import (
    descends,
    differentiates,
    is_step,
    joined,
    lineage_of,
    runs_model,
    runs_model_below,
    synchronizes,
    yields_losses,
)

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.checks.arrays.lazy.accumulation import Accumulation

    Statement = cst.BaseStatement | cst.BaseSmallStatement

#: Iterations from which on any graph of all of them is large.
_MANY = 1_000
#: Calls of a function that are looked at for what becomes of its result.
_MOST_CALLERS = 8


def grows(
    found: Accumulation,
    loop: cst.For | cst.While,
    place: FactPlace,
    module: Module,
    *,
    is_state: bool = False,
) -> bool:
    """Return whether a loop over data evaluates neither the accumulator nor what is added.

    With ``is_state``, the accumulator is an attribute that outlives the function.
    """
    evaluation, body = evaluation_of(module), [*loop.body.body]
    if found.kind == "tree" and not found.in_place:
        body = each_iteration(body, module)
    if evaluation.may_evaluate(body, {found.path}):
        return False
    statement, function = place.statement, place.function
    lineage = joined([lineage_of(n, statement, function, loop, module) for n in found.added])
    # A tree of averages keeps the weights of all steps, evaluated or not.
    keeps = found.kind == "tree" or _keeps_parts(found, place, module)
    names = {found.path, *lineage.names}
    if not keeps and (lineage.is_evaluated or evaluation.may_evaluate(body, names)):
        return False
    is_list = found.kind == "list"
    if is_step(loop, module, by_evaluation=not is_list):
        return True
    if not is_list and (is_state or keeps) and synchronizes(loop, module):
        return True
    if is_state and found.kind == "sum" and _takes_host_data(found, lineage.names, loop, module):
        return True
    if not is_list and (differentiates(lineage, loop, module) or descends(lineage, loop, module)):
        return True
    if is_list and not lineage.is_reduced:
        return False  # parts of a result, such as chunks
    # A state that each iteration computes from the last one, as a sampler does, holds no data.
    last = found.path.rpartition(".")[2]
    is_chain = not is_list and any(last in names_below(node) for node in found.added)
    runs = not is_chain and (runs_model(lineage, loop, module) or _adds_losses(found, loop, module))
    if not runs and found.inner and found.function and isinstance(loop, cst.For):
        added = found.inner[1]
        runs = runs_model_below(found.node, added, found.function, loop, module)
    if not runs and not is_counted(loop, _MANY):
        return False
    return is_state or _is_evaluated_later(found.path, loop, place, module)


def each_iteration(body: list[Statement], module: Module) -> list[Statement]:
    """The statements of a loop without the step that some micro-batches end with.

    Until then, the sum of their gradients keeps the graphs of all of them.
    """
    return [
        statement
        for statement in body
        if not isinstance(statement, cst.If)
        or statement.orelse is not None
        or not is_step(statement, module, by_evaluation=False)
    ]


def _takes_host_data(
    found: Accumulation, inside: frozenset[str], loop: cst.For | cst.While, module: Module
) -> bool:
    """Test for ``mx.array(env.step())`` in what is added: each iteration has other data."""
    names = {found.path, *inside, *(n for node in found.added for n in names_below(node))}
    bound = (s for s in small_statements(loop.body) if isinstance(s, cst.Assign))
    made = [
        s.value
        for s in bound
        if names.intersection(n for t in s.targets for n in target_names(t.target))
    ]
    data = {*target_names(loop.target)} if isinstance(loop, cst.For) else set()
    calls = evaluation_of(module).calls
    for node in (inner for value in (*found.added, *made) for inner in walk(value)):
        fact = calls.get(node)
        if fact is not None and fact.symbol == "mlx.core.array" and fact.node.args:
            first = fact.node.args[0].value
            if not data.isdisjoint(names_below(first)) or any(
                isinstance(n, cst.Call) for n in walk(first)
            ):
                return True
    return False


def _adds_losses(found: Accumulation, loop: cst.For | cst.While, module: Module) -> bool:
    """Test whether a generator yields what is added: losses of a model."""
    targets = set(target_names(loop.target)) if isinstance(loop, cst.For) else set()
    names = {name for node in found.added for name in names_below(node)}
    return not targets.isdisjoint(names) and yields_losses(loop, module)


def _keeps_parts(found: Accumulation, place: FactPlace, module: Module) -> bool:
    """Test whether a sum starts as a vector: it keeps each one that is added."""
    if found.kind != "sum":
        return False
    calls = evaluation_of(module).calls
    for node in _starts(found, found.function or place.function, module):
        call = calls.get(node)
        array = None if call is None else as_array(call.result)
        if array is not None and array.literal and shape_at(module, node):
            return True
    return False


def _starts(
    found: Accumulation, function: FunctionInfo | None, module: Module
) -> list[cst.BaseExpression]:
    """The expressions that an accumulator starts from."""
    owner, _, name = found.path.rpartition(".")
    if owner:
        classes = {f.cls for f in module.functions if f.cls and name in f.cls.setters}
        made = made_in_init(classes.pop(), name) if len(classes) == 1 else None
        return [] if made is None else [made]
    while function is not None and name in (*function.nonlocal_names, *function.global_names):
        function = function.outer
    bindings = scope_of(module, function).reaching.bindings.get(name, [])
    return [b.value for b in bindings if b.kind == "assigned" and b.value is not None]


def _is_evaluated_later(
    path: str, loop: cst.For | cst.While, place: FactPlace, module: Module
) -> bool:
    """Return whether what a loop accumulates is certainly evaluated after it, or by a caller."""
    layout = layout_of(module, place.function)
    levels = layout.outward(loop)
    later = [statement for v in levels for statement in v.statements[v.position + 1 :]]
    certainly, names = evaluation_of(module, is_certain=True), {path}
    if certainly.may_evaluate(later, names):
        return True
    returned = [s for s in later if isinstance(s, cst.Return) and s.value is not None]
    if not any(certainly.use(s.value, names) == "derived" for s in returned if s.value):
        return False
    return _is_result_evaluated(place.function, module)


def is_consumed(
    node: cst.CSTNode, statement: cst.CSTNode, function: FunctionInfo | None, module: Module
) -> bool:
    """Return whether arrays in an expression are certainly evaluated: here, later, by a caller."""
    certainly = evaluation_of(module, is_certain=True)
    for outer in head_of(statement):
        is_evaluation = isinstance(outer, cst.FormattedString) or (
            isinstance(outer, cst.Call) and certainly.effect(outer) == "evaluates"
        )
        if is_evaluation and outer is not node and any(inner is node for inner in walk(outer)):
            return True
    if isinstance(statement, cst.Return):
        return _is_result_evaluated(function, module)
    if not isinstance(statement, cst.Assign):
        return False
    names = {name for target in statement.targets for name in target_names(target.target)}
    levels = layout_of(module, function).outward(statement)
    later = [s for level in levels for s in level.statements[level.position + 1 :]]
    if certainly.may_evaluate(later, names):
        return True
    returned = [s.value for s in later if isinstance(s, cst.Return) and s.value is not None]
    if not any(certainly.use(value, names) == "derived" for value in returned):
        return False
    return _is_result_evaluated(function, module)


def _is_result_evaluated(function: FunctionInfo | None, module: Module) -> bool:
    """Test whether what a function returns is evaluated, and not differentiated."""
    if function is None or isinstance(function.node, cst.Lambda):
        return False
    if any(_is_inference(s) for s in small_statements(function.node.body)):
        return True
    for call in calls_by_function(module).get(function, ())[:_MOST_CALLERS]:
        caller = call.place.function
        if caller is not function and is_consumed(call.node, call.place.statement, caller, module):
            return True
    return False


def _is_inference(statement: cst.BaseSmallStatement) -> bool:
    """Test whether a statement is ``model.eval()``: what follows is not differentiated."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    func = call.func if isinstance(call, cst.Call) and not call.args else None
    return isinstance(func, cst.Attribute) and func.attr.value == "eval"
