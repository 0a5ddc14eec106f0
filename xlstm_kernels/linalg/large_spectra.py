"""Eigenvalues and singular values of matrices beyond one threadgroup, by `orthogonal_rows`.

Rotations in float32 leave errors of several roundings. A step of Newton's method, of matrix
products alone, makes them those of one: it takes the angles between vectors from the elements
outside of the diagonal of their matrix.
"""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.differentiation import Arrays
from xlstm_kernels.linalg.arithmetic import multiply
from xlstm_kernels.linalg.block_jacobi import orthogonal_rows
from xlstm_kernels.linalg.blocked_qr import blocked_qr

_SQUARINGS = 4
_MOST_ANGLE = 1e-3  # beyond it two values are close, and any basis of their vectors serves


def large_eigh(a: mx.array, backend: str) -> Arrays:
    """Eigenvalues (B, N), ascending, and eigenvectors (B, N, N) of finite lower triangles.

    Of A + c I, c just above the greatest |eigenvalue|, orthogonal rows are eigenvectors times
    positive numbers, none of which is small.
    """
    below = mx.tril(a, -1)
    size = _size(a)
    scaled = (mx.tril(a) + mx.swapaxes(below, 1, 2)) / size
    shifted = scaled + _bound(scaled) * mx.eye(a.shape[1])
    rows = orthogonal_rows(shifted, width=a.shape[1], backend=backend)
    rows = rows * mx.rsqrt(mx.sum(mx.square(rows), axis=2, keepdims=True))
    inside = multiply(multiply(rows, scaled), mx.swapaxes(rows, 1, 2))
    values = mx.diagonal(inside, axis1=1, axis2=2)
    gaps = mx.expand_dims(values, axis=2) - mx.expand_dims(values, axis=1)
    rows = _orthonormal(
        rows + multiply(_small(inside + mx.swapaxes(inside, 1, 2), gaps + gaps), rows)
    )
    values = mx.sum(rows * multiply(rows, scaled), axis=2)
    values, rows = _ordered(values, values, rows)
    return values * size[:, :, 0], mx.swapaxes(rows, 1, 2)


def large_svd(a: mx.array, backend: str, *, full: bool) -> Arrays:
    """U, S descending, and Vh of finite matrices (B, M, N), M >= N.

    The rows of R of a QR decomposition are rotated with those of the identity (Drmac and Veselic
    2008), and a second QR decomposition completes Vh where singular values are zero.
    """
    size = _size(a)
    rows, columns = a.shape[1:]
    q, r = blocked_qr(
        a / size, q_columns=rows if full else columns, r_rows=columns, backend=backend
    )
    identity = mx.broadcast_to(mx.eye(columns), r.shape)
    both = mx.concatenate([r, identity], axis=2)
    both = orthogonal_rows(both, width=columns, backend=backend)
    (both,) = _ordered(mx.negative(mx.sum(mx.square(both[:, :, :columns]), axis=2)), both)
    of_r, left = both[:, :, :columns], both[:, :, columns:]
    right, _ = blocked_qr(
        mx.swapaxes(of_r, 1, 2), q_columns=columns, r_rows=columns, backend=backend
    )
    left, right = _orthonormal(left), mx.swapaxes(right, 1, 2)
    inside = multiply(multiply(left, r), mx.swapaxes(right, 1, 2))
    values = mx.diagonal(inside, axis1=1, axis2=2)
    signs = mx.where(values < mx.zeros_like(values), -mx.ones_like(values), mx.ones_like(values))
    right, values = right * mx.expand_dims(signs, axis=2), mx.abs(values)
    inside = inside * mx.expand_dims(signs, axis=1)
    row, column = mx.expand_dims(values, axis=2), mx.expand_dims(values, axis=1)
    gaps = (column - row) * (column + row)
    mirrored = mx.swapaxes(inside, 1, 2)
    of_left = _small(inside * column + mirrored * row, gaps)
    of_right = _small(inside * row + mirrored * column, gaps)
    left = _orthonormal(left - multiply(of_left, left))
    right = _orthonormal(right - multiply(of_right, right))
    values, left, right = _ordered(mx.negative(values), values, left, right)
    u = multiply(q[:, :, :columns], mx.swapaxes(left, 1, 2))
    if full:
        u = mx.concatenate([u, q[:, :, columns:]], axis=2)
    return u, values * size[:, :, 0], right


def _ordered(keys: mx.array, *parts: mx.array) -> list[mx.array]:
    """Values (B, N), or rows (B, N, L), in the ascending order of keys (B, N)."""
    order = mx.argsort(keys, axis=1)
    return [
        mx.take_along_axis(part, order if part.ndim == 2 else order[:, :, None], axis=1)
        for part in parts
    ]


def _size(a: mx.array) -> mx.array:
    """The greatest magnitude in each matrix (B, 1, 1), 1 of zeros."""
    largest = mx.max(mx.abs(a), axis=(1, 2), keepdims=True)
    return mx.where(largest > mx.zeros_like(largest), largest, mx.ones_like(largest))


def _bound(a: mx.array) -> mx.array:
    """A number (B, 1, 1) above the greatest |eigenvalue|, by less than a third of it.

    The root of the norm of a power: at most N^(1/32) times as much, and a part for its rounding.
    """
    norms = [_norm(a)]
    power = a / norms[0]
    for _ in range(_SQUARINGS):
        power = power @ power
        norms.append(_norm(power))
        power = power / norms[-1]
    bound = mx.ones_like(norms[0])
    for norm in reversed(norms[1:]):
        bound = mx.sqrt(norm * bound)
    return norms[0] * bound * mx.array(1.05, dtype=bound.dtype)


def _norm(a: mx.array) -> mx.array:
    """Frobenius's norm (B, 1, 1), 1 of zeros."""
    squares = mx.sum(mx.square(a), axis=(1, 2), keepdims=True)
    return mx.sqrt(mx.where(squares > mx.zeros_like(squares), squares, mx.ones_like(squares)))


def _orthonormal(rows: mx.array) -> mx.array:
    """The nearest matrix of orthonormal rows, of one that is nearly so."""
    gram = multiply(rows, mx.swapaxes(rows, 1, 2))
    return rows - mx.array(0.5, dtype=rows.dtype) * multiply(gram - mx.eye(rows.shape[1]), rows)


def _small(dividend: mx.array, divisor: mx.array) -> mx.array:
    """The quotients that are small angles, and zero for the others and on the diagonal."""
    small = mx.abs(dividend) < mx.array(_MOST_ANGLE, dtype=divisor.dtype) * mx.abs(divisor)
    return mx.where(small, dividend, mx.zeros_like(dividend)) / mx.where(
        small, divisor, mx.ones_like(divisor)
    )
