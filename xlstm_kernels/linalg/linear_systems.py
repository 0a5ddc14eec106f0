"""Systems of equations and inverses, by LU factors with partial pivoting."""

from __future__ import annotations

import functools

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.differentiation import Arrays, Operation, decomposition
from xlstm_kernels.linalg.arguments import (
    broadcast_system,
    flat_batch,
    in_float32,
    require_matrices,
)
from xlstm_kernels.linalg.arithmetic import multiply, unmapped
from xlstm_kernels.linalg.lu_factorization import (
    lu_operation,
    take_rows,
)
from xlstm_kernels.linalg.triangular import (
    BLOCK,
    Solver,
    by_inverses,
    triangular_operation,
    zero_or_nan,
)


@in_float32
def solve(a: mx.array, b: mx.array, *, backend: str | None = None) -> mx.array:
    """Solve a x = b: `numpy.linalg.solve`.

    Differentiable any number of times. A gradient factors `a` again.

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

    Raises:
        TypeError: for another dtype.
        LinAlgError: for matrices that are not square.
        ValueError: for shapes that do not fit, for an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    system = broadcast_system("solve", a, b)
    operation = _solve(executors.resolve(backend))
    if not system.b.size:
        return mx.zeros(system.shape)
    x: mx.array = operation(system.a, system.b)
    return x.reshape(system.shape)


@in_float32
def inv(a: mx.array, *, backend: str | None = None) -> mx.array:
    """Invert matrices: `numpy.linalg.inv`, which solves a x = 1 as this does.

    Args:
        a: (..., N, N) float32.
        backend: as for `solve`.

    Returns:
        (..., N, N) float32. All NaN for a matrix that is singular, as in `solve`, or not finite.

    Raises:
        TypeError: for another dtype.
        LinAlgError: for matrices that are not square.
        ValueError, RuntimeError: for a backend that is unknown, or cannot run here.
    """
    require_matrices("inv", "a", a, square=True)
    if not a.size:
        return mx.zeros_like(a)
    inverse: mx.array = _inverse(executors.resolve(backend))(flat_batch(a))
    return inverse.reshape(a.shape)


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
