"""API-024: differences from a mean that are divided by a standard deviation of 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.values.facts import arithmetic_of
from embercoach.checks.arrays.compositions import computing_call, sides
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.dataflow.value_sources import Source, Sources
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import BinaryFact, CallFact, Fact

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
