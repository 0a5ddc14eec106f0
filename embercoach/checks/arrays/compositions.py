"""DTYPE-011, 012, 014, NAN-001 and NN-008: compositions that overflow, or lose digits."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import bound_by, contents_of
from embercoach.analysis.dataflow.function_summaries import derived_names
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.dataflow.value_sources import (
    LibraryCall,
    Source,
    Sources,
    reaching_of,
    sources_of,
)
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import BinaryFact, CallFact, Fact, arithmetic_of, calls_of
from embercoach.analysis.values.lattice import as_array
from embercoach.analysis.work import MOST_STEPS
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

#: Functions of MLX that select, arrange or average the elements of an array: what it is stays.
SHAPING = frozenset(
    (
        *("astype", "reshape", "squeeze", "flatten", "expand_dims", "transpose", "swapaxes"),
        *("take", "take_along_axis", "sort", "topk", "broadcast_to", "moveaxis", "contiguous"),
        "stop_gradient",
    )
)
#: Functions that bound the elements.
_BOUNDING = frozenset(f"mlx.core.{name}" for name in ("clip", "maximum", "minimum"))
_SHAPED = frozenset(f"mlx.core.{name}" for name in SHAPING)
_WHERE = "mlx.core.where"


def computed(start: Source, sources: Sources, *, bounded: bool = False) -> list[Source]:
    """Return the expressions that compute an array, before items and changes of shape and dtype.

    Args:
        start: the array.
        sources: those of the file.
        bounded: follow ``mx.clip(x, 0, 1)`` and ``mx.where(mask, x, 0)`` to ``x`` as well.
    """
    pending = [start]
    found: list[Source] = []
    for _ in range(MOST_STEPS):
        if not pending:
            return found
        for end in sources.ends(pending.pop(), through_callers=True):
            further = _before(end, sources, bounded=bounded)
            if further is None:
                found.append(end)
            else:
                pending += further
    return []


def _before(end: Source, sources: Sources, *, bounded: bool) -> list[Source] | None:
    """Return the arrays that an expression selects from, None for anything else."""
    node = end.node
    if isinstance(node, cst.Subscript):
        return [end.at(node.value)]
    if not isinstance(node, cst.Call):
        return None
    call = sources.library_call(end)
    if call is not None and call.name in _SHAPED and call.array is not None:
        return [call.array]
    func = node.func
    if call is None and isinstance(func, cst.Attribute) and func.attr.value in SHAPING:
        return [end.at(func.value)]
    if not bounded or call is None or call.array is None:
        return None
    if call.name in _BOUNDING:
        return [call.array]
    if call.name == _WHERE and len(node.args) == 3:
        chosen = [end.at(argument.value) for argument in node.args[1:]]
        return [one for one in chosen if not _is_constant(one, sources)] or None
    return None


def _is_constant(source: Source, sources: Sources) -> bool:
    """Test whether an expression is a number, or an array of equal numbers."""
    node = source.node
    if isinstance(node, cst.UnaryOperation):
        node = node.expression
    if isinstance(node, (cst.Integer, cst.Float)):
        return True
    call = sources.library_call(source)
    filled = ("zeros", "zeros_like", "array", "full_like")
    return call is not None and call.name.removeprefix("mlx.core.") in filled


SUM = frozenset(["mlx.core.sum"])
MEAN = frozenset(["mlx.core.mean"])
_SQUARE = frozenset(["mlx.core.square"])
_PRODUCTS = frozenset(["mlx.core.multiply", "mlx.core.power"])


def only_end(source: Source, sources: Sources) -> Source:
    """Return the expression that computes a value, if it is one."""
    ends = sources.ends(source, through_callers=True)
    return ends[0] if len(ends) == 1 else source


def computing_call(source: Source, sources: Sources) -> LibraryCall | None:
    """Return the call of MLX that computes an expression, through names, functions and methods."""
    ends = sources.ends(source, through_callers=True)
    calls = [sources.library_call(end) for end in ends]
    first = calls[0] if calls else None
    if first is None or any(call is None or call.name != first.name for call in calls):
        return None
    return None if first.array is None else first


def taken(source: Source, functions: frozenset[str], sources: Sources) -> Source | None:
    """Return the array that one of some functions of MLX takes to compute an expression."""
    call = computing_call(source, sources)
    return call.array if call is not None and call.name in functions else None


def sides(source: Source, operator: type, sources: Sources) -> tuple[Source, Source] | None:
    """Return the operands of the arithmetic operation that computes an expression."""
    end = only_end(source, sources)
    node = end.node
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, operator):
        return None
    return end.at(node.left), end.at(node.right)


def squared(source: Source, sources: Sources) -> Source | None:
    """Return ``x`` of ``x ** 2``, ``x * x`` and ``mx.square(x)``."""
    found = only_end(source, sources)
    node = found.node
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Power):
            return found.at(node.left) if _is_two(node.right) else None
        is_square = isinstance(node.operator, cst.Multiply) and node.left.deep_equals(node.right)
        return found.at(node.left) if is_square else None
    call = sources.library_call(found)
    if call is None or call.array is None or not isinstance(node, cst.Call):
        return None
    if call.name in _SQUARE:
        return call.array
    if call.name not in _PRODUCTS or len(node.args) < 2:
        return None
    second = node.args[1].value
    is_square = _is_two(second) or call.array.node.deep_equals(second)
    return call.array if is_square else None


def _is_two(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Integer, cst.Float)) and float(node.value.replace("_", "")) == 2


def is_same(first: Source, second: Source, sources: Sources) -> bool:
    """Test whether two expressions compute the same, by their text in one function or class."""
    one, other = only_end(first, sources), only_end(second, sources)
    if one.node is other.node:
        return True
    if not one.node.deep_equals(other.node):
        return False
    return one.function is other.function or (_is_of_object(one) and _is_of_object(other))


def _is_of_object(source: Source) -> bool:
    """Return whether an expression of a method reads its object, and no local name."""
    function = source.function
    if function is None or function.cls is None:
        return False
    local = scope_of(source.module, function).reaching.bindings.keys() - {"self"}
    return local.isdisjoint(contents_of(source.node).names)


EXP = frozenset(["mlx.core.exp"])
#: Functions whose results are small, or never positive where they are exponents by design.
_SMALL_RESULTS = frozenset(
    (
        *("clip", "minimum", "tanh", "sin", "cos", "sigmoid", "log", "log_softmax"),
        *("log_sigmoid", "logsumexp", "stop_gradient", "subtract"),
    )
)


def exponents(source: Source, sources: Sources) -> list[Source]:
    """``x`` of ``mx.exp(x)``, and of its product with a mask, in all alternatives."""
    found: list[Source] = []
    for end in sources.ends(source, through_callers=True):
        factors = sides(end, cst.Multiply, sources) or (end,)
        calls = [sources.library_call(only_end(factor, sources)) for factor in factors]
        found += [c.array for c in calls if c is not None and c.name in EXP and c.array is not None]
    return found


def beside_one(source: Source, operator: type, sources: Sources) -> Source | None:
    """``x`` of ``1 + x`` and ``x + 1``; of ``1 - x`` alone."""
    found = sides(source, operator, sources)
    if found is None:
        return None
    if is_one(found[0].node):
        return found[1]
    return found[0] if operator is cst.Add and is_one(found[1].node) else None


def is_one(node: cst.CSTNode) -> bool:
    """Test whether an expression is 1 or ``mx.array(1.0)``."""
    if isinstance(node, cst.Call) and node.args:
        node = node.args[0].value
    return isinstance(node, (cst.Integer, cst.Float)) and float(node.value.replace("_", "")) == 1


def is_bounded(source: Source, sources: Sources) -> bool:
    """Return whether an exponent is a difference, as of values and their maximum, or is bounded."""
    end = only_end(source, sources)
    if _is_negated_square(end.node) or _is_literal(source, sources):
        return True
    pending, seen = [end], 0
    while pending and seen < MOST_STEPS:
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
        elif isinstance(node, cst.Call) and last_name(node) in _SMALL_RESULTS:
            return True
    return False


def _is_literal(source: Source, sources: Sources) -> bool:
    array = as_array(sources.value(source))
    return array is not None and array.literal


def _is_shifted_name(source: Source, name: str) -> bool:
    """Return whether a name is updated, or given a difference, anywhere in its scope."""
    held = reaching_of(source).bindings.get(name, [])[:MOST_STEPS]
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
                squared = squared or factor.left.deep_equals(factor.right)
                factors += (factor.left, factor.right)
        elif isinstance(factor, cst.Call):
            squared = squared or last_name(factor) in ("square", "abs")
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
            instead = "logits - mx.logsumexp(logits, axis, keepdims=True)"
            change = _log_fix(fact, module, _argument(fact))
            yield unstable(fact, "log(softmax(x))", instead, change)
        return
    inner = computing_call(found.array, sources)
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
        if taken(other, EXP, sources) is not None:
            change = _log_fix(fact, module, other.node)
            yield unstable(fact, "log(1 + exp(x))", "mx.logaddexp(x, 0)", change)
        elif not isinstance(only_end(other, sources).node, (cst.Integer, cst.Float)):
            yield imprecise(fact, "log(1 + x)", "mx.log1p(x)")
        return
    other = beside_one(source, cst.Subtract, sources)
    if other is not None:
        base = squared(other, sources)
        if taken(other, SIGMOID, sources) is not None:
            yield unstable(fact, "log(1 - sigmoid(x))", "nn.log_sigmoid(-x)")
        elif base is not None and taken(base, _TANH, sources) is not None:
            instead = "2 * (math.log(2) - x - nn.softplus(-2 * x))"
            yield unstable(fact, "log(1 - tanh(x) ** 2)", instead)
        return
    pair = _exponential_pair(source, cst.Add, sources)
    if pair is not None and not any(is_bounded(one, sources) for one in pair):
        yield unstable(fact, "log(exp(x) + exp(y))", "mx.logaddexp(x, y)")


def _origin(source: Source, sources: Sources) -> str | None:
    """Return the function of MLX that computes an array, before selections of its elements."""
    calls = [sources.library_call(end) for end in computed(source, sources)]
    names = {None if call is None else call.name for call in calls}
    return names.pop() if len(names) == 1 else None


def _is_sampled(fact: CallFact, module: Module) -> bool:
    """Return whether the logarithm is passed on as logits, where minus infinity is correct."""
    function, statement = fact.place.function, fact.place.statement
    body = statement if function is None else function.node.body
    derived = derived_names(body, set(bound_by(statement)))
    facts = evaluation_of(module).calls_in(body)
    draws = [contents_of(c.node) for c in facts if c.symbol == "mlx.core.random.categorical"]
    return any(fact.node in draw or not derived.isdisjoint(draw.names) for draw in draws)


def _log_of_call(fact: CallFact, inner: LibraryCall, sources: Sources) -> Iterator[Report]:
    if inner.name in SIGMOID:
        yield unstable(fact, "log(sigmoid(x))", "nn.log_sigmoid(x)")
    elif inner.name == "mlx.core.cosh":
        yield unstable(fact, "log(cosh(x))", "mx.logaddexp(x, -x) - math.log(2)")
    elif inner.name in SUM | MEAN and inner.array is not None:
        exponent = taken(inner.array, EXP, sources)
        if exponent is not None and not is_bounded(exponent, sources):
            is_sum = inner.name in SUM
            shown = "log(sum(exp(x)))" if is_sum else "log(mean(exp(x)))"
            instead = "mx.logsumexp(x, axis)" + ("" if is_sum else " - math.log(n)")
            yield unstable(fact, shown, instead)


def _argument(fact: CallFact) -> cst.BaseExpression | None:
    """Return the argument of ``mx.log(y)``, None for ``y.log()``."""
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


def imprecise(fact: Fact, shown: str, instead: str) -> Report:
    """Report a composition that loses digits."""
    return Report.at(
        fact,
        "DTYPE-012",
        message=f"`{shown}` loses the digits of a small `x`",
        help=f"Use `{instead}`",
    )


@check("DTYPE-011", "DTYPE-012", "DTYPE-014", of=("mlx.core.divide", "mlx.core.subtract"))
def quotient_or_difference(fact: BinaryFact | CallFact, module: Module) -> Iterator[Report]:
    """``exp(x) / sum(exp(x))``, ``exp(x) - 1``, ``mean(x * x) - mean(x) ** 2``."""
    operation = arithmetic_of(fact)
    if operation is None:
        return
    left, right = operation.left.node, operation.right.node
    if operation.operator == "/":
        yield from _quotient(fact, left, right, module)
    elif operation.operator == "-":
        sources = sources_of(module)
        if is_one(right) and taken(sources.of(fact, left), EXP, sources) is not None:
            yield imprecise(fact, "exp(x) - 1", "mx.expm1(x)")
        if not isinstance(fact.node, cst.AugAssign):
            yield from _variance(fact, left, right, module)


def _quotient(
    fact: Fact, left: cst.BaseExpression, right: cst.BaseExpression, module: Module
) -> Iterator[Report]:
    sources = sources_of(module)
    numerator, denominator = sources.of(fact, left), sources.of(fact, right)
    weighted = taken(numerator, SUM, sources)  # a weighted mean's ``mx.sum(mx.exp(x) * v)``
    above = exponents(numerator, sources) or (exponents(weighted, sources) if weighted else [])
    if not above:
        if _is_tanh(numerator, denominator, sources):
            yield unstable(fact, "(exp(x) - exp(-x)) / (exp(x) + exp(-x))", "mx.tanh(x)")
        return
    total = taken(denominator, SUM, sources)
    if total is not None:
        summed = exponents(total, sources)
        shared = [x for x in above if any(is_same(x, other, sources) for other in summed)]
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
    found = sides(source, operator, sources)
    one, other = (exponents(side, sources) for side in found) if found else ([], [])
    return (one[0], other[0]) if len(one) == len(other) == 1 else None


def _variance(
    fact: Fact, left: cst.BaseExpression, right: cst.BaseExpression, module: Module
) -> Iterator[Report]:
    sources = sources_of(module)
    mean = squared(sources.of(fact, right), sources)
    averaged = None if mean is None else _averaged(mean, sources)
    if averaged is None:
        return
    squares = _averaged(sources.of(fact, left), sources)
    base = None if squares is None else squared(squares, sources)
    if base is not None and is_same(base, averaged, sources):
        yield Report.at(
            fact,
            "DTYPE-014",
            message="variance as a difference of means loses its digits, and may be negative",
            help="Use `mx.var(x, axis)`, which subtracts the mean before it squares",
        )


def _averaged(source: Source, sources: Sources) -> Source | None:
    """``x`` of ``mx.mean(x)``, ``x.mean()``, ``mx.sum(x) / n``, and of a running sum over n."""
    quotient = sides(source, cst.Divide, sources)
    return taken(source, MEAN, sources) if quotient is None else _summed(quotient[0], sources)


def _summed(source: Source, sources: Sources) -> Source | None:
    """``x`` of ``mx.sum(x)``, and of what ``+= mx.sum(x)`` or ``+= x`` updates."""
    total = taken(source, SUM, sources)
    if total is not None:
        return total
    path = dotted(source.node)
    added = [] if path is None else _added_to(path, source)
    return (taken(added[0], SUM, sources) or added[0]) if len(added) == 1 else None


def _added_to(path: str, source: Source) -> list[Source]:
    """The values that statements add to a name of a function, or to an attribute in any method."""
    function = source.function
    if function is None:
        return []
    owner, _, name = path.partition(".")
    adding: list[FunctionInfo] = [function]
    if name:
        cls = function.cls
        if cls is None or owner != "self" or "." in name:
            return []
        adding = cls.setters.get(name, [])
    return [
        Source(value, statement, one, source.module)
        for one in adding
        if not isinstance(one.node, cst.Lambda)
        for statement in contents_of(one.node.body).statements
        if (value := _addend(statement, path)) is not None
    ]


def _addend(statement: cst.CSTNode, path: str) -> cst.BaseExpression | None:
    """``v`` of ``path += v`` and ``path = path + v``."""
    if isinstance(statement, cst.AugAssign):
        is_sum = isinstance(statement.operator, cst.AddAssign) and dotted(statement.target) == path
        return statement.value if is_sum else None
    if not isinstance(statement, cst.Assign) or len(statement.targets) > 1:
        return None
    value = statement.value
    if dotted(statement.targets[0].target) != path or not isinstance(value, cst.BinaryOperation):
        return None
    is_sum = isinstance(value.operator, cst.Add) and dotted(value.left) == path
    return value.right if is_sum else None


#: By the last name of a function or layer: what its result is.
_MEANINGS = {
    "softmax": "softmax",
    "Softmax": "softmax",
    "sigmoid": "sigmoid",
    "Sigmoid": "sigmoid",
    "Linear": "linear",
}
_LOSSES = "mlx.nn.losses."


def meaning_of(start: Source, sources: Sources) -> str | None:
    """Return what computes an array: softmax, sigmoid, linear, or a quotient by a sum.

    None for several of them, and for everything else.
    """
    ends = computed(start, sources, bounded=True)
    found = {_meaning(end, sources) for end in ends}
    return found.pop() if len(found) == 1 else None


def _meaning(source: Source, sources: Sources) -> str | None:
    call = sources.library_call(source)
    if call is not None and call.name.startswith(("mlx.core.", "mlx.nn.")):
        return _MEANINGS.get(call.name.rpartition(".")[2])
    return "quotient" if _is_normalized(source, sources) else None


def _is_normalized(source: Source, sources: Sources) -> bool:
    """Test whether an expression is ``x / mx.sum(x)``."""
    quotient = sides(source, cst.Divide, sources)
    total = None if quotient is None else taken(quotient[1], SUM, sources)
    if quotient is None or total is None:
        return False
    path = dotted(quotient[0].node)
    return path is not None and path == dotted(total.node)


@check("NN-008", of=[f"{_LOSSES}{name}" for name in ("cross_entropy", "binary_cross_entropy")])
def loss_of_probabilities(fact: CallFact, module: Module) -> Iterator[Report]:
    """``nn.losses.cross_entropy(mx.softmax(x), targets)``."""
    is_binary = (fact.symbol or "").endswith("binary_cross_entropy")
    argument = fact.argument(0, "inputs" if is_binary else "logits")
    if argument is None or argument.star or any(a.star for a in fact.arguments):
        return
    option = fact.argument(3, "with_logits") if is_binary else None
    sources = sources_of(module)
    meaning = meaning_of(sources.of(fact, argument.node), sources)
    if option is None:
        refused: tuple[str, ...] = ("softmax", "sigmoid") if is_binary else ("softmax",)
        if meaning in refused:
            name = "binary_cross_entropy" if is_binary else "cross_entropy"
            instead = "with_logits=False" if is_binary else "the logits"
            yield _report(
                fact,
                argument.node,
                f"`{name}()` takes logits, got probabilities of `{meaning}`",
                f"Pass {instead}: the loss takes the {meaning} of its input",
            )
    elif getattr(option.node, "value", None) == "False" and meaning == "linear":
        yield _report(
            fact,
            argument.node,
            "`binary_cross_entropy(with_logits=False)` takes probabilities, got logits",
            "Leave out `with_logits=False`, or pass `mx.sigmoid(logits)`",
        )


@check("NN-008", of=[f"{_LOSSES}{name}" for name in ("nll_loss", "kl_div_loss")])
def loss_of_no_logarithms(fact: CallFact, module: Module) -> Iterator[Report]:
    """``nn.losses.nll_loss(mx.softmax(x), targets)``."""
    name = (fact.symbol or "").removeprefix(_LOSSES)
    given = [fact.argument(0, "inputs")]
    if name == "kl_div_loss":
        given.append(fact.argument(1, "targets"))
    sources = sources_of(module)
    for argument in given:
        if argument is None or argument.star:
            continue
        meaning = meaning_of(sources.of(fact, argument.node), sources)
        if meaning not in ("softmax", "linear"):
            continue
        shown = "logits" if meaning == "linear" else "probabilities of `softmax`"
        yield _report(
            fact,
            argument.node,
            f"`{name}()` takes log-probabilities, got {shown}",
            "Pass `nn.log_softmax(logits, axis=-1)`",
        )


def _report(fact: CallFact, node: cst.BaseExpression, message: str, instead: str) -> Report:
    return Report.at(fact, "NN-008", node=node, message=message, help=instead, subject=node)


_EXP = frozenset(["mlx.core.exp"])


@check("NAN-001")
def masked_exponential(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``mx.exp(g[:, :, None] - g[:, None, :]) * causal``: infinity times zero."""
    if fact.operator != "*":
        return
    sources = sources_of(module)
    for factor, other in ((fact.left, fact.right), (fact.right, fact.left)):
        if factor.array is None or other.array is None:
            continue
        exponential = only_end(sources.of(fact, factor.node), sources)
        if not isinstance(exponential.node, cst.Call):
            continue
        call = sources.library_call(exponential)
        if call is None or call.name not in _EXP or call.array is None:
            continue
        if _is_of_pairs(only_end(call.array, sources), sources) and _is_mask(
            sources.of(fact, other.node), sources
        ):
            yield Report.at(
                fact,
                message="`exp` overflows where the mask is 0: infinity times 0 is NaN",
                help="Mask before: `mx.exp(mx.where(mask, x, -mx.inf))`",
            )
            return


