"""GRAD-005: distances of an array's rows from each other, whose gradient is NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.value_sources import sources_of
from embercoach.checks.arrays.numerics.compositions import (
    MEAN,
    SUM,
    called,
    is_same,
    only_end,
    squared,
)
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import BinaryFact, CallFact, Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source, Sources

_SUMS = SUM | MEAN


@check("GRAD-005", of=("mlx.core.linalg.norm", "mlx.core.sqrt", ".sqrt"))
def distance_from_itself(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.linalg.norm(x[:, None] - x[None], axis=-1)`` in a differentiated function."""
    info = fact.place.function
    if info is None or not info.differentiated:
        return
    sources = sources_of(module)
    taken = sources.library_call(sources.of(fact, fact.node))
    if taken is None or taken.array is None:
        return
    if taken.name != "mlx.core.linalg.norm":
        yield from _root_of(fact, taken.array, sources)
    elif _is_from_itself(taken.array, sources):
        yield _report(fact)


@check("GRAD-005")
def root_by_power(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``mx.sum(mx.square(x[:, None] - x[None]), -1) ** 0.5``."""
    info, number = fact.place.function, fact.right.number
    if fact.operator != "**" or number is None or number.const != 0.5:
        return
    if info is not None and info.differentiated:
        sources = sources_of(module)
        yield from _root_of(fact, sources.of(fact, fact.left.node), sources)


def _root_of(fact: Fact, source: Source, sources: Sources) -> Iterator[Report]:
    summed = called(source, sources)
    difference = None
    if summed is not None and summed.name in _SUMS:
        difference = squared(summed.array, sources)
    if difference is not None and _is_from_itself(difference, sources):
        yield _report(fact)


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
    call = called(found, sources)
    is_expansion = call is not None and call.name == "mlx.core.expand_dims"
    return call.array if call is not None and is_expansion else None


def _keeps_all(index: cst.BaseSlice) -> bool:
    """Test whether an index is ``None``, ``:`` or ``...``."""
    if isinstance(index, cst.Slice):
        return index.lower is None and index.upper is None and index.step is None
    value = index.value if isinstance(index, cst.Index) else None
    return isinstance(value, cst.Ellipsis) or getattr(value, "value", None) == "None"
