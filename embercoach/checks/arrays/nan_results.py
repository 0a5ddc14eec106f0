"""API-024, GRAD-005 and GRAD-007: deviations and distances that may be 0, which give NaN."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.value_sources import Source, Sources, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import BinaryFact, CallFact, Fact, arithmetic_of, calls_of
from embercoach.checks.arrays.compositions import (
    MEAN,
    SUM,
    computing_call,
    is_same,
    only_end,
    sides,
    squared,
    taken,
)
from embercoach.checks.registry import Report, check

_SUMS, _EXPANSION = SUM | MEAN, frozenset(("mlx.core.expand_dims",))
_NORM = "mlx.core.linalg.norm"


@check("GRAD-005", "GRAD-007", of=(_NORM, "mlx.core.sqrt", ".sqrt"))
def distance_from_itself(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.linalg.norm(x[:, None] - x[None], axis=-1)`` in a differentiated function."""
    info = fact.place.function
    if info is None or not info.differentiated:
        return
    sources = sources_of(module)
    root = sources.library_call(sources.of(fact, fact.node))
    if root is None or root.array is None:
        return
    if root.name != _NORM:
        yield from _root_of(fact, root.array, sources)
    elif fact.argument(1, "ord") is None:
        yield from _norm_of(fact, root.array, fact.node, sources)


@check("GRAD-005", "GRAD-007")
def root_by_power(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``mx.sum(mx.square(x[:, None] - x[None]), -1) ** 0.5``."""
    info, number = fact.place.function, fact.right.number
    if fact.operator != "**" or number is None or number.const != 0.5:
        return
    if info is not None and info.differentiated:
        sources = sources_of(module)
        yield from _root_of(fact, sources.of(fact, fact.left.node), sources)


def _root_of(fact: Fact, source: Source, sources: Sources) -> Iterator[Report]:
    summed = only_end(source, sources)
    array = taken(summed, _SUMS, sources)
    difference = None if array is None else squared(array, sources)
    if difference is not None:
        yield from _norm_of(fact, difference, summed.node, sources)


def _norm_of(
    fact: Fact, difference: Source, reduction: cst.BaseExpression, sources: Sources
) -> Iterator[Report]:
    """Report the norms of differences: of all pairs of rows, or of each row."""
    if _is_from_itself(difference, sources):
        yield _report(fact)
    elif _has_axis(reduction, sources.module) and _is_difference(difference, sources):
        yield Report.at(
            fact,
            "GRAD-007",
            message="gradient is NaN where both points are equal: the distance is 0",
            help="Add an epsilon to the sum of squares: `mx.sqrt(mx.sum(d * d, -1) + 1e-12)`",
        )


def _has_axis(reduction: cst.BaseExpression, module: Module) -> bool:
    """Return whether a sum or a norm is one for each row."""
    fact = calls_of(module).get(reduction)
    if fact is None:
        return False
    index = 0 if fact.symbol is None else 1
    axis = fact.argument(index + (fact.symbol == _NORM), "axis")
    return axis is not None and getattr(axis.node, "value", None) != "None"


def _is_difference(source: Source, sources: Sources) -> bool:
    """Test whether an expression is the difference of two arrays that the gradient is taken of."""
    end = only_end(source, sources)
    node = end.node
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Subtract):
        return False
    sides = (node.left, node.right)
    return not any(isinstance(side, (cst.Integer, cst.Float)) or _is_slice(side) for side in sides)


def _is_slice(node: cst.CSTNode) -> bool:
    """Test whether an expression is ``x[1:]`` or ``x[:, None]``."""
    return isinstance(node, cst.Subscript) and all(
        isinstance(element.slice, cst.Slice) or _keeps_all(element.slice) for element in node.slice
    )


def _report(fact: Fact) -> Report:
    return Report.at(
        fact,
        "GRAD-005",
        message="gradient is NaN: the distance of each row from itself is 0",
        help="Add an epsilon to the sum of squares, before the root",
    )


def _is_from_itself(source: Source, sources: Sources) -> bool:
    """Test whether an expression is ``x[:, None] - x[None]``."""
    found = only_end(source, sources)
    node = found.node
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Subtract):
        return False
    if node.left.deep_equals(node.right):
        return False
    one, other = (_expanded(found.at(side), sources) for side in (node.left, node.right))
    return one is not None and other is not None and is_same(one, other, sources)


def _expanded(source: Source, sources: Sources) -> Source | None:
    """``x`` of ``x[:, None]`` and ``mx.expand_dims(x, 1)``."""
    found = only_end(source, sources)
    node = found.node
    if isinstance(node, cst.Subscript):
        is_expansion = all(_keeps_all(element.slice) for element in node.slice)
        return found.at(node.value) if is_expansion else None
    return taken(found, _EXPANSION, sources)


def _keeps_all(index: cst.BaseSlice) -> bool:
    """Test whether an index is ``None``, ``:`` or ``...``."""
    if isinstance(index, cst.Slice):
        return index.lower is None and index.upper is None and index.step is None
    value = index.value if isinstance(index, cst.Index) else None
    return isinstance(value, cst.Ellipsis) or getattr(value, "value", None) == "None"


_DEVIATION = "mlx.core.std"
_ROOT = "mlx.core.sqrt"
_VARIANCE = "mlx.core.var"


@check("API-024", of=("mlx.core.divide",))
def zero_deviation(fact: BinaryFact | CallFact, module: Module) -> Iterator[Report]:
    """``(x - x.mean(axis=1)) / x.std(axis=1)``."""
    operation = arithmetic_of(fact)
    if operation is None or operation.operator != "/":
        return
    sources = sources_of(module)
    if not _is_deviation(sources.of(fact, operation.right.node), sources):
        return
    if sides(sources.of(fact, operation.left.node), cst.Subtract, sources) is None:
        return
    if _is_compared(operation.right.node, fact, module):
        return
    yield Report.at(
        fact,
        message="division by a standard deviation, which is 0 for equal values",
        help="Add a small number to it: `/ (std + 1e-6)`",
    )


def _is_compared(node: cst.BaseExpression, fact: Fact, module: Module) -> bool:
    """Return whether the function asks for the value of a name, as in ``if std > 0:``."""
    function = fact.place.function
    body: cst.CSTNode = module.tree if function is None else function.node.body
    compared = contents_of(body).of(cst.Comparison)
    return isinstance(node, cst.Name) and any(
        node.value in contents_of(one).names for one in compared
    )


def _is_deviation(source: Source, sources: Sources) -> bool:
    call = computing_call(source, sources)
    if call is None:
        return False
    if call.name == _ROOT and call.array is not None:
        inner = computing_call(call.array, sources)
        return inner is not None and inner.name == _VARIANCE
    return call.name == _DEVIATION
