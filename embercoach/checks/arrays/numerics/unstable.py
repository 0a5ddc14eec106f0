"""DTYPE-011 and DTYPE-012: logarithms of compositions that overflow or lose digits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import calls_of
from embercoach.analysis.syntax.trees import (
    dotted,
    head_of,
    names_below,
    statements_below,
    target_names,
    walk,
)
from embercoach.analysis.value_sources import sources_of
from embercoach.checks.arrays.numerics.compositions import MEAN, SUM, called, only_end, squared
from embercoach.checks.arrays.numerics.exponentials import (
    EXP,
    beside_one,
    exponents,
    is_bounded,
)
from embercoach.checks.arrays.numerics.selections import computed
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact, Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source, Sources
    from embercoach.checks.arrays.numerics.compositions import Called

SOFTMAX = frozenset(["mlx.core.softmax", "mlx.nn.softmax", "mlx.nn.Softmax"])
SIGMOID = frozenset(["mlx.core.sigmoid", "mlx.nn.sigmoid", "mlx.nn.Sigmoid"])
_TANH = frozenset(["mlx.core.tanh", "mlx.nn.tanh", "mlx.nn.Tanh"])


@check("DTYPE-011", "DTYPE-012", of=("mlx.core.log", ".log"))
def log_of_composition(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.log(mx.softmax(x))``, ``mx.log(1 + mx.exp(x))``, ``mx.log(1 + x)``."""
    sources = sources_of(module)
    found = sources.library_call(sources.of(fact, fact.node))
    if found is None or found.array is None:
        return
    if _origin(found.array, sources) in SOFTMAX:
        if not _is_sampled(fact, module):
            instead = "x - mx.logsumexp(x, axis, keepdims=True)"
            change = _log_fix(fact, module, _argument(fact))
            yield unstable(fact, "log(softmax(x))", instead, change)
        return
    inner = called(found.array, sources)
    if inner is not None:
        yield from _log_of_call(fact, inner, sources)
        return
    yield from _log_of_sum(fact, found.array, sources, module)


def _log_of_sum(
    fact: CallFact, source: Source, sources: Sources, module: Module
) -> Iterator[Report]:
    """``mx.log(1 + mx.exp(x))``, ``mx.log(mx.exp(x) + mx.exp(y))``, ``mx.log(1 - sigmoid)``."""
    other = beside_one(source, cst.Add, sources)
    if other is not None:
        exponential = called(other, sources)
        if exponential is not None and exponential.name in EXP:
            change = _log_fix(fact, module, other.node)
            yield unstable(fact, "log(1 + exp(x))", "mx.logaddexp(x, 0)", change)
        elif not _is_number(other, sources):
            yield inexact(fact, "log(1 + x)", "mx.log1p(x)")
        return
    other = beside_one(source, cst.Subtract, sources)
    if other is not None:
        sigmoid = called(other, sources)
        if sigmoid is not None and sigmoid.name in SIGMOID:
            yield unstable(fact, "log(1 - sigmoid(x))", "nn.log_sigmoid(-x)")
            return
        base = squared(other, sources)
        tanh = None if base is None else called(base, sources)
        if tanh is not None and tanh.name in _TANH:
            instead = "2 * (math.log(2) - x - nn.softplus(-2 * x))"
            yield unstable(fact, "log(1 - tanh(x) ** 2)", instead)
        return
    end = only_end(source, sources)
    node = end.node
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        sides = [exponents(end.at(side), sources) for side in (node.left, node.right)]
        if all(len(side) == 1 and not is_bounded(side[0], sources) for side in sides):
            yield unstable(fact, "log(exp(x) + exp(y))", "mx.logaddexp(x, y)")


def _origin(source: Source, sources: Sources) -> str | None:
    """The function of MLX that computes an array, before selections of its elements."""
    calls = [sources.library_call(end) for end in computed(source, sources)]
    names = {None if call is None else call.name for call in calls}
    return names.pop() if len(names) == 1 else None


