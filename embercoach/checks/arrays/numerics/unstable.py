"""DTYPE-011 and DTYPE-012: compositions that overflow or lose digits where MLX has one function."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
from embercoach.analysis.value_sources import reaching_of, sources_of
from embercoach.checks.arrays.numerics.compositions import SUM
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import BinaryFact, CallFact, Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source, Sources

SOFTMAX = frozenset(["mlx.core.softmax", "mlx.nn.softmax", "mlx.nn.Softmax"])
#: Functions of MLX that select or arrange the elements of an array.
SELECTIONS = frozenset(
    f"mlx.core.{name}"
    for name in (
        "take",
        "take_along_axis",
        "reshape",
        "squeeze",
        "expand_dims",
        "flatten",
        "astype",
    )
)
SIGMOID = frozenset(["mlx.core.sigmoid", "mlx.nn.sigmoid"])
EXP = frozenset(["mlx.core.exp"])
MAX = frozenset(["mlx.core.max", "mlx.core.maximum", "mlx.core.stop_gradient"])
#: Bindings of a name that are looked at.
MOST_BINDINGS = 64
#: How many selections of elements are followed.
MOST_CALLS = 3


class _Call(NamedTuple):
    """A call of a function of MLX, or of a method of an array: the name, and the array."""

    name: str
    array: Source


@check("DTYPE-011", "DTYPE-012", of=("mlx.core.log", ".log"))
def log_of_composition(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.log(mx.softmax(x))``, ``mx.log(1 + mx.exp(x))``, ``mx.log(1 + x)``."""
    sources = sources_of(module)
    found = sources.library_call(sources.of(fact, fact.node))
    if found is None or found.array is None:
        return
    inner = _called(_selected_from(found.array, sources), sources)
    if inner is not None and inner.name in SOFTMAX:
        if not _is_sampled(fact, module):
            instead = "x - mx.logsumexp(x, axis, keepdims=True)"
            change = _log_fix(fact, module, _argument(fact))
            yield _unstable(fact, "log(softmax(x))", instead, change)
        return
    inner = _called(found.array, sources)
    if inner is not None:
        yield from _log_of_call(fact, inner, sources)
        return
    other = _beside_one(found.array, cst.Add, sources)
    if other is not None:
        exponential = _called(other, sources)
        if exponential is not None and exponential.name in EXP:
            change = _log_fix(fact, module, other.node)
            yield _unstable(fact, "log(1 + exp(x))", "mx.logaddexp(x, 0)", change)
        elif not _is_number(other, sources):
            yield _inexact(fact, "log(1 + x)", "mx.log1p(x)")
        return
    other = _beside_one(found.array, cst.Subtract, sources)
    sigmoid = None if other is None else _called(other, sources)
    if sigmoid is not None and sigmoid.name in SIGMOID:
        yield _unstable(fact, "log(1 - sigmoid(x))", "nn.log_sigmoid(-x)")


def _selected_from(source: Source, sources: Sources) -> Source:
    """The array that elements are selected from, without items and changes of shape."""
    for _ in range(MOST_CALLS):
        ends = sources.ends(source, through_callers=True)
        if len(ends) != 1:
            break
        source = ends[0]
        call = sources.library_call(source)
        if isinstance(source.node, cst.Subscript):
            source = source.at(source.node.value)
        elif call is not None and call.name in SELECTIONS and call.array is not None:
            source = call.array
        else:
            break
    return source


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


def _log_of_call(fact: CallFact, inner: _Call, sources: Sources) -> Iterator[Report]:
    if inner.name in SIGMOID:
        yield _unstable(fact, "log(sigmoid(x))", "nn.log_sigmoid(x)")
    elif inner.name in SUM:
        summed = _called(inner.array, sources)
        if summed is not None and summed.name in EXP and not _is_shifted(summed.array, sources):
            yield _unstable(fact, "log(sum(exp(x)))", "mx.logsumexp(x, axis)")


