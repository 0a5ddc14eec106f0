"""LAZY-001 and LAZY-002: loops whose graph grows, as nothing evaluates it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import display, scope_of
from embercoach.analysis.syntax.trees import dotted, names_below
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.joins import as_array
from embercoach.checks.arrays.lazy.step_loops import (
    descends,
    gradient_names,
    is_counted,
    is_long,
    is_private,
    is_step,
    is_update,
    lineage_of,
    runs_model,
    updates,
    walks_short_list,
)
from embercoach.checks.registry import VALUE, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import BinaryFact, CallFact, FactPlace, LocalCall
    from embercoach.analysis.project.module import Module

#: Iterations from which on any graph of all of them is large.
_MANY = 1_000
#: Accumulators and updates of a loop that are looked at: each takes walks of its body.
_MOST_QUESTIONS = 24
HELP = "Evaluate it in each iteration, in the `mx.eval()` of the parameters: add `{}`"


@check("LAZY-001")
def growing_sum(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``total += loss`` and ``total = total + loss`` in a loop that evaluates neither."""
    if not fact.place.loops or fact.place.loop is None or fact.operator not in ("+", "-"):
        return
    statement = fact.place.statement
    left, right = fact.left, fact.right
    if fact.in_place:
        target, added = left.node, right
    elif isinstance(statement, cst.Assign) and statement.value is fact.node:
        target = statement.targets[0].target
        name = _name(target) or ""
        if not any(_mentions(side.node, name) for side in (left, right)):
            return
        added = right if _mentions(left.node, name) else left
    else:
        return
    if added.array is not None:
        yield from _unevaluated(fact, fact.place, module, target, added.node)


@check("LAZY-001", of=(".append",))
def growing_list(fact: CallFact, module: Module) -> Iterator[Report]:
    """``losses.append(loss)`` in a loop that evaluates neither."""
    argument = fact.positional(0)
    if not fact.place.loops or fact.place.loop is None or fact.receiver_node is None:
        return
    array = None if argument is None else as_array(argument.value)
    if argument is not None and array is not None and not array.evaluated:
        yield from _unevaluated(fact, fact.place, module, fact.receiver_node, argument.node)


def _unevaluated(
    fact: BinaryFact | CallFact,
    place: FactPlace,
    module: Module,
    target: cst.BaseExpression,
    added: cst.BaseExpression,
) -> Iterator[Report]:
    name = _name(target)
    if name is None or is_traced(place, module) or not may_ask(place, module):
        return
    for loop in layout_of(module, place.function).loops(place.statement):
        if not _is_kept(name, loop, place, module):
            return
        if walks_short_list(loop, place.function, module):
            continue
        if is_long(loop) and _grows(name, added, loop, place, module):
            break
    else:
        return
    if _is_captured(name, place, module):
        return
    yield Report.at(
        fact,
        "LAZY-001",
        message=f"`{name}` is not evaluated in the loop: its graph grows in every iteration",
        help=HELP.format(name),
    )


@check("LAZY-002", of=(".", VALUE))
def unevaluated_update(fact: CallFact, module: Module) -> Iterator[Report]:
    """``optimizer.update(model, gradients)`` in a loop that evaluates nothing."""
    if fact.place.loops and fact.place.loop is not None and is_update(fact):
        owner = fact.node.func.value if isinstance(fact.node.func, cst.Attribute) else None
        used = [owner, *(argument.node for argument in fact.arguments)]
        paths = {path for node in used if node is not None and (path := dotted(node)) is not None}
        yield from _without_evaluation(fact, paths, module)


@check("LAZY-002")
def unevaluated_step(fact: LocalCall, module: Module) -> Iterator[Report]:
    """The same, where a function of the file updates."""
    if fact.place.loops and fact.place.loop is not None and updates(fact.function, module):
        used = [argument.value for argument in fact.node.args]
        if fact.is_bound and isinstance(fact.node.func, cst.Attribute):
            used.append(fact.node.func.value)
        paths = {path for node in used if (path := dotted(node)) is not None}
        yield from _without_evaluation(fact, paths, module)


def _without_evaluation(
    fact: CallFact | LocalCall, paths: set[str], module: Module
) -> Iterator[Report]:
    place = fact.place
    if is_traced(place, module) or not may_ask(place, module):
        return
    loops = layout_of(module, place.function).loops(place.statement)
    loop = next((around for around in loops if is_long(around)), None)
    if loop is None or evaluation_of(module).evaluates(loop.body):
        return
    names = paths | gradient_names(loop, module)
    if not evaluation_of(module).may_evaluate(loop.body.body, names):
        yield Report.at(
            fact,
            "LAZY-002",
            message="the loop updates parameters and evaluates nothing: its graph grows",
            help="End each iteration with `mx.eval(model.parameters(), optimizer.state)`",
        )


