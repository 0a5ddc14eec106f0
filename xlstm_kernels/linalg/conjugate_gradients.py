"""The method of conjugate gradients, for positive definite systems of equations.

It consists of MLX operations. A test of convergence would have to wait for the GPU in each
iteration, so all iterations are computed, and those after convergence change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeAlias

import mlx.core as mx
import numpy as np

from xlstm_kernels.arguments import host_integer, non_negative, require_floating
from xlstm_kernels.differentiation import Arrays, differentiable, gradient_of
from xlstm_kernels.linalg.arguments import in_float32, require_matrices
from xlstm_kernels.linalg.arithmetic import multiply

Multiply: TypeAlias = Callable[[mx.array], mx.array]


@in_float32
def conjugate_gradient(
    a: mx.array | Multiply,
    b: mx.array,
    x0: mx.array | None = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: mx.array | Multiply | None = None,  # noqa: N803  (SciPy's name)
) -> tuple[mx.array, mx.array]:
    """Solve a x = b for symmetric positive definite `a`: `scipy.sparse.linalg.cg`, of batches.

    Gradients are those of the solution, and not of the iterations: another system with the same
    `a` and settings. They are differentiable any number of times if `a` is an array, and once if
    it is a function. `mx.jvp` needs an array.

    Args:
        a: (..., N, N) float32, or a function that multiplies vectors (..., N) by such matrices.
        b: (..., N) float32. Batch axes broadcast with those of `a`.
        x0: (..., N) float32, the first guess; zero by default. It has no gradient.
        rtol: converged is a residual whose norm is at most `rtol` times that of b,
        atol: or at most `atol`.
        maxiter: of iterations, which all take time; N by default, where SciPy has 10 N.
        M: the preconditioner, close to the inverse of `a`: an array, or a function as `a`.

    Returns:
        x (..., N) float32, and info (...) int32: 0 where x converged, `maxiter` elsewhere.

    Raises:
        TypeError: for another dtype, or numbers that are none.
        LinAlgError: for matrices that are not square.
        ValueError: for shapes that do not fit, negative tolerances or iterations.
    """
    batch = _batch(a, b)
    b = mx.broadcast_to(b, (*batch, b.shape[-1]))
    start = mx.zeros_like(b) if x0 is None else mx.broadcast_to(x0, b.shape)
    tolerances = [
        non_negative("conjugate_gradient", name, number)
        for name, number in (("rtol", rtol), ("atol", atol))
    ]
    size = b.shape[-1] if maxiter is None else maxiter
    iterations = host_integer("conjugate_gradient", "maxiter", size, least=0)
    precondition = _product(M, "M")

    def iterate(multiply_by_a: Multiply, b: mx.array, x: mx.array) -> Arrays:
        relative, absolute = (mx.array(tolerance, dtype=b.dtype) for tolerance in tolerances)
        limit = mx.maximum(relative * _norm(b), absolute)
        return _iterate(multiply_by_a, precondition, b, x, limit, iterations)

    if not b.size:
        return mx.zeros_like(b), mx.zeros(batch, dtype=mx.int32)
    if isinstance(a, mx.array):
        x, info = _of_matrix(iterate)(a, b, start)
    else:
        x, info = _of_function(a, iterate, b, start)
    return x, mx.stop_gradient(info)


def _batch(a: object, b: object) -> tuple[int, ...]:
    """Check the arguments, and return the batch axes of the solution."""
    require_floating("conjugate_gradient", "b", b)
    assert isinstance(b, mx.array)
    if not b.ndim:
        raise ValueError("conjugate_gradient: b must have at least one axis, got shape ()")
    if callable(a):
        return b.shape[:-1]
    whole = require_matrices("conjugate_gradient", "a", a, square=True)
    try:
        if whole.shape[-1] != b.shape[-1]:
            raise ValueError
        return np.broadcast_shapes(whole.shape[:-2], b.shape[:-1])
    except ValueError:
        raise ValueError(
            f"conjugate_gradient: a must multiply b, got shapes {whole.shape}, {b.shape}"
        ) from None


def _product(matrix: mx.array | Multiply | None, name: str) -> Multiply:
    if matrix is None:
        return lambda vectors: vectors
    if not isinstance(matrix, mx.array):
        return matrix
    whole = require_matrices("conjugate_gradient", name, matrix, square=True)
    return lambda vectors: multiply(whole, vectors[..., None])[..., 0]


def _iterate(
    multiply_by_a: Multiply,
    precondition: Multiply,
    b: mx.array,
    x: mx.array,
    limit: mx.array,
    iterations: int,
) -> Arrays:
    """Golub and Van Loan, Matrix Computations, 4th edition, algorithm 11.5.1."""
    residual = b - multiply_by_a(x)
    direction, before = mx.zeros_like(b), mx.ones_like(limit)
    for _ in range(iterations):
        active = _norm(residual) > limit
        scaled = precondition(residual)
        size = _dot(residual, scaled)
        turned = scaled + size / before * direction
        direction = mx.where(active, turned, direction)
        image = multiply_by_a(direction)
        step = size / _dot(direction, image)
        x = mx.where(active, x + step * direction, x)
        residual = mx.where(active, residual - step * image, residual)
        before = mx.where(active, size, before)
    converged = (_norm(residual) <= limit)[..., 0]
    late = mx.array(iterations, dtype=mx.int32)
    return x, mx.where(converged, mx.zeros_like(late), late)


def _dot(a: mx.array, b: mx.array) -> mx.array:
    return mx.sum(a * b, axis=-1, keepdims=True)


def _norm(a: mx.array) -> mx.array:
    return mx.sqrt(_dot(a, a))


def _of_matrix(iterate: Callable[..., Arrays]) -> Callable[..., Arrays]:
    """The operation a (..., N, N), b (..., N), x0 (..., N) -> x, info."""

    def function(a: mx.array, b: mx.array, start: mx.array) -> Arrays:
        return iterate(_product(a, "a"), b, start)

    def gradient(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        """Giles, 2008, section 2.3.1: the inverse transposed, which is the inverse here."""
        zero = mx.zeros_like(primals[1])
        in_b, _ = operation(primals[0], cotangents[0], zero)
        in_matrices = mx.negative(in_b[..., None] * outputs[0][..., None, :])
        broadcast = gradient_of(lambda a: mx.broadcast_to(a, in_matrices.shape))
        return *broadcast(primals[:1], (in_matrices,)), in_b, zero

    operation: Callable[..., Arrays] = differentiable(
        function, gradient, of_outputs=True, jvp_by_gradient=True
    )
    return operation


def _of_function(
    multiply_by_a: Multiply, iterate: Callable[..., Arrays], b: mx.array, start: mx.array
) -> Arrays:
    """Differentiate the residual of the solution: in b, and in what the function captures."""
    x, info = iterate(multiply_by_a, mx.stop_gradient(b), mx.stop_gradient(start))
    x = mx.stop_gradient(x)

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        of_residual, _ = iterate(multiply_by_a, cotangents[0], mx.zeros_like(cotangents[0]))
        return _once(of_residual, primals[0]), mx.zeros_like(primals[1])

    solution = differentiable(lambda _, x: x, gradient, jvp_by_gradient=True)
    residual = b - multiply_by_a(x)
    return solution(residual, x), info


def _refuse_second(*_: Arrays) -> NoReturn:
    raise ValueError("conjugate_gradient: mx.jvp, second derivatives need a matrix, got a function")


# What depends on the residual depends on a and b, and so the gradient of either is refused.
_once = differentiable(lambda x, _: x, _refuse_second)
