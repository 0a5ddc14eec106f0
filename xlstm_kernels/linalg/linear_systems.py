"""Systems of equations and inverses, by LU factors, or by factors that the caller has."""

from __future__ import annotations

import functools
from typing import Literal

import mlx.core as mx

from xlstm_kernels.differentiation import Arrays, Operation, decomposition
from xlstm_kernels.executors import StreamLike, resolve
from xlstm_kernels.linalg.arguments import (
    broadcast_system,
    flat_batch,
    in_float32,
    require_matrices,
)
from xlstm_kernels.linalg.arithmetic import multiply, unmapped
from xlstm_kernels.linalg.lu_factorization import inverse_permutation, lu_operation, take_rows
from xlstm_kernels.linalg.triangular import (
    BLOCK,
    Solver,
    by_inverses,
    solve_triangular,
    triangular_operation,
    zero_or_nan,
)


@in_float32
def solve(
    a: mx.array, b: mx.array, *, backend: str | None = None, stream: StreamLike = None
) -> mx.array:
    """Solve a x = b: `numpy.linalg.solve`.

    Differentiable any number of times. A gradient factors `a` again. Errors are those of
    `solve_triangular`.

    Args:
        a: (..., N, N) float32.
        b: (N,) or (..., N, K) float32: as in NumPy 2, a vector only if it has one axis. Batch
            axes broadcast.
        backend: `"metal"`, `"cuda"`, `"native"` (`mx.linalg.lu` on the CPU and MLX operations), or
            None for kernels where they can run. None works in `mx.vmap`: batches are leading axes.

    Returns:
        x (..., N) or (..., N, K) float32. All NaN for a singular matrix, for which NumPy raises:
        one whose factor U has a zero on its diagonal. NaN in a column of `b` where the matrix or
        the column is not finite.
    """
    system = broadcast_system("solve", a, b)
    operation = _solve(resolve(backend))
    if not system.b.size:
        return mx.zeros(system.shape)
    x: mx.array = operation(system.a, system.b)
    return x.reshape(system.shape)


@in_float32
def inv(a: mx.array, *, backend: str | None = None, stream: StreamLike = None) -> mx.array:
    """Invert matrices (..., N, N): `numpy.linalg.inv`, which solves a x = 1 as this does.

    Arguments and errors are those of `solve`.

    Returns:
        (..., N, N) float32. All NaN for a matrix that is singular, as in `solve`, or not finite.
    """
    require_matrices("inv", "a", a, square=True)
    if not a.size:
        return mx.zeros_like(a)
    inverse: mx.array = _inverse(resolve(backend))(flat_batch(a))
    return inverse.reshape(a.shape)