@check("DTYPE-011", "DTYPE-012")
def quotient_or_difference(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``mx.exp(x) / mx.sum(mx.exp(x))``, ``mx.exp(x) - 1``."""
    if fact.operator not in "/-" or not isinstance(fact.node, cst.BinaryOperation):
        return
    sources = sources_of(module)
    left = _called(sources.of(fact, fact.left.node), sources)
    if left is None or left.name not in EXP:
        return
    if fact.operator == "-":
        if _is_one(fact.right.node):
            yield _inexact(fact, "exp(x) - 1", "mx.expm1(x)")
        return
    right = _called(sources.of(fact, fact.right.node), sources)
    if right is None or right.name not in SUM:
        return
    summed = _called(right.array, sources)
    if summed is None or summed.name not in EXP or _is_shifted(summed.array, sources):
        return
    if _is_negated_square(_only_end(summed.array, sources).node):
        return
    if summed.array.node.deep_equals(left.array.node):
        yield _unstable(fact, "exp(x) / sum(exp(x))", "mx.softmax(x, axis)")


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


def _unstable(fact: Fact, shown: str, instead: str, change: ProposedFix | None = None) -> Report:
    return Report.at(
        fact,
        "DTYPE-011",
        message=f"`{shown}` is infinite or NaN for large inputs",
        help=f"Use `{instead}`",
        change=change,
    )


def _inexact(fact: Fact, shown: str, instead: str) -> Report:
    return Report.at(
        fact,
        "DTYPE-012",
        message=f"`{shown}` loses the digits of a small `x`",
        help=f"Use `{instead}`",
    )


def _only_end(source: Source, sources: Sources) -> Source:
    """The expression that computes a value, if it is one."""
    ends = sources.ends(source, through_callers=True)
    return ends[0] if len(ends) == 1 else source


def _called(source: Source, sources: Sources) -> _Call | None:
    """The call of MLX that computes an expression, through names, functions and methods."""
    ends = sources.ends(source, through_callers=True)
    calls = [sources.library_call(end) for end in ends]
    first = calls[0] if calls else None
    if first is None or any(call is None or call.name != first.name for call in calls):
        return None
    return None if first.array is None else _Call(first.name, first.array)


def _beside_one(source: Source, operator: type, sources: Sources) -> Source | None:
    """``x`` of ``1 + x`` and ``x + 1``; of ``1 - x`` alone."""
    source = _only_end(source, sources)
    node = source.node
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, operator):
        return None
    if _is_one(node.left):
        return source.at(node.right)
    if operator is cst.Add and _is_one(node.right):
        return source.at(node.left)
    return None


def _is_one(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Call) and node.args:
        node = node.args[0].value  # mx.array(1.0)
    return isinstance(node, (cst.Integer, cst.Float)) and float(node.value) == 1


def _is_number(source: Source, sources: Sources) -> bool:
    return isinstance(_only_end(source, sources).node, (cst.Integer, cst.Float))


def _is_shifted(source: Source, sources: Sources) -> bool:
    """Return whether a difference is exponentiated: of values and their maximum, as a rule."""
    end = _only_end(source, sources)
    node = end.node
    if isinstance(node, cst.Name):
        reaching = reaching_of(end)
        held = () if reaching is None else reaching.bindings.get(node.value, [])[:MOST_BINDINGS]
        return any(binding.kind == "updated" or _subtracts(binding.value) for binding in held)
    return _subtracts(node)


def _is_negated_square(node: cst.CSTNode) -> bool:
    """Return whether an exponent is at most 0, as of a Gaussian: ``-0.5 * (x / sigma) ** 2``."""
    factors, squared, negative = [node], False, False
    while factors:
        factor = factors.pop()
        if isinstance(factor, cst.UnaryOperation) and isinstance(factor.operator, cst.Minus):
            negative = not negative
            factors.append(factor.expression)
        elif isinstance(factor, cst.BinaryOperation):
            if isinstance(factor.operator, cst.Power):
                squared = squared or getattr(factor.right, "value", None) == "2"
            elif isinstance(factor.operator, (cst.Multiply, cst.Divide)):
                factors += (factor.left, factor.right)
        elif isinstance(factor, cst.Call):
            squared = squared or (dotted(factor.func) or "").rpartition(".")[2] in ("square", "abs")
    return squared and negative


def _subtracts(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract)
