"""API-006, API-007: softmax over all axes, and linear algebra that the GPU lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.values.joins import as_array
from embercoach.checks.fallbacks import REFUSED, is_expected
from embercoach.checks.registry import ProposedFix, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module

#: Functions of ``mx.linalg`` that raise on a stream of the GPU.
_ON_CPU = """
cholesky cholesky_inv eig eigh eigvals eigvalsh inv lu lu_factor pinv qr solve solve_triangular svd
tri_inv
"""
ON_CPU = tuple(f"mlx.core.linalg.{name}" for name in _ON_CPU.split())


@check("API-006", of=("mlx.core.softmax", "mlx.core.logsumexp", ".logsumexp"))
def over_all_axes(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.softmax(scores)`` of two or more axes."""
    if fact.entry is None or any(a.star for a in fact.arguments):
        return
    given = {param.name: argument for param, argument in fact.matched}
    if "axis" in given:
        return
    array = fact.array
    if array is None:
        first = fact.positional(0)
        array = None if first is None else as_array(first.value)
    sizes = None if array is None or array.shape is None else array.shape.sizes
    if sizes is None or sum(size != 1 for size in sizes) < 2:
        return
    name = fact.entry.name.rpartition(".")[2]
    yield Report.at(
        fact,
        "API-006",
        message=f"`{name}` without `axis` reduces all {len(sizes)} axes",
        help="Pass the axis: `axis=-1`, or `axis=None` if all axes are meant",
        change=_last_axis(fact, module),
    )


def _last_axis(fact: CallFact, module: Module) -> ProposedFix | None:
    if not fact.node.args:
        return None
    last = fact.node.args[-1].value
    text = f"{module.parsed.code(last)}, axis=-1"
    return ProposedFix("Reduce the last axis", False, ((last, text),))


@check("API-007", of=ON_CPU)
def linear_algebra(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.linalg.inv(x)`` on the default device, which is the GPU."""
    if fact.keyword("stream") is not None or any(a.star for a in fact.arguments):
        return
    if _chooses_device(module) or any(map(_chooses_device, module.imported)):
        return
    if is_expected(module, fact.place.statement, REFUSED | {"RuntimeError"}, broadly=True):
        return
    name = (fact.symbol or "").rpartition(".")[2]
    yield Report.at(
        fact,
        "API-007",
        message=f"`mx.linalg.{name}` raises on the GPU, the default device",
        help="Pass `stream=mx.cpu`",
    )


def _chooses_device(module: Module) -> bool:
    """Test whether a file names the CPU, or takes a stream from elsewhere."""
    source = module.source
    return "cpu" in source or "stream" in source or "set_default_device" in source
