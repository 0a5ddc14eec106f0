"""Counts of the simulator for the variants of a piece."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from embercoach.simulator import activate
from tests.benchmarks.advice.figures import Figure
from tests.benchmarks.advice.piece import Piece
from tests.benchmarks.advice.timing import differing


def counted(piece: Piece, inputs: Sequence[mx.array]) -> list[Figure]:
    """Simulate the variants; one without a launch has no counts."""
    figures = []
    base: Sequence[mx.array] = ()
    for variant in piece.variants:
        with activate() as recorder:
            outputs = variant.call(*inputs, backend="metal")
            mx.eval(outputs)
        base = base or outputs
        launches = recorder.launches
        figures.append(
            Figure(
                piece.name,
                piece.claim,
                variant.name,
                different=differing(outputs, base) if variant.same else None,
                device_bytes=sum(made.device_bytes for made in launches) if launches else None,
                accesses=sum(made.accesses for made in launches) if launches else None,
                findings=tuple(sorted({finding.kind for finding in recorder.findings})),
            )
        )
    return figures
