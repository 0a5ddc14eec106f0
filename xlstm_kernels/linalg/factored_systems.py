"""Systems of equations whose matrix is factored: by `lu_factor`, or by `cholesky`."""

from __future__ import annotations

from typing import Literal

import mlx.core as mx

from xlstm_kernels.linalg.arguments import broadcast_system, in_float32
from xlstm_kernels.linalg.lu_factorization import inverse_permutation, take_rows
from xlstm_kernels.linalg.triangular import solve_triangular


def lu_solve(
    lu_and_piv: tuple[mx.array, mx.array],
    b: mx.array,
    trans: Literal[0, 1, 2] = 0,
    *,
    backend: str | None = None,
) -> mx.array:
    """Solve a x = b, or a^T x = b, with the factors of `lu_factor`: `scipy.linalg.lu_solve`.

    Differentiable any number of times in the factors and `b`.

    Args:
        lu_and_piv: lu (..., N, N) float32 and piv (..., N) int32, of `lu_factor`.
        b: (N,) or (..., N, K) float32. Batch axes broadcast.
        trans: 0 for a x = b; 1 or 2 for a^T x = b.
        backend: as for `solve_triangular`.

    Returns:
        x (N,) or (..., N, K) float32. NaN for a singular matrix.

    Raises:
        TypeError: for another dtype.
        LinAlgError: for matrices that are not square.
        ValueError: for shapes that do not fit, another `trans`, an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    compact, pivots = lu_and_piv
    if trans not in {0, 1, 2}:
        raise ValueError(f"lu_solve: trans must be 0, 1 or 2, got {trans!r}")
    return _lu_solve(compact, pivots, b, transposed=trans != 0, backend=backend)


def cho_solve(
    c_and_lower: tuple[mx.array, bool], b: mx.array, *, backend: str | None = None
) -> mx.array:
    """Solve a x = b with the factor of `cholesky`: `scipy.linalg.cho_solve`.

    Differentiable any number of times in the factor and `b`.

    Args:
        c_and_lower: the factor (..., N, N) float32, and whether it is lower triangular. The other
            triangle is not read.
        b: (N,) or (..., N, K) float32. Batch axes broadcast.
        backend: as for `solve_triangular`.

    Returns:
        x (N,) or (..., N, K) float32. NaN for a factor with a zero on its diagonal.

    Raises:
        TypeError: for another dtype.
        LinAlgError: for matrices that are not square.
        ValueError: for shapes that do not fit, an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    factor, lower = c_and_lower
    return _cho_solve(factor, b, lower=bool(lower), backend=backend)


@in_float32
def _lu_solve(
    compact: mx.array, pivots: mx.array, b: mx.array, *, transposed: bool, backend: str | None
) -> mx.array:
    whole, right, batch, shape = broadcast_system("lu_solve", compact, b)
    if pivots.shape != compact.shape[:-1]:
        raise ValueError(
            f"lu_solve: piv must have shape {compact.shape[:-1]} as lu has, got {pivots.shape}"
        )
    order = mx.broadcast_to(_permutation(pivots), (*batch, whole.shape[1]))
    order = order.reshape(whole.shape[:2])
    if transposed:
        x = solve_triangular(whole, right, trans=1, backend=backend)
        x = solve_triangular(whole, x, trans=1, lower=True, unit_diagonal=True, backend=backend)
        x = take_rows(x, inverse_permutation(order))
    else:
        x = take_rows(right, order)
        x = solve_triangular(whole, x, lower=True, unit_diagonal=True, backend=backend)
        x = solve_triangular(whole, x, backend=backend)
    return x.reshape(shape)


@in_float32
def _cho_solve(factor: mx.array, b: mx.array, *, lower: bool, backend: str | None) -> mx.array:
    whole, right, _, shape = broadcast_system("cho_solve", factor, b)
    x = solve_triangular(whole, right, "N" if lower else "T", lower, backend=backend)
    x = solve_triangular(whole, x, "T" if lower else "N", lower, backend=backend)
    return x.reshape(shape)


def _permutation(pivots: mx.array) -> mx.array:
    """The order (..., N) of rows after the exchanges of i and piv[i], which are joined in pairs."""
    size = pivots.shape[-1]
    place = mx.arange(size, dtype=mx.int32)
    step, other = place[:, None], mx.stop_gradient(pivots).astype(mx.int32)[..., None]
    orders = mx.where(place == other, step, mx.where(place == step, other, place))
    while orders.shape[-2] > 1:
        if orders.shape[-2] % 2:
            last = mx.broadcast_to(place, (*orders.shape[:-2], 1, size))
            orders = mx.concatenate([orders, last], axis=-2)
        earlier, later = orders[..., ::2, :], orders[..., 1::2, :]
        orders = mx.take_along_axis(earlier, later, axis=-1)
    return orders.reshape(pivots.shape)
