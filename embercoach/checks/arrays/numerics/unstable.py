"""DTYPE-011 and DTYPE-012: logarithms, quotients and differences of exponentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.value_sources import reaching_of, sources_of
from embercoach.analysis.facts.facts import calls_of
from embercoach.analysis.syntax.trees import (
    dotted,
    head_of,
    names_below,
    statements_below,
    target_names,
    walk,
)
from embercoach.analysis.values.lattice import as_array
from embercoach.checks.arrays.numerics.compositions import (
    MEAN,
    SUM,
    called,
    computed,
    is_same,
    only_end,
    squared,
)
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.dataflow.value_sources import Source, Sources
    from embercoach.analysis.facts.facts import BinaryFact, CallFact, Fact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.arrays.numerics.compositions import Called

EXP = frozenset(["mlx.core.exp"])
#: Bindings of a name that are looked at.
_MOST_BINDINGS = 64
#: Parts of an exponent that are looked at.
_MOST_PARTS = 32
#: Functions whose results are small, or never positive where they are exponents by design.
_BOUNDING = frozenset(
    (
        *("clip", "minimum", "tanh", "sin", "cos", "sigmoid", "log", "log_softmax"),
        *("log_sigmoid", "logsumexp", "stop_gradient"),
    )
)


def exponents(source: Source, sources: Sources) -> list[Source]:
    """``x`` of ``mx.exp(x)``, and of its product with a mask, in all alternatives."""
    found: list[Source] = []
    for end in sources.ends(source, through_callers=True):
        node = end.node
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
            for side in (node.left, node.right):
                found += _exponents_of_call(only_end(end.at(side), sources), sources)
        else:
            found += _exponents_of_call(end, sources)
    return found


def _exponents_of_call(end: Source, sources: Sources) -> list[Source]:
    call = sources.library_call(end)
    is_exponential = call is not None and call.name in EXP and call.array is not None
    return [call.array] if is_exponential and call is not None and call.array is not None else []


def beside_one(source: Source, operator: type, sources: Sources) -> Source | None:
    """``x`` of ``1 + x`` and ``x + 1``; of ``1 - x`` alone."""
    source = only_end(source, sources)
    node = source.node
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, operator):
        return None
    if is_one(node.left):
        return source.at(node.right)
    if operator is cst.Add and is_one(node.right):
        return source.at(node.left)
    return None


def is_one(node: cst.CSTNode) -> bool:
    """Test whether an expression is 1 or ``mx.array(1.0)``."""
    if isinstance(node, cst.Call) and node.args:
        node = node.args[0].value
    return isinstance(node, (cst.Integer, cst.Float)) and float(node.value.replace("_", "")) == 1


def is_bounded(source: Source, sources: Sources) -> bool:
    """Return whether an exponent is a difference, as of values and their maximum, or is bounded."""
    end = only_end(source, sources)
    if _is_negated_square(end.node) or _is_constant(source, sources):
        return True
    pending, seen = [end], 0
    while pending and seen < _MOST_PARTS:
        part, seen = pending.pop(), seen + 1
        node = part.node
        if isinstance(node, cst.Name):
            if _is_shifted_name(part, node.value):
                return True
            below = only_end(part, sources)
            pending += [below] if below.node is not node else []
        elif isinstance(node, cst.BinaryOperation):
            if isinstance(node.operator, cst.Subtract):
                return True
            pending += [part.at(node.left), part.at(node.right)]
        elif isinstance(node, cst.UnaryOperation):
            pending.append(part.at(node.expression))
        elif isinstance(node, cst.Call):
            name = (dotted(node.func) or "").rpartition(".")[2]
            if name in _BOUNDING or name == "subtract":
                return True
    return False


def _is_constant(source: Source, sources: Sources) -> bool:
    array = as_array(sources.value(source))
    return array is not None and array.literal


def _is_shifted_name(source: Source, name: str) -> bool:
    """Return whether a name is updated, or given a difference, anywhere in its scope."""
    held = reaching_of(source).bindings.get(name, [])[:_MOST_BINDINGS]
    return any(binding.kind == "updated" or _subtracts(binding.value) for binding in held)


def _subtracts(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract)


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


@check("DTYPE-011", "DTYPE-012")
def quotient_or_difference(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``mx.exp(x) / mx.sum(mx.exp(x))``, ``mx.exp(x) - 1``."""
    if fact.operator == "/":
        yield from _quotient(fact, fact.left.node, fact.right.node, module)
    elif fact.operator == "-" and is_one(fact.right.node):
        sources = sources_of(module)
        ends = sources.ends(sources.of(fact, fact.left.node), through_callers=True)
        calls = [sources.library_call(end) for end in ends]
        if calls and all(call is not None and call.name == "mlx.core.exp" for call in calls):
            yield inexact(fact, "exp(x) - 1", "mx.expm1(x)")