def _is_sampled(fact: CallFact, module: Module) -> bool:
    """Return whether the logarithm is passed on as logits, where minus infinity is correct."""
    function = fact.place.function
    derived: set[str] = set()
    body = [] if function is None else [*statements_below(function.node.body)]
    for statement in (fact.place.statement, *body):
        names = set(names_below(statement)) if isinstance(statement, cst.Assign) else set()
        if statement is fact.place.statement or not derived.isdisjoint(names):
            targets = statement.targets if isinstance(statement, cst.Assign) else ()
            derived.update(name for t in targets for name in target_names(t.target))
    for statement in (fact.place.statement, *body):
        for node in head_of(statement):
            call = calls_of(module).get(node)
            if call is not None and call.symbol == "mlx.core.random.categorical":
                is_inside = any(inner is fact.node for inner in walk(node))
                if is_inside or not derived.isdisjoint(names_below(node)):
                    return True
    return False


def _log_of_call(fact: CallFact, inner: Called, sources: Sources) -> Iterator[Report]:
    if inner.name in SIGMOID:
        yield unstable(fact, "log(sigmoid(x))", "nn.log_sigmoid(x)")
    elif inner.name == "mlx.core.cosh":
        yield unstable(fact, "log(cosh(x))", "mx.logaddexp(x, -x) - math.log(2)")
    elif inner.name in SUM | MEAN:
        summed = called(inner.array, sources)
        if summed is not None and summed.name in EXP and not is_bounded(summed.array, sources):
            is_sum = inner.name in SUM
            shown = "log(sum(exp(x)))" if is_sum else "log(mean(exp(x)))"
            instead = "mx.logsumexp(x, axis)" + ("" if is_sum else " - math.log(n)")
            yield unstable(fact, shown, instead)


def _argument(fact: CallFact) -> cst.BaseExpression | None:
    """The argument of ``mx.log(y)``, None for ``y.log()``."""
    given = fact.node.args
    return given[0].value if fact.symbol is not None and len(given) == 1 else None


def _log_fix(fact: CallFact, module: Module, inner: cst.CSTNode | None) -> ProposedFix | None:
    """``mx.log(mx.softmax(x, axis))`` and ``mx.log(1 + mx.exp(x))``, written as one expression."""
    mx, outer = mlx_alias(module), _argument(fact)
    call = None if inner is None else calls_of(module).get(inner)
    if mx is None or outer is None or call is None or call.symbol is None:
        return None
    if isinstance(outer, cst.BinaryOperation):
        if inner not in (outer.left, outer.right):
            return None
    elif inner is not outer:
        return None
    argument = call.positional(0)
    if argument is None or "\n" in (x := module.parsed.code(argument.node)):
        return None
    if call.symbol in EXP and len(call.arguments) == 1:
        return ProposedFix(
            f"Use `{mx}.logaddexp`", False, ((fact.node, f"{mx}.logaddexp({x}, 0)"),)
        )
    axis = call.argument(1, "axis")
    is_plain = axis is not None and len(call.arguments) == 2 and call.symbol in SOFTMAX
    if axis is None or not is_plain or not _is_repeatable(argument.node):
        return None
    logsumexp = f"{mx}.logsumexp({x}, axis={module.parsed.code(axis.node)}, keepdims=True)"
    return ProposedFix(f"Use `{mx}.logsumexp`", False, ((fact.node, f"({x} - {logsumexp})"),))


def _is_repeatable(node: cst.BaseExpression) -> bool:
    """Return whether an expression may be written twice: a name, an attribute, or its cast."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value == "astype" and dotted(node.func.value) is not None
    return dotted(node) is not None


def unstable(fact: Fact, shown: str, instead: str, change: ProposedFix | None = None) -> Report:
    """Report a composition that overflows."""
    return Report.at(
        fact,
        "DTYPE-011",
        message=f"`{shown}` is infinite or NaN for large inputs",
        help=f"Use `{instead}`",
        change=change,
    )


def inexact(fact: Fact, shown: str, instead: str) -> Report:
    """Report a composition that loses digits."""
    return Report.at(
        fact,
        "DTYPE-012",
        message=f"`{shown}` loses the digits of a small `x`",
        help=f"Use `{instead}`",
    )


def _is_number(source: Source, sources: Sources) -> bool:
    return isinstance(only_end(source, sources).node, (cst.Integer, cst.Float))
