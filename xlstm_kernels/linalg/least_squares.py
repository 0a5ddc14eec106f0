"""Least squares solutions of systems of linear equations."""

from __future__ import annotations

import functools
from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels.arguments import host_number
from xlstm_kernels.differentiation import Arrays, Operation, decomposition
from xlstm_kernels.executors import StreamLike, resolve
from xlstm_kernels.linalg.arguments import broadcast_system, in_float32, relative_bound
from xlstm_kernels.linalg.arithmetic import multiply
from xlstm_kernels.linalg.singular_values import svd


class LstsqResult(NamedTuple):
    """The results of `lstsq`, in NumPy's order."""

    x: mx.array
    residuals: mx.array
    rank: mx.array
    s: mx.array


@in_float32
def lstsq(
    a: mx.array,
    b: mx.array,
    rcond: float | None = None,
    *,
    backend: str | None = None,
    stream: StreamLike = None,
) -> LstsqResult:
    """Solve a x = b in the least squares sense, as `numpy.linalg.lstsq`, of batches too.

    Of several solutions x is the one of least norm. It is computed with the singular value
    decomposition: singular values up to `rcond` times the greatest one are taken as zero.

    The gradient is that of Golub and Pereyra (1973), for matrices that keep their rank. x and
    residuals are differentiable any number of times; for a gradient in s call `svdvals`. Errors are
    those of `lu`, a TypeError for an `rcond` that is not a number, a LinAlgError for a 0-d `b` or
    another number of rows, and a ValueError for batch axes that do not broadcast.

    Args:
        a: (..., M, N) float32.
        b: (M,) or (..., M, K) float32. Batch axes broadcast.
        rcond: relative bound of singular values; None for the epsilon of float32 times max(M, N),
            a negative one for the epsilon.
        backend: as in `svd`.

    Returns:
        x: (..., N, K), or (..., N) for b (M,).
        residuals: (..., K) the squared norms of the columns of b - a x, K = 1 for b (M,); NaN where
            the rank is below N. As in NumPy, of shape (..., 0) if M <= N. For a rank below N, NumPy
            returns no residuals either, but a shape cannot depend on values here.
        rank: (...) int32.
        s: (..., min(M, N)) singular values, descending.
        Where a matrix `a` is not finite, x and s are NaN and the rank is 0; NumPy raises.
    """
    flat_a, flat_b, batch, shape = broadcast_system("lstsq", a, b, square=False)
    resolved = resolve(backend)
    rows, columns = flat_a.shape[-2:]
    negative = rcond is not None and host_number("lstsq", "rcond", rcond) < 0
    least, given = (1, None) if negative else (max(rows, columns), rcond)
    bound = relative_bound("lstsq", "rcond", given, least)
    if flat_a.size and flat_b.size:
        x, s = _solution(resolved)(flat_a, flat_b, bound)
    else:
        x = mx.zeros((flat_a.shape[0], columns, flat_b.shape[-1]), dtype=mx.float32)
        s = svd(flat_a, compute_uv=False, backend=resolved)
    rank = mx.sum(_kept(s, bound), axis=-1).astype(mx.int32)
    residuals = mx.zeros((flat_a.shape[0], 0), dtype=mx.float32)
    if rows > columns:
        squares = mx.sum(mx.square(flat_b - multiply(flat_a, x)), axis=1)
        full = mx.expand_dims(rank == mx.array(columns, dtype=mx.int32), axis=-1)
        residuals = mx.where(full, squares, mx.full(squares.shape, mx.nan, dtype=mx.float32))
    return LstsqResult(
        x.reshape(shape),
        residuals.reshape((*batch, residuals.shape[-1])),
        rank.reshape(batch),
        mx.stop_gradient(s).reshape((*batch, s.shape[-1])),
    )


@functools.cache
def _solution(backend: str) -> Operation:
    """The operation a (B, M, N), b (B, M, K), bound (0-d) -> x (B, N, K), s on one backend.

    The gradient needs none of singular vectors, which those of equal singular values lack.
    """

    def solve(a: mx.array, b: mx.array, bound: mx.array) -> Arrays:
        u, s, vh = svd(a, full_matrices=False, backend=backend)
        kept = _kept(s, bound)
        inverses = mx.where(
            kept, mx.reciprocal(mx.where(kept, s, mx.ones_like(s))), mx.zeros_like(s)
        )
        along = multiply(mx.swapaxes(u, 1, 2), b) * mx.expand_dims(inverses, axis=-1)
        return multiply(mx.swapaxes(vh, 1, 2), along), s

    def gradient(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        """With y = A+' dx: db = y, dA = r (A+ y)' - y x' + (A+' x) (dx - A' y)', r = b - A x."""
        (a, b, bound), (in_x, _), (x, _) = primals, cotangents, outputs
        transposed = mx.swapaxes(a, 1, 2)
        both, _ = _solution(backend)(transposed, mx.concatenate([in_x, x], axis=2), bound)
        in_b, image = mx.split(both, 2, axis=2)
        inner, _ = _solution(backend)(a, in_b, bound)
        left = mx.concatenate([b - multiply(a, x), mx.negative(in_b), image], axis=2)
        right = mx.concatenate([inner, x, in_x - multiply(transposed, in_b)], axis=2)
        return multiply(left, mx.swapaxes(right, 1, 2)), in_b, mx.zeros_like(bound)

    return decomposition("lstsq", backend, solve, solve, gradient)


def _kept(s: mx.array, bound: mx.array) -> mx.array:
    """Which singular values (B, K) are not taken as zero."""
    return s > s[:, :1] * bound