@in_float32
def lu_solve(
    lu_and_piv: tuple[mx.array, mx.array],
    b: mx.array,
    trans: Literal[0, 1, 2] = 0,
    *,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array:
    """Solve a x = b, or a^T x = b, with the factors of `lu_factor`: `scipy.linalg.lu_solve`.

    Differentiable any number of times in the factors and `b`. Errors are those of
    `solve_triangular`.

    Args:
        lu_and_piv: lu (..., N, N) float32 and piv (..., N) int32, of `lu_factor`.
        b: (N,) or (..., N, K) float32. Batch axes broadcast.
        trans: 0 for a x = b; 1 or 2 for a^T x = b.
        backend: as for `solve_triangular`.

    Returns:
        x (N,) or (..., N, K) float32. NaN for a singular matrix.
    """
    compact, pivots = lu_and_piv
    if trans not in {0, 1, 2}:
        raise ValueError(f"lu_solve: trans must be 0, 1 or 2, got {trans!r}")
    whole, right, batch, shape = broadcast_system("lu_solve", compact, b)
    if pivots.shape != compact.shape[:-1]:
        raise ValueError(
            f"lu_solve: piv must have shape {compact.shape[:-1]} as lu has, got {pivots.shape}"
        )
    order = mx.broadcast_to(_permutation(pivots), (*batch, whole.shape[1]))
    order = order.reshape(whole.shape[:2])
    if trans:
        x = solve_triangular(whole, right, trans=1, backend=backend)
        x = solve_triangular(whole, x, trans=1, lower=True, unit_diagonal=True, backend=backend)
        x = take_rows(x, inverse_permutation(order))
    else:
        x = take_rows(right, order)
        x = solve_triangular(whole, x, lower=True, unit_diagonal=True, backend=backend)
        x = solve_triangular(whole, x, backend=backend)
    return x.reshape(shape)


@in_float32
def cho_solve(
    c_and_lower: tuple[mx.array, bool],
    b: mx.array,
    *,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array:
    """Solve a x = b with the factor of `cholesky`: `scipy.linalg.cho_solve`.

    Differentiable any number of times in the factor and `b`. Errors are those of
    `solve_triangular`.

    Args:
        c_and_lower: the factor (..., N, N) float32, and whether it is lower triangular. The other
            triangle is not read.
        b: (N,) or (..., N, K) float32. Batch axes broadcast.
        backend: as for `solve_triangular`.

    Returns:
        x (N,) or (..., N, K) float32. NaN for a factor with a zero on its diagonal.
    """
    factor, lower = c_and_lower[0], bool(c_and_lower[1])
    whole, right, _, shape = broadcast_system("cho_solve", factor, b)
    x = solve_triangular(whole, right, "N" if lower else "T", lower, backend=backend)
    x = solve_triangular(whole, x, "T" if lower else "N", lower, backend=backend)
    return x.reshape(shape)


@functools.cache
def _solve(backend: str) -> Operation:
    """The operation a (B, N, N), b (B, N, K) -> x (B, N, K) on one backend."""
    by_lower = triangular_operation(backend, lower=True, unit=True)
    by_upper = triangular_operation(backend, lower=False)

    def launch(a: mx.array, b: mx.array) -> mx.array:
        compact, permutation, _ = lu_operation(backend)(a)

        def substituted(b: mx.array) -> mx.array:
            x = by_lower(compact, take_rows(b, permutation))
            solution: mx.array = by_upper(compact, x)
            return solution

        x = substituted(b)
        return _refined(a, b, x, substituted) if a.shape[-1] > BLOCK else x

    def native(a: mx.array, b: mx.array) -> mx.array:
        places, lower, upper = mx.linalg.lu(unmapped("solve")(a), stream=mx.cpu)
        permutation = mx.argsort(places, axis=-1)
        solve_lower = by_inverses(lower, lower=True)
        solve_upper = by_inverses(upper + zero_or_nan(upper), lower=False)

        def substituted(b: mx.array) -> mx.array:
            return solve_upper(solve_lower(take_rows(b, permutation)))

        return _refined(a, b, substituted(b), substituted)

    def gradient(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        """Giles, Collected matrix derivative results, 2008, section 2.3.1."""
        in_b = _solve(backend)(mx.swapaxes(primals[0], -1, -2), cotangents[0])
        return mx.negative(multiply(in_b, mx.swapaxes(outputs[0], -1, -2))), in_b

    return decomposition("solve", backend, launch, native, gradient)


def _refined(a: mx.array, b: mx.array, x: mx.array, solve: Solver) -> mx.array:
    """One step of refinement, as LAPACK's sgerfs: many roundings have the error of a few."""
    return x + solve(b - multiply(a, x))


@functools.cache
def _inverse(backend: str) -> Operation:
    """The operation a (B, N, N) -> its inverse on one backend."""

    def launch(a: mx.array) -> mx.array:
        inverse: mx.array = _solve(backend)(a, mx.broadcast_to(mx.eye(a.shape[-1]), a.shape))
        return inverse

    def native(a: mx.array) -> mx.array:
        _, _, upper = mx.linalg.lu(unmapped("inv")(a), stream=mx.cpu)
        nothing = mx.sum(upper - upper, axis=(1, 2), keepdims=True)
        # NaN where MLX raises, or returns numbers for an infinite element.
        return mx.linalg.inv(a + (nothing + zero_or_nan(upper)), stream=mx.cpu)

    def gradient(_: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        transposed = mx.swapaxes(outputs[0], -1, -2)
        return (mx.negative(multiply(multiply(transposed, cotangents[0]), transposed)),)

    return decomposition("inv", backend, launch, native, gradient)


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