@check("LAZY-001", of=("mlx.utils.tree_map",))
def growing_tree(fact: CallFact, module: Module) -> Iterator[Report]:
    """``ema = tree_map(f, ema, model.parameters())`` in a loop that evaluates other arrays."""
    statement = fact.place.statement
    if not fact.place.loops or not isinstance(statement, cst.Assign):
        return
    target = statement.targets[0].target
    others = [argument.node for argument in fact.arguments[1:]]
    if statement.value is fact.node and _name(target) in {_name(node) for node in others}:
        yield from _unevaluated(fact, fact.place, module, target, others[0])


@check("LAZY-001", of=("mlx.core.concatenate", "mlx.core.concat"))
def growing_concatenation(fact: CallFact, module: Module) -> Iterator[Report]:
    """``outputs = mx.concatenate([outputs, y])`` in a loop that evaluates other arrays."""
    statement, parts = fact.place.statement, fact.positional(0)
    if not fact.place.loops or not isinstance(statement, cst.Assign) or parts is None:
        return
    joined = display(parts.node) or []
    target = statement.targets[0].target
    others = [node for node in joined if _name(node) != _name(target)]
    if statement.value is fact.node and others and len(others) < len(joined):
        yield from _unevaluated(fact, fact.place, module, target, others[0])


def _mentions(node: cst.CSTNode, path: str) -> bool:
    last = path.rpartition(".")[2]
    return last in names_below(node)


def _name(target: cst.CSTNode) -> str | None:
    """The variable that accumulates: ``total``, ``self.total``, ``totals`` in ``totals[name]``."""
    while isinstance(target, cst.Subscript):
        target = target.value
    return dotted(target)


def may_ask(place: FactPlace, module: Module) -> bool:
    """Count a question about a loop; return False if there have been too many."""
    asked = evaluation_of(module).asked
    asked[place.loop] += 1
    return asked[place.loop] <= _MOST_QUESTIONS


def is_traced(place: FactPlace, module: Module) -> bool:
    """Return whether the loop becomes one graph on purpose, or is a test's."""
    function = place.function
    if function is None:
        return module.is_test
    if function.compiled or function.differentiated or function.vmapped or function.is_test:
        return True
    return function.cls is not None and is_layer(function.cls)


def _is_captured(name: str, place: FactPlace, module: Module) -> bool:
    """Test whether an inner function reads the variable, and may evaluate it."""
    function = place.function
    inner = [] if function is None else [f for f in module.functions if f.outer is function]
    return any(name in names_below(info.node.body) for info in inner)


def _is_kept(name: str, loop: cst.For | cst.While, place: FactPlace, module: Module) -> bool:
    """Test whether the variable reaches the next iteration of a loop."""
    if "." in name:
        return is_private(name, loop, place, module)
    reaching = scope_of(module, place.function).reaching
    bindings = (reaching.before(place.statement, name) if reaching else None) or ()
    layout = layout_of(module, place.function)
    inside = [b for b in bindings if b.statement is loop or layout.is_inside(b.statement, loop)]
    return len(inside) < len(bindings) and all(b.statement is place.statement for b in inside)


def _grows(
    name: str,
    added: cst.BaseExpression,
    loop: cst.For | cst.While,
    place: FactPlace,
    module: Module,
) -> bool:
    """Test whether a loop over data evaluates neither the variable nor what is added to it."""
    lineage = lineage_of(added, place, loop, module)
    evaluation = evaluation_of(module)
    if evaluation.may_evaluate(loop.body.body, {name, *lineage.names}):
        return False
    is_sum = not isinstance(place.statement, cst.Expr)
    if is_step(loop, module, by_evaluation=is_sum) or (is_sum and descends(lineage, loop, module)):
        return True
    if not (is_sum or lineage.is_reduced):
        return False  # parts of a result, such as chunks
    levels = layout_of(module, place.function).outward(loop)
    later = [statement for v in levels for statement in v.statements[v.position + 1 :]]
    certainly = evaluation_of(module, is_certain=True)
    # A state that each iteration computes from the last one, as a sampler does, holds no data.
    is_state = is_sum and _mentions(added, name)
    grows = is_counted(loop, _MANY) or (not is_state and runs_model(lineage, loop, module))
    return grows and certainly.may_evaluate(later, {name})