def _is_of_pairs(difference: Source, sources: Sources) -> bool:
    """Return whether an array has all differences of two of its elements, of both signs."""
    node = difference.node
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Subtract):
        return False
    sides = [_expanded(difference.at(side), sources) for side in (node.left, node.right)]
    return sides[0] is not None and sides[0] == sides[1]


def _expanded(side: Source, sources: Sources) -> str | None:
    """Return the path of the array to which ``g[:, None]`` or ``expand_dims`` adds an axis."""
    node = only_end(side, sources).node
    if isinstance(node, cst.Subscript):
        added = any(
            dotted(part) in ("None", "mx.newaxis") for part in contents_of(node).of(cst.Name)
        )
        return dotted(node.value) if added else None
    if isinstance(node, cst.Call) and last_name(node) == "expand_dims":
        func = node.func
        is_method = isinstance(func, cst.Attribute) and dotted(func.value) not in ("mx", "mlx.core")
        array = func.value if is_method and isinstance(func, cst.Attribute) else node.args[0].value
        return dotted(array)
    return None


_TRIANGLES = frozenset(("tril", "triu", "tri", "create_additive_causal_mask"))


def _is_mask(start: Source, sources: Sources) -> bool:
    """Return whether an array of numbers is 0 in places: a triangle, or a cast comparison."""
    for end in computed(start, sources):
        node = end.node
        call = sources.library_call(end) if isinstance(node, cst.Call) else None
        if call is not None and call.name.rpartition(".")[2] in _TRIANGLES:
            return True
        if isinstance(node, cst.Comparison):
            return True
    return False
