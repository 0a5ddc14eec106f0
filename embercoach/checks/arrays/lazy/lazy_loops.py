"""LAZY-001, LAZY-002 and LAZY-006: loops whose graph grows, as nothing evaluates it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contexts import evaluated_by
from embercoach.analysis.dataflow.evaluation import evaluation_of
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.syntax.trees import (
    dotted,
    names_below,
    small_statements,
    target_names,
    walk,
)
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import BoundMember, LibraryObject
from embercoach.checks.arrays.lazy.growth import accumulations, grows
from embercoach.checks.arrays.lazy.step_loops import (
    counts_by_setting,
    gradient_names,
    is_long,
    is_private,
    is_step,
    is_update,
    updates,
    walks_short_list,
)
from embercoach.checks.registry import VALUE, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.dataflow.layout import Layout
    from embercoach.analysis.dataflow.reaching import Binding
    from embercoach.analysis.facts.facts import CallFact, Fact, FactPlace, LocalCall
    from embercoach.analysis.project.module import Module
    from embercoach.checks.arrays.lazy.growth import Accumulation

#: Accumulators and updates of a loop that are looked at: each takes walks of its body.
_MOST_QUESTIONS = 24
MESSAGE = "`{}` is not evaluated in the loop: its graph grows in every iteration"


@check("LAZY-001")
def growing_array(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``total += loss`` or ``losses.append(loss)`` in a loop that evaluates neither."""
    seen: set[int] = set()
    for fact in facts:
        place = fact.place
        if not place.loops or place.loop is None or id(place.statement) in seen:
            continue
        seen.add(id(place.statement))
        for found in accumulations(place, module):
            if _is_unevaluated(found, place, module):
                yield Report.at(
                    fact,
                    "LAZY-001",
                    node=found.node,
                    message=MESSAGE.format(found.path),
                    help=help_of(found.path, place, module),
                )


def help_of(path: str, place: FactPlace, module: Module) -> str:
    """The remedy: an ``mx.eval()``, or another argument of the one that a loop has."""
    loops = layout_of(module, place.function).loops(place.statement)
    nodes = (node for loop in loops for node in walk(loop.body))
    facts = map(evaluation_of(module).calls.get, nodes)
    if any(fact is not None and fact.symbol == "mlx.core.eval" for fact in facts):
        return f"Add `{path}` to the arguments of the loop's `mx.eval()`"
    return f"Call `mx.eval({path})` in each iteration"


def _is_unevaluated(found: Accumulation, place: FactPlace, module: Module) -> bool:
    if is_traced(place, module) or not may_ask(place, module):
        return False
    layout = layout_of(module, place.function)
    loops = list(layout.loops(place.statement))
    for loop in loops:
        if not _is_kept(found, loop, place, module):
            return False
        if is_short_loop(loop, place, module):
            continue
        if is_long(loop) and grows(found, loop, place, module):
            level = next(iter(layout.outward(loop)))
            rest = level.statements[level.position + 1 :] if loop is not loops[-1] else ()
            # A chunk of an outer loop is evaluated as a whole.
            return not _is_captured(found.path, place, module) and not any(
                found.path in evaluated_by(statement, module) for statement in rest
            )
    return False


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


def is_short_loop(loop: cst.For | cst.While, place: FactPlace, module: Module) -> bool:
    """Return whether a loop has few iterations, and is not a training loop of ``steps=10``."""
    if not walks_short_list(loop, place.function, module):
        return False
    is_outermost = list(layout_of(module, place.function).loops(place.statement))[-1] is loop
    is_setting = is_outermost and counts_by_setting(loop)
    return not (is_setting and is_step(loop, module, by_evaluation=False))


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


def _is_kept(
    found: Accumulation, loop: cst.For | cst.While, place: FactPlace, module: Module
) -> bool:
    """Test whether the variable reaches the next iteration of a loop.

    A sum of gradients may start again after some micro-batches.
    """
    name = found.path
    if "." in name:
        return is_private(name, loop, place, module)
    bindings = scope_of(module, place.function).reaching.before(place.statement, name) or ()
    layout = layout_of(module, place.function)
    inside = [b for b in bindings if b.statement is loop or layout.is_inside(b.statement, loop)]
    is_tree = found.kind == "tree"
    return len(inside) < len(bindings) and all(
        b.statement is place.statement
        or _excludes(b.statement, place.statement, layout)
        or (is_tree and _starts_again(b, layout))
        for b in inside
    )


def _starts_again(binding: Binding, layout: Layout) -> bool:
    """Test for ``total = None`` in a branch."""
    level = next(layout.outward(binding.statement), None)
    is_none = isinstance(binding.value, cst.Name) and binding.value.value == "None"
    return is_none and level is not None and isinstance(level.owner, cst.If)


def _excludes(first: cst.CSTNode, second: cst.CSTNode, layout: Layout) -> bool:
    """Test whether two statements are in the two branches of one ``if``."""
    arms = {id(level.owner): level.arm for level in layout.outward(first)}
    return any(
        isinstance(level.owner, cst.If) and arms.get(id(level.owner), level.arm) != level.arm
        for level in layout.outward(second)
    )


#: Parts of names of learning rates that depend on the step, which is then evaluated with weights.
_SCHEDULES = ("schedule", "decay(", "warmup", "get_lr")


@check("LAZY-006", of=(".update",))
def unevaluated_state(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.eval(loss, model.parameters())`` in a loop, without ``optimizer.state``."""
    place, func = fact.place, fact.node.func
    if not place.loops or place.loop is None or not _is_optimizer(fact):
        return
    path = dotted(func.value) if isinstance(func, cst.Attribute) else None
    if path is None or is_traced(place, module) or not may_ask(place, module):
        return
    if any(word in module.source.lower() for word in _SCHEDULES):
        return
    loops = layout_of(module, place.function).loops(place.statement)
    loop = next((around for around in loops if is_long(around)), None)
    evaluation = evaluation_of(module)
    if loop is None or not evaluation.evaluates(loop.body):
        return  # LAZY-002 reports a loop that evaluates nothing
    outermost = list(layout_of(module, place.function).loops(place.statement))[-1]
    if not evaluation.may_evaluate(outermost.body.body, {path, *_holders(path, fact, module)}):
        yield Report.at(
            fact,
            "LAZY-006",
            message="the loop never evaluates the optimizer's state: its graph grows",
            help=f"Add it to the evaluation: `mx.eval(model.parameters(), {path}.state)`",
        )


def _holders(path: str, fact: CallFact, module: Module) -> Iterator[str]:
    """Names that a function binds to values made of the optimizer: ``state``."""
    function, name = fact.place.function, path.rpartition(".")[2]
    body = module.tree if function is None else function.node.body
    for statement in small_statements(body):
        if isinstance(statement, cst.Assign) and name in names_below(statement.value):
            for target in statement.targets:
                yield from target_names(target.target)


def _is_optimizer(fact: CallFact) -> bool:
    callee = fact.callee
    owner = callee.owner if isinstance(callee, BoundMember) else None
    return isinstance(owner, LibraryObject) and owner.cls.startswith("mlx.optimizers.")
