"""Checks on the arguments of the functions of `xlstm_kernels.linalg`.

Shapes and dtypes are checked in each call, and raise what NumPy raises. Values are not: MLX is
lazy, and a look at them would wait for the GPU. Where NumPy raises because of values, as for a
singular matrix, the results of that matrix are NaN, and those of other matrices are not touched.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

from xlstm_kernels.arguments import FLOATING, require_floating

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

#: What NumPy raises, so that code written for NumPy catches it.
LinAlgError = np.linalg.LinAlgError


def in_float32(function: Callable[P, R]) -> Callable[P, R]:
    """Let `function` take float16 and bfloat16: it computes in float32, results have their dtype.

    Arrays of several dtypes are promoted as MLX promotes them.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = [x.dtype for x in (*args, *kwargs.values()) if isinstance(x, mx.array)]
        if mx.float16 not in given and mx.bfloat16 not in given:
            return function(*args, **kwargs)
        dtype = functools.reduce(mx.result_type, (d for d in given if d in FLOATING))

        def widened(x: Any) -> Any:
            return x.astype(mx.float32) if isinstance(x, mx.array) and x.dtype in FLOATING else x

        def rounded(x: Any) -> Any:
            return x.astype(dtype) if x.dtype == mx.float32 else x

        wide: Any = tree_map(widened, (args, kwargs))
        results: R = tree_map(rounded, function(*wide[0], **wide[1]))
        return results

    return call


def require_matrices(operator: str, argument: str, array: object) -> None:
    """Accept a floating array of at least two axes.

    Raises:
        TypeError: for another dtype, or for an object that is not an array.
        LinAlgError: for fewer axes.
    """
    require_floating(operator, argument, array)
    assert isinstance(array, mx.array)
    if array.ndim < 2:
        raise LinAlgError(
            f"{operator}: {argument} must have at least two axes, got shape {array.shape}"
        )


def require_square(operator: str, argument: str, array: object) -> None:
    """Accept floating matrices with as many rows as columns.

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


def broadcast_system(
    operator: str, a: object, b: object, *, square: bool = True
) -> tuple[mx.array, mx.array]:
    """Accept a system of equations, and return it with batch axes made equal by broadcasting.

    As in NumPy 2, a `b` of one axis is a vector, and of more axes matrices.

    Returns:
        a (..., M, N), M = N if it has to be `square`, and b (..., M, K); of a vector K is 1.

    Raises:
        TypeError: for another dtype, or for an object that is not an array.
        LinAlgError: for an `a` without (square) matrices, or another number of rows.
        ValueError: for batch axes that do not broadcast.
    """
    (require_square if square else require_matrices)(operator, "a", a)
    assert isinstance(a, mx.array)
    if isinstance(b, mx.array) and b.ndim == 1:
        b = b[:, None]
    require_matrices(operator, "b", b)
    assert isinstance(b, mx.array)
    if a.shape[-2] != b.shape[-2]:
        raise LinAlgError(
            f"{operator}: b must have as many rows as a, got shapes {a.shape} and {b.shape}; "
            "a batch of vectors is b[..., None]"
        )
    if a.shape[:-2] == b.shape[:-2]:
        return a, b
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(
            f"{operator}: batch axes of a and b do not broadcast, got shapes {a.shape}, {b.shape}"
        ) from None
    whole_a = mx.broadcast_to(a, (*batch, *a.shape[-2:]))
    return whole_a, mx.broadcast_to(b, (*batch, *b.shape[-2:]))