@check("DTYPE-011", of=("mlx.core.divide",))
def quotient_by_divide(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.divide(mx.exp(x), mx.sum(mx.exp(x)))``."""
    first, second = fact.positional(0), fact.positional(1)
    if first is not None and second is not None:
        yield from _quotient(fact, first.node, second.node, module)


def _quotient(
    fact: Fact, left: cst.BaseExpression, right: cst.BaseExpression, module: Module
) -> Iterator[Report]:
    sources = sources_of(module)
    numerator, denominator = sources.of(fact, left), sources.of(fact, right)
    above = exponents(numerator, sources) or _summed_exponents(numerator, sources)
    if not above:
        if _is_tanh(numerator, denominator, sources):
            yield unstable(fact, "(exp(x) - exp(-x)) / (exp(x) + exp(-x))", "mx.tanh(x)")
        return
    total = called(denominator, sources)
    if total is not None and total.name in SUM:
        summed = exponents(total.array, sources)
        shared = [x for x in above if _is_among(x, summed, sources)]
        if shared and not is_bounded(shared[0], sources):
            yield _softmax(fact, shared[0], module)
        return
    other = beside_one(denominator, cst.Add, sources)
    if other is not None:
        below = exponents(other, sources)
        is_same_one = len(below) == len(above) == 1 and is_same(above[0], below[0], sources)
        if is_same_one and not is_bounded(above[0], sources):
            yield unstable(fact, "exp(x) / (1 + exp(x))", "mx.sigmoid(x)")
        return
    below = exponents(denominator, sources)
    if len(above) == len(below) == 1 and not any(is_bounded(x, sources) for x in (*above, *below)):
        yield unstable(fact, "exp(x) / exp(y)", "mx.exp(x - y)")


def _summed_exponents(numerator: Source, sources: Sources) -> list[Source]:
    """``x`` of ``mx.sum(mx.exp(x) * v)``, a weighted mean's numerator."""
    total = called(numerator, sources)
    is_sum = total is not None and total.name in SUM
    return exponents(total.array, sources) if is_sum and total is not None else []


def _is_among(source: Source, others: list[Source], sources: Sources) -> bool:
    return any(is_same(source, other, sources) for other in others)


def _softmax(fact: Fact, exponent: Source, module: Module) -> Report:
    """Report the quotient, or the exponential in the function that passes it."""
    report = unstable(fact, "exp(x) / sum(exp(x))", "mx.softmax(x, axis)")
    if exponent.call is not None or exponent.function is fact.place.function:
        return report  # computed here, or in a function that is called here
    calls = calls_of(module).values()
    made = next((c for c in calls if any(a.node is exponent.node for a in c.arguments)), None)
    if made is None:
        return report
    return unstable(made, "exp(x) / sum(exp(x))", "mx.softmax(x, axis)")


def _is_tanh(numerator: Source, denominator: Source, sources: Sources) -> bool:
    """Test for ``(exp(x) - exp(-x)) / (exp(x) + exp(-x))``."""
    above = _exponential_pair(numerator, cst.Subtract, sources)
    below = None if above is None else _exponential_pair(denominator, cst.Add, sources)
    if above is None or below is None:
        return False
    return all(is_same(a, b, sources) for a, b in zip(above, below, strict=True))


def _exponential_pair(
    source: Source, operator: type, sources: Sources
) -> tuple[Source, Source] | None:
    end = only_end(source, sources)
    node = end.node
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, operator):
        return None
    one, other = (exponents(end.at(side), sources) for side in (node.left, node.right))
    return (one[0], other[0]) if len(one) == len(other) == 1 else None
