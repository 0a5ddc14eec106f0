"""Products with quantized matrices, in NumPy's float64, from the definition of `mx.quantize`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def levels(w: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    """(N, K * bits / 32) words -> (N, K) numbers, from the lowest bits of a word up."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return (w[..., None] >> shifts & np.uint32(2**bits - 1)).reshape(w.shape[0], -1)


def matrix(w: NDArray[np.uint32], scales: Numbers, biases: Numbers, bits: int) -> Numbers:
    """The matrix (N, K) that they stand for; scales and biases: (N, K / group_size)."""
    groups = levels(w, bits).reshape(*scales.shape, -1)
    return (groups * scales[..., None] + biases[..., None]).reshape(w.shape[0], -1)


def gradients(
    x: Numbers,
    w: NDArray[np.uint32],
    scales: Numbers,
    biases: Numbers,
    bits: int,
    cotangent: Numbers,
) -> list[Numbers]:
    """Of x (M, K) times the transposed matrix, in x, scales and biases."""
    in_groups = (cotangent.T @ x).reshape(*scales.shape, -1)
    groups = levels(w, bits).reshape(in_groups.shape)
    in_x = cotangent @ matrix(w, scales, biases, bits)
    return [in_x, (in_groups * groups).sum(axis=2), in_groups.sum(axis=2)]
