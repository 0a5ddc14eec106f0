"""`svd` and `svdvals`: by `svd_kernel`, for larger matrices by `large_spectra`, or by LAPACK."""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple, overload

import mlx.core as mx

from xlstm_kernels.differentiation import Arrays, Operation, decomposition
from xlstm_kernels.executors import StreamLike, resolve
from xlstm_kernels.linalg.arguments import flat_batch, in_float32, require_matrices
from xlstm_kernels.linalg.arithmetic import multiply, of_finite, quotient
from xlstm_kernels.linalg.large_spectra import large_svd
from xlstm_kernels.linalg.svd_kernel import fits, kernel_for


class SVDResult(NamedTuple):
    """The factors of `svd`, with NumPy's names."""

    U: mx.array
    S: mx.array
    Vh: mx.array


@overload
def svd(
    a: mx.array,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    *,
    backend: str | None = None,
    stream: StreamLike = None,
) -> SVDResult: ...
@overload
def svd(
    a: mx.array,
    full_matrices: bool,
    compute_uv: Literal[False],
    *,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array: ...
@overload
def svd(
    a: mx.array,
    full_matrices: bool = True,
    *,
    compute_uv: Literal[False],
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array: ...


@in_float32
def svd(
    a: mx.array,
    full_matrices: bool = True,
    compute_uv: bool = True,
    *,
    backend: str | None = None,
    stream: StreamLike = None,
) -> SVDResult | mx.array:
    """Return the singular value decomposition U diag(S) Vh of matrices.

    One-sided Jacobi in kernels (see `svd_kernel`, `block_jacobi`). Signs of the vectors differ
    between backends.

    Where a matrix is not finite, all of its results are NaN; NumPy raises. The gradient is that of
    Townsend (2016). As in JAX and torch it is infinite or NaN in the vectors of equal singular
    values, and in those of zero if the matrix is not square. Unlike theirs it is finite in the
    values alone: a zero cotangent of the vectors adds zero. Errors are those of `lu`, and a
    ValueError in a gradient with `full_matrices` of matrices that are not square.

    Args:
        a: float32 (..., M, N).
        full_matrices: U and Vh are square. Otherwise they have K = min(M, N) columns and rows.
            The vectors beyond K have no gradient.
        compute_uv: False returns S alone, with less work.
        backend: name of an executor, "native", or None to choose.

    Returns:
        U (..., M, M) or (..., M, K), S (..., K) descending, Vh (..., N, N) or (..., K, N); without
        `compute_uv` only S.
    """
    require_matrices("svd", "a", a)
    backend = resolve(backend)
    if not compute_uv:
        return svdvals(a, backend=backend)
    rows, columns = a.shape[-2:]
    u, s, vh = _operation(backend, full=full_matrices and rows != columns)(_tall(a))
    if rows < columns:
        u, vh = mx.swapaxes(vh, 1, 2), mx.swapaxes(u, 1, 2)
    batch = a.shape[:-2]
    return SVDResult(*(part.reshape(*batch, *part.shape[1:]) for part in (u, s, vh)))


@in_float32
def svdvals(a: mx.array, /, *, backend: str | None = None, stream: StreamLike = None) -> mx.array:
    """Return the singular values (..., min(M, N)) of matrices (..., M, N), descending.

    Where a matrix is not finite they are NaN. The gradient is finite for equal values too.
    Arguments and errors are those of `svd`.
    """
    require_matrices("svdvals", "a", a)
    s: mx.array = _operation(resolve(backend), vectors=False)(_tall(a))[0]
    return s.reshape(*a.shape[:-2], s.shape[-1])


def _tall(a: mx.array) -> mx.array:
    """The matrices (B, M, N), transposed where they are wide."""
    return flat_batch(mx.swapaxes(a, -1, -2) if a.shape[-2] < a.shape[-1] else a)


@functools.cache
def _operation(backend: str, *, full: bool = False, vectors: bool = True) -> Operation:
    """The operation (B, M, N), M >= N, -> U, S, Vh, or S without `vectors`, on one backend."""

    def launch(a: mx.array) -> Arrays:
        _, rows, columns = a.shape
        if not a.size:
            return native(a)
        if not fits(columns, rows, full=full):
            found = of_finite(lambda numbers: large_svd(numbers, backend, full=full), a)
            return found if vectors else found[1:2]
        kernel = kernel_for(columns, rows, vectors=vectors)
        s, *both = kernel(mx.swapaxes(a, 1, 2), backend=backend, full=full)
        return (mx.swapaxes(both[0], 1, 2), s, both[1]) if vectors else (s,)

    def native(a: mx.array) -> Arrays:
        return of_finite(by_lapack, a)

    def by_lapack(a: mx.array) -> Arrays:
        batch, rows, columns = a.shape
        if not columns:
            u = mx.broadcast_to(mx.eye(rows, rows * full), (batch, rows, rows * full))
            found = u, mx.zeros((batch, 0)), mx.zeros((batch, 0, 0))
            return found if vectors else found[1:2]
        with mx.stream(mx.cpu):
            if not vectors:
                # MLX's stubs promise a tuple.
                values: Any = mx.linalg.svd(a, compute_uv=False)
                return (values,)
            if full or rows <= 2 * columns:
                u, s, vh = mx.linalg.svd(a)
            else:
                # Through R of a QR decomposition (Chan 1982): MLX's own U has M x M numbers.
                q, r = mx.linalg.qr(a)
                u, s, vh = mx.linalg.svd(r)
                u = mx.matmul(q, u)
        return u if full else u[:, :, :columns], s, vh

    def gradient(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        if full:
            raise ValueError("svd: full_matrices=True has a gradient for square matrices only")
        if vectors:
            return (_gradient(*cotangents, *outputs),)
        u, _, vh = _operation(backend)(*primals)
        return (multiply(u * mx.expand_dims(cotangents[0], axis=1), vh),)

    return decomposition("svd" if vectors else "svdvals", backend, launch, native, gradient)


def _gradient(
    u_cotangent: mx.array,
    s_cotangent: mx.array,
    vh_cotangent: mx.array,
    u: mx.array,
    s: mx.array,
    vh: mx.array,
) -> mx.array:
    """The gradient in A = U diag(S) Vh, reduced (J. Townsend, Differentiating the SVD, 2016)."""
    ut, v_cotangent = (mx.swapaxes(part, 1, 2) for part in (u, vh_cotangent))
    row, column = mx.expand_dims(s, axis=2), mx.expand_dims(s, axis=1)
    gaps = (column - row) * (column + row)
    of_u, of_v = multiply(ut, u_cotangent), multiply(vh, v_cotangent)
    inside = quotient(of_u - mx.swapaxes(of_u, 1, 2), gaps) * column
    inside = inside + row * quotient(of_v - mx.swapaxes(of_v, 1, 2), gaps)
    inside = inside + mx.expand_dims(s_cotangent, axis=1) * mx.eye(s.shape[1])
    left = multiply(u, inside)
    if u.shape[1] > s.shape[1]:
        left = left + quotient(u_cotangent - multiply(u, of_u), column)
    return multiply(left, vh)
