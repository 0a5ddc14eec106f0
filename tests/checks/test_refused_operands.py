"""API-029: operands that MLX refuses."""

from __future__ import annotations

from tests.checks.marked import check_marked


def test_operands_by_evidence() -> None:
    check_marked(
        """
from typing import Dict, Optional

import mlx.core as mx


def biased(logits: mx.array, bias: Optional[Dict[int, float]], mean: list[float]):
    def sample(x: mx.array):
        return x + bias if bias else x  # reported

    if bias is not None:
        logits += bias  # reported
    return sample(logits) - mean


def scaled(x: mx.array, sizes, is_last):
    scales = [1 / size for size in sizes]
    if is_last:
        return scales * x  # reported
    scales = mx.array(scales)
    return x * scales


def tried(x: mx.array):
    try:
        return x + (1, 2)
    except ValueError:
        return x + mx.array((1, 2))


def written(x: mx.array):
    x = x @ {1.0}  # reported
    rows = []
    rows += mx.zeros(3)  # reported
    return mx.ones(3) - None  # reported
""",
        "API-029",
    )
