"""Checks on the arguments of the functions of `xlstm_kernels.linalg`.

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
        TypeError: for another dtype, or for an object that is not an array.
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
        TypeError: for another dtype, or for an object that is not an array.
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


def broadcast_system(operator: str, a: object, b: object) -> tuple[mx.array, mx.array]:
    """Accept a system of equations, and return it with batch axes made equal by broadcasting.

    As in NumPy 2, a `b` of one axis is a vector, and of more axes matrices.

    Returns:
        a (..., N, N) and b (..., N, K); of a vector K is 1.

    Raises:
        TypeError: for another dtype, or for an object that is not an array.
        LinAlgError: for an `a` that has no square matrices.
        ValueError: for shapes that do not fit.
    """
    require_square(operator, "a", a)
    assert isinstance(a, mx.array)
    if isinstance(b, mx.array) and b.ndim == 1:
        b = b[:, None]
    require_matrices(operator, "b", b)
    assert isinstance(b, mx.array)
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"{operator}: b must have {a.shape[-1]} rows as a has, got shapes {a.shape}, {b.shape}"
        )
    return broadcast_batches(operator, a, b)


def broadcast_batches(operator: str, a: mx.array, b: mx.array) -> tuple[mx.array, mx.array]:
    """Matrices a (..., M, N) and b (..., K, L) with batch axes made equal by broadcasting.

    Raises:
        ValueError: for batch axes that do not broadcast.
    """
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(
            f"{operator}: batch axes of a and b do not broadcast, got shapes {a.shape}, {b.shape}"
        ) from None
    whole_a = mx.broadcast_to(a, (*batch, *a.shape[-2:]))
    return whole_a, mx.broadcast_to(b, (*batch, *b.shape[-2:]))
