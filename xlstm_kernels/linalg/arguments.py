"""Checks on the arguments of the functions of `xlstm_kernels.linalg`.

Shapes and dtypes are checked in each call, and raise what NumPy raises. Values are not: MLX is
lazy, and a look at them would wait for the GPU. Where NumPy raises because of values, as for a
singular matrix, the results of that matrix are NaN, and those of other matrices are not touched.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_map

from xlstm_kernels.arguments import FLOATING, host_number, require_floating
from xlstm_kernels.executors import on_stream

P = ParamSpec("P")
R = TypeVar("R")

#: What NumPy raises, so that code written for NumPy catches it.
LinAlgError = np.linalg.LinAlgError


def in_float32(function: Callable[P, R]) -> Callable[P, R]:
    """Let `function` take float16 and bfloat16: it computes in float32, results have their dtype.

    Arrays of several dtypes are promoted as MLX promotes them. `on_stream` is applied too.
    """

    @on_stream
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves: Any = tree_flatten((args, kwargs))
        given = [x.dtype for _, x in leaves if isinstance(x, mx.array)]
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


def require_matrices(
    operator: str, argument: str, array: object, *, square: bool = False
) -> mx.array:
    """Accept and return floating matrices (..., M, N), with `square` (..., N, N).

    Raise a TypeError for another dtype, or for an object that is not an array, a LinAlgError for
    fewer axes, or for other shapes.
    """
    require_floating(operator, argument, array)
    assert isinstance(array, mx.array)
    if array.ndim < 2:
        raise LinAlgError(
            f"{operator}: {argument} must have at least two axes, got shape {array.shape}"
        )
    if square and array.shape[-2] != array.shape[-1]:
        raise LinAlgError(
            f"{operator}: {argument} must have square matrices, got shape {array.shape}"
        )
    return array


def flat_batch(array: mx.array) -> mx.array:
    """Matrices (..., M, N) as (batch, M, N), what kernels take."""
    return array.reshape((math.prod(array.shape[:-2]), *array.shape[-2:]))


def relative_bound(
    operator: str, argument: str, given: float | mx.array | None, longest: int
) -> mx.array:
    """The bound of singular values relative to the largest: NumPy's for matrices of this length."""
    if isinstance(given, mx.array):
        return given.astype(mx.float32)
    default = longest * float(mx.finfo(mx.float32).eps)
    number = default if given is None else host_number(operator, argument, given)
    return mx.array(number, dtype=mx.float32)


class System(NamedTuple):
    """The system a x = b, a (B, M, N) and b (B, M, K), the caller's batch axes and shape of x."""

    a: mx.array
    b: mx.array
    batch: tuple[int, ...]
    shape: tuple[int, ...]


def broadcast_system(operator: str, a: object, b: object, *, square: bool = True) -> System:
    """Accept a system of equations, whose batch axes broadcast.

    As in NumPy 2, a `b` of one axis is a vector, and of more axes matrices. Raise what
    `require_matrices` does for either, and a ValueError for shapes that do not fit.
    """
    left = require_matrices(operator, "a", a, square=square)
    vector = isinstance(b, mx.array) and b.ndim == 1
    right = require_matrices(operator, "b", b[:, None] if vector else b)  # type: ignore[index]
    shapes = f"got shapes {left.shape}, {right.shape[: -1 if vector else None]}"
    if left.shape[-2] != right.shape[-2]:
        raise LinAlgError(
            f"{operator}: b must have as many rows as a, {shapes}; "
            "a batch of vectors is b[..., None]"
        )
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ValueError(f"{operator}: batch axes of a and b do not broadcast, {shapes}") from None
    left, right = (mx.broadcast_to(array, (*batch, *array.shape[-2:])) for array in (left, right))
    shape = (*batch, left.shape[-1], right.shape[-1])
    return System(flat_batch(left), flat_batch(right), batch, shape[:-1] if vector else shape)
