"""API-007: linear algebra that the GPU lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.fallbacks import REFUSED, is_expected
from embercoach.checks.registry import Report, check

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
