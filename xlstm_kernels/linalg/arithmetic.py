"""Operations that decompositions, systems of equations and their gradients share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from xlstm_kernels import executors, products
from xlstm_kernels.differentiation import Arrays


def multiply(a: mx.array, b: mx.array) -> mx.array:
    """The product of float32 matrices to the digits of float32, also where MLX takes TF32."""
    exact = products.exact()
    return exact.operand(a) @ exact.operand(b)


def of_finite(decompose: Callable[[mx.array], Arrays], a: mx.array) -> Arrays:
    """Values (B, N) and vectors (B, N, L) of matrices (B, M, N), NaN where one is not finite.

    For a matrix that is not finite, MLX returns uninitialized memory.
    """
    finite = mx.all(mx.isfinite(a), axis=(1, 2), keepdims=True)
    results = decompose(mx.where(finite, a, mx.zeros_like(a)))
    nan = mx.array(math.nan, dtype=a.dtype)
    return tuple(mx.where(finite if r.ndim == 3 else finite[:, 0], r, nan) for r in results)


def quotient(dividend: mx.array, divisor: mx.array) -> mx.array:
    """Divide, with 0 / 0 = 0."""
    zero = mx.zeros_like(divisor)
    nothing = mx.logical_and(mx.equal(dividend, zero), mx.equal(divisor, zero))
    return dividend / mx.where(nothing, mx.ones_like(divisor), divisor)


@functools.cache
def unmapped(operator: str) -> Any:
    """The identity of an array, which refuses `mx.vmap`, as LAPACK's factors have no rule."""

    def refuse(*_: Any) -> Any:
        raise ValueError(
            f"{operator}: MLX cannot vmap it; call it once with the mapped axis as a batch axis"
        )

    guard: Any = mx.custom_function(lambda array: array)
    guard.vmap(refuse)
    return guard


@functools.cache
def replayed(function: Callable[..., Any], backend: str, **settings: int) -> Callable[..., Any]:
    """`function` of arrays, with its backend and settings, for many launches one after another.

    On CUDA a launch takes less time than Python does to record it: MLX replays what it recorded for
    the first arrays of a shape.
    """
    run = functools.partial(function, backend=backend, **settings)
    return mx.compile(run) if backend == executors.CudaExecutor.name else run
