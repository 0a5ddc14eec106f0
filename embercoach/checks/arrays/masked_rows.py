"""API-026: additive masks with rows of minus infinity alone, whose softmax is NaN."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.value_sources import Source, Sources, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted, evaluated
from embercoach.analysis.values.facts import CallFact
from embercoach.checks.arrays.compositions import is_same, only_end
from embercoach.checks.registry import Report, check

_MOST_STEPS = 6
#: Functions that keep the elements of a mask.
_KEEPING = frozenset(("expand_dims", "astype", "reshape", "stop_gradient"))


@check("API-026", of=("mlx.core.where",))
def masked_rows(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.where(valid[:, None] & valid[:, :, None], 0.0, -mx.inf)``."""
    given = [argument.node for argument in fact.arguments if not argument.star]
    if len(given) != 3:
        return
    sources = sources_of(module)
    condition, first, second = (sources.of(fact, node) for node in given)
    for kept, masked in ((first, second), (second, first)):
        if not _is_infinite(masked, sources) or not _is_zero(kept, sources):
            continue
        if masked is second and _is_outer(condition, sources):
            yield Report.at(
                fact,
                message="mask has rows of -inf alone at padded positions: softmax gives NaN",
                help="Mask the keys alone, or use a large finite number such as -1e4",
            )
        elif _hides_diagonal(condition, sources, masks=masked is first):
            yield _without_diagonal(fact)


@check("API-026", of=("mlx.core.triu", "mlx.core.tril"))
def masked_diagonal(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.triu(mx.full((n, n), -mx.inf))``, of which the first row is -inf alone."""
    array, diagonal = fact.argument(0, "x"), fact.argument(1, "k")
    sources = sources_of(module)
    k = None if diagonal is None else diagonal.node
    is_main = k is None or (isinstance(k, cst.Integer) and evaluated(k) == 0)
    # The exponential of such a matrix is 0 there, which decays need.
    of_attention = any(word in module.source.lower() for word in ("softmax", "attention", "attn"))
    if (
        array is not None
        and is_main
        and of_attention
        and _is_infinite(sources.of(fact, array.node), sources)
    ):
        yield _without_diagonal(fact)


def _without_diagonal(fact: CallFact) -> Report:
    return Report.at(
        fact,
        message="mask hides the diagonal: a row is -inf alone, and its softmax NaN",
        help="Keep a position's own key: `mx.triu(..., k=1)`, or a strict comparison",
    )


def _hides_diagonal(condition: Source, sources: Sources, *, masks: bool) -> bool:
    """Test for ``rows[None] >= rows[:, None]`` where that masks, for ``>`` where it keeps."""
    end = only_end(condition, sources)
    node = end.node
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return False
    (target,) = node.comparisons
    with_equal = isinstance(target.operator, (cst.LessThanEqual, cst.GreaterThanEqual))
    if not with_equal and not isinstance(target.operator, (cst.LessThan, cst.GreaterThan)):
        return False
    sides = (end.at(node.left), end.at(target.comparator))
    return with_equal == masks and _are_one(*sides, sources)


def _is_outer(mask: Source, sources: Sources) -> bool:
    """Test for the product of a mask with itself, along two axes."""
    end = only_end(mask, sources)
    for _ in range(_MOST_STEPS):
        node = end.node
        if isinstance(node, cst.BinaryOperation):
            if not isinstance(node.operator, (cst.Multiply, cst.BitAnd)):
                return False
            return _are_one(end.at(node.left), end.at(node.right), sources)
        if not isinstance(node, cst.Call):
            return False
        if last_name(node) == "logical_and" and len(node.args) > 1:
            return _are_one(end.at(node.args[0].value), end.at(node.args[1].value), sources)
        inner = _inside(end, sources)
        if inner is None:
            return False
        end = only_end(inner, sources)
    return False


def _are_one(left: Source, right: Source, sources: Sources) -> bool:
    """Return whether two masks are one, with other axes."""
    first, second = (_expanded(side, sources) for side in (left, right))
    if first is None or second is None:
        return False
    return not left.node.deep_equals(right.node) and is_same(first, second, sources)


def _expanded(source: Source, sources: Sources) -> Source | None:
    """Return ``valid`` of ``valid[:, None]`` and ``mx.expand_dims(valid, 1)``."""
    end = only_end(source, sources)
    node = end.node
    if isinstance(node, cst.Subscript):
        parts = [element.slice for element in node.slice]
        is_new = any(isinstance(p, cst.Index) and dotted(p.value) == "None" for p in parts)
        return end.at(node.value) if is_new else None
    is_call = isinstance(node, cst.Call) and last_name(node) == "expand_dims"
    return _inside(end, sources) if is_call else None


def _inside(source: Source, sources: Sources) -> Source | None:
    """Return the array whose elements a call keeps."""
    node = source.node
    if not isinstance(node, cst.Call) or last_name(node) not in _KEEPING:
        return None
    called = sources.library_call(source)
    if called is not None:
        return called.array
    return source.at(node.func.value) if isinstance(node.func, cst.Attribute) else None


def _is_infinite(source: Source, sources: Sources) -> bool:
    """Test for ``-mx.inf``, ``float("-inf")`` and an array of it."""
    node = only_end(source, sources).node
    for _ in range(_MOST_STEPS):
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            inner = node.expression
            text = _text(inner)
            return text == "inf" or (dotted(inner) or "").endswith((".inf", ".infinity"))
        if not isinstance(node, cst.Call) or not node.args:
            return False
        if _text(node) == "-inf":
            return True
        if last_name(node) not in ("array", "full"):
            return False
        node = node.args[-1 if last_name(node) == "full" else 0].value
    return False


def _text(node: cst.BaseExpression) -> str | None:
    """Return the text of ``float("-inf")``."""
    if not isinstance(node, cst.Call) or dotted(node.func) != "float" or not node.args:
        return None
    literal = node.args[0].value
    value = evaluated(literal) if isinstance(literal, cst.SimpleString) else None
    return value.lower() if isinstance(value, str) else None


def _is_zero(source: Source, sources: Sources) -> bool:
    node = only_end(source, sources).node
    if isinstance(node, cst.Call) and last_name(node) == "array" and node.args:
        node = node.args[0].value
    if isinstance(node, cst.Call):
        return last_name(node) in ("zeros", "zeros_like")
    return isinstance(node, (cst.Integer, cst.Float)) and evaluated(node) == 0
