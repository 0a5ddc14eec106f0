"""`eigh` and `eigvalsh`: by `eigh_kernel`, for larger matrices by `large_spectra`, or LAPACK."""

from __future__ import annotations

import functools
from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels.differentiation import Arrays, Operation, decomposition
from xlstm_kernels.executors import StreamLike, resolve
from xlstm_kernels.linalg.arguments import flat_batch, in_float32, require_matrices
from xlstm_kernels.linalg.arithmetic import multiply, of_finite, quotient
from xlstm_kernels.linalg.eigh_kernel import MOST_ROWS, kernel_for
from xlstm_kernels.linalg.large_spectra import large_eigh


class EighResult(NamedTuple):
    """The results of `eigh`, with NumPy's names."""

    eigenvalues: mx.array
    eigenvectors: mx.array


@in_float32
def eigh(
    a: mx.array, UPLO: str = "L", *, backend: str | None = None, stream: StreamLike = None
) -> EighResult:
    """Return eigenvalues and eigenvectors of symmetric matrices.

    Jacobi's method in kernels (see `eigh_kernel` and `block_jacobi`). Signs of the vectors differ
    between backends.

    Where the triangle of a matrix is not finite, all of its results are NaN. The gradient is that
    of Giles (2008), in the triangle that is read. As in JAX and torch it is infinite or NaN in the
    vectors of equal eigenvalues. Unlike theirs it is finite in the values alone: a zero cotangent
    of the vectors adds zero. Errors are those of `lu`, a LinAlgError for matrices that are not
    square, and a ValueError for another UPLO.

    Args:
        a: float32 (..., N, N).
        UPLO: "L" reads the lower triangle, "U" the upper one.
        backend: name of an executor, "native", or None to choose.

    Returns:
        Eigenvalues (..., N), ascending, and eigenvectors (..., N, N), the columns.
    """
    values, vectors = _operation(resolve(backend), vectors=True)(_lower("eigh", a, UPLO))
    return EighResult(values.reshape(a.shape[:-1]), vectors.reshape(a.shape))


@in_float32
def eigvalsh(
    a: mx.array, UPLO: str = "L", *, backend: str | None = None, stream: StreamLike = None
) -> mx.array:
    """Return the eigenvalues (..., N) of symmetric matrices (..., N, N), ascending.

    Where the triangle of a matrix is not finite they are NaN. The gradient is finite for equal
    values too. Arguments and errors are those of `eigh`.
    """
    operation = _operation(resolve(backend), vectors=False)
    values: mx.array = operation(_lower("eigvalsh", a, UPLO))[0]
    return values.reshape(a.shape[:-1])


def _lower(operator: str, a: mx.array, uplo: str) -> mx.array:
    """The matrices (B, N, N), transposed for the upper triangle: kernels read the lower one."""
    require_matrices(operator, "a", a, square=True)
    if uplo.upper() not in {"L", "U"}:
        raise ValueError(f"{operator}: UPLO must be 'L' or 'U', got {uplo!r}")
    flat = flat_batch(a)
    return flat if uplo.upper() == "L" else mx.swapaxes(flat, 1, 2)


@functools.cache
def _operation(backend: str, *, vectors: bool) -> Operation:
    """The operation (B, N, N) -> eigenvalues, and with `vectors` eigenvectors, on one backend."""

    def launch(a: mx.array) -> Arrays:
        if not a.size:
            return native(a)
        if a.shape[1] > MOST_ROWS:
            return of_finite(lambda numbers: large_eigh(numbers, backend), mx.tril(a))[
                : 1 + vectors
            ]
        values, *rows = kernel_for(a.shape[1], vectors=vectors)(a, backend=backend)
        return values, *(mx.swapaxes(found, 1, 2) for found in rows[:1])

    def native(a: mx.array) -> Arrays:
        return of_finite(by_lapack, mx.tril(a))

    def by_lapack(numbers: mx.array) -> Arrays:
        with mx.stream(mx.cpu):
            return mx.linalg.eigh(numbers) if vectors else (mx.linalg.eigvalsh(numbers),)

    def gradient(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        if vectors:
            return (_gradient(*cotangents, *outputs),)
        _, found = _operation(backend, vectors=True)(*primals)
        scaled = found * mx.expand_dims(cotangents[0], axis=1)
        return (_in_triangle(multiply(scaled, mx.swapaxes(found, 1, 2))),)

    return decomposition("eigh" if vectors else "eigvalsh", backend, launch, native, gradient)


def _gradient(
    values_cotangent: mx.array, vectors_cotangent: mx.array, values: mx.array, vectors: mx.array
) -> mx.array:
    """The gradient in the lower triangle of A = V diag(w) V' (M. B. Giles 2008, section 3.1)."""
    transposed = mx.swapaxes(vectors, 1, 2)
    gaps = mx.expand_dims(values, axis=1) - mx.expand_dims(values, axis=2)
    # The same as Giles's for functions that signs of the vectors do not change. Antisymmetric, it
    # is zero on the diagonal.
    turned = multiply(transposed, vectors_cotangent)
    inside = quotient((turned - mx.swapaxes(turned, 1, 2)) * _half(turned), gaps)
    inside = inside + mx.expand_dims(values_cotangent, axis=1) * mx.eye(values.shape[1])
    return _in_triangle(multiply(multiply(vectors, inside), transposed))


def _in_triangle(gradient: mx.array) -> mx.array:
    """The gradient in the lower triangle, of which each element below the diagonal counts twice."""
    diagonal = gradient * mx.eye(gradient.shape[1])
    return mx.tril(gradient + mx.swapaxes(gradient, 1, 2)) - diagonal


def _half(array: mx.array) -> mx.array:
    return mx.array(0.5, dtype=array.dtype)
