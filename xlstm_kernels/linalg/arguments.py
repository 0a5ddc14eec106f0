"""What the functions of `xlstm_kernels.linalg` accept.

Shapes and dtypes are checked in each call, and raise what NumPy raises. Values are not: MLX is
lazy, and a look at them would wait for the GPU. Where NumPy raises because of values, as for a
singular matrix, the results of that matrix are NaN, and those of other matrices are not touched.
"""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np

#: What NumPy raises, so that code written for NumPy catches it.
LinAlgError = np.linalg.LinAlgError


def require_matrices(operator: str, argument: str, array: object) -> None:
    """Accept a float32 array of at least two axes.

    Raises:
        TypeError: for another dtype, or for what is no array.
        LinAlgError: for fewer axes.
    """
    if not isinstance(array, mx.array):
        raise TypeError(
            f"{operator}: {argument} must be an mlx.core.array, got {type(array).__name__}"
        )
    if array.dtype != mx.float32:
        raise TypeError(
            f"{operator}: {argument} must be float32, got {array.dtype}; "
            "convert it with .astype(mx.float32)"
        )
    if array.ndim < 2:
        raise LinAlgError(
            f"{operator}: {argument} must have at least two axes, got shape {array.shape}"
        )


def require_square(operator: str, argument: str, array: object) -> None:
    """Accept float32 matrices with as many rows as columns.

    Raises:
        TypeError: for another dtype, or for what is no array.
        LinAlgError: for other shapes.
    """
    require_matrices(operator, argument, array)
    assert isinstance(array, mx.array)
    rows, columns = array.shape[-2:]
    if rows != columns:
        raise LinAlgError(
            f"{operator}: {argument} must have square matrices, got shape {array.shape}"
        )


def flat_batch(array: mx.array) -> mx.array:
    """Matrices (..., M, N) as (batch, M, N), what kernels take."""
    return array.reshape((math.prod(array.shape[:-2]), *array.shape[-2:]))
