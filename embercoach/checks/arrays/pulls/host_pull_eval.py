"""HOST-PULL-011: mx.eval in inner loops and layers, and before each token is read."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contexts import (
    EFFECTS,
    context_of,
    error_of,
    is_forward,
    is_traced,
)
from embercoach.analysis.dataflow.evaluation import evaluation_of, is_pull
from embercoach.analysis.facts.facts import CallFact
from embercoach.analysis.syntax.trees import around, names_below, small_statements, walk
from embercoach.analysis.values.lattice import UNKNOWN, Tree, holds_arrays, options
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module


#: What makes the gradient function of a training step.
GRADIENTS = frozenset(("mlx.core.grad", "mlx.core.value_and_grad", "mlx.nn.value_and_grad"))


@check("HOST-PULL-011", of=("mlx.core.eval", "mlx.core.async_eval"))
def eval_in_trace(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.eval(y)`` of an array that depends on the arguments of a compiled function."""
    function, statement = fact.place.function, fact.place.statement
    if function is None or any(
        isinstance(node, (cst.If, cst.Try)) for node in around(function.node.body, statement)
    ):
        return  # ``if self.timing:``, which is off where the function is compiled
    values = [a.value for a in fact.arguments if is_traced(a.value) and holds_arrays(a.value)]
    if any(error_of(fact.place, v) for v in values):
        short = "async_eval" if fact.symbol == "mlx.core.async_eval" else "eval"
        yield Report.at(
            fact,
            "HOST-PULL-011",
            message=f"`mx.{short}()` {EFFECTS['compiled']}",
            help="Evaluate the result after the compiled call",
            context="compiled",
        )


@check("HOST-PULL-011", of=("mlx.core.eval",))
def eval_in_loop(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.eval`` in the inner of two loops, in a layer, or before each read of a token."""
    loop = fact.place.loop
    if fact.place.periodic or error_of(fact.place, None) or not _passes_arrays(fact):
        return
    names = {n.value for a in fact.arguments for n in _roots(a.node)}
    is_carried = loop is not None and fact.place.loops > 0 and _is_carried(names, loop)
    context = "minor"
    if is_carried and loop is not None and _reads(names, loop):
        where = "every iteration, before the next one is started"
        help_text = "Compute the next result, and call mx.async_eval on it, before this one is read"
    elif is_carried and fact.place.loops > 1:
        if loop is None or not _has_operations_only(loop, module):
            return  # such as a step of a model
        where, help_text = "every iteration of an inner loop", "Evaluate once per outer iteration"
        context = context_of(fact.place, module)
    elif is_forward(fact.place.function):
        where = "every forward pass"
        help_text = "Evaluate in the training or generation loop, after the whole step"
    else:
        return
    if _is_training(fact, module) or _is_explained(fact, module):
        return
    message = f"`mx.eval()` synchronizes with the GPU in {where}"
    yield Report.at(fact, "HOST-PULL-011", message=message, help=help_text, context=context)


def _is_explained(fact: CallFact, module: Module) -> bool:
    """Test whether a comment above the call, or at the end of its line, says why it is there."""
    span = module.parsed.spans({fact.node: fact.place.statement}).get(fact.node)
    if span is None:
        return False
    lines = _lines(module)
    after = lines[span.end_line - 1][span.end_column :]
    before = lines[span.line - 2] if span.line > 1 else ""
    return after.lstrip().startswith("#") or before.lstrip().startswith("#")


@lru_cache(maxsize=1)
def _lines(module: Module) -> list[str]:
    return module.source.splitlines()


def _is_training(fact: CallFact, module: Module) -> bool:
    """Test whether the function updates weights: training in MLX evaluates once per step."""
    if any(isinstance(o, Tree) for a in fact.arguments for o in options(a.value)):
        return True
    function = fact.place.function
    if fact.place.loops and _takes_gradients(function, module):
        return True  # by hand, such as ``w = w - rate * gradient(w)``; a sweep may be around
    return function is not None and any(
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in ("update", "apply_gradients")
        and len(node.args) == 2
        for node in walk(function.node)
    )


def _takes_gradients(function: FunctionInfo | None, module: Module) -> bool:
    """Test whether a function, or one that it defines or calls, takes a gradient."""
    inner = [f for f in module.functions if function is not None and f.outer is function]
    called = [] if function is None else [f for f in function.calls if f.module is module]
    return any(
        isinstance(fact, CallFact) and fact.symbol in GRADIENTS
        for info in (function, *inner, *called)
        for fact in module.facts_of(info)
    )


def _is_carried(names: set[str], loop: cst.For | cst.While) -> bool:
    """Test whether a loop computes one of the names from its value in the last iteration.

    Such a chain needs one synchronization at its end. Other arrays may be evaluated to bound
    memory, or to measure time.
    """
    fresh: set[str] = set()  # already reassigned in this iteration
    read: set[str] = set()
    for statement in small_statements(loop.body):
        if isinstance(statement, cst.AugAssign):
            targets = {n.value for n in _roots(statement.target)}
            if isinstance(statement.target, cst.Subscript) and targets & names:
                return True
        elif isinstance(statement, cst.Assign):
            value = statement.value
            targets = {n.value for t in statement.targets for n in _roots(t.target)}
            # In a plain sum the graphs of the iterations are independent.
            if not (isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add)):
                read |= (names & {n.value for n in walk(value) if isinstance(n, cst.Name)}) - fresh
            if targets & read:
                return True
            fresh |= targets
    return False


def _has_operations_only(loop: cst.For | cst.While, module: Module) -> bool:
    """Test whether a loop only computes by MLX's operations, which take less time than a wait."""
    calls = evaluation_of(module).calls
    facts = [calls.get(node) for node in walk(loop.body) if isinstance(node, cst.Call)]
    return all(
        fact is not None
        and (fact.array is not None or (fact.symbol or "").startswith(("mlx.core.", "builtins.")))
        for fact in facts
    )


def _reads(names: set[str], loop: cst.For | cst.While) -> bool:
    """Test whether a loop reads one of the arrays by a method: ``y.item()``, ``y[0].tolist()``."""
    return any(
        isinstance(call, cst.Call)
        and is_pull(call)
        and not names.isdisjoint(names_below(call.func))
        for call in walk(loop.body)
    )


def _roots(node: cst.CSTNode) -> Iterator[cst.Name]:
    """The names that an expression's values are derived from."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    if isinstance(node, cst.Name):
        yield node
    elif isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _roots(element.value)


def _passes_arrays(fact: CallFact) -> bool:
    return any(holds_arrays(a.value) or a.value is UNKNOWN for a in fact.arguments)
