"""The Moore-Penrose pseudo-inverse of batches of matrices."""

from __future__ import annotations

import functools

import mlx.core as mx

from xlstm_kernels.differentiation import Arrays, Operation, decomposition
from xlstm_kernels.executors import StreamLike, resolve
from xlstm_kernels.linalg.arguments import flat_batch, in_float32, relative_bound, require_matrices
from xlstm_kernels.linalg.arithmetic import multiply
from xlstm_kernels.linalg.singular_values import svd
from xlstm_kernels.linalg.symmetric_eigen import eigh


@in_float32
def pinv(
    a: mx.array,
    rcond: float | mx.array | None = None,
    hermitian: bool = False,
    *,
    rtol: float | mx.array | None = None,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array:
    """Return the pseudo-inverse of matrices, by their singular values.

    Singular values of at most `rcond` times the largest one count as zero. Without `rcond` it is
    max(M, N) times the epsilon of float32, NumPy's for `rtol=None`. NumPy's own default, 1e-15,
    would invert the rounding errors of float32.

    Where a matrix is not finite, its pseudo-inverse is NaN; NumPy raises. The gradient is that of
    Golub and Pereyra (1973), for matrices that keep their rank. It is finite for equal singular
    values. `rcond` has no gradient. Errors are those of `lu`, a TypeError for an `rcond` that is
    not a number, a LinAlgError with `hermitian` for matrices that are not square, and a ValueError
    for both `rcond` and `rtol`, or an `rcond` that does not broadcast.

    Args:
        a: float32 (..., M, N).
        rcond: a number, or float32 (...) of the batch axes, or of axes that broadcast to them.
        hermitian: the matrices are symmetric. Their lower triangles are read.
        rtol: another name of `rcond`.
        backend: name of an executor, "native", or None to choose.

    Returns:
        (..., N, M).
    """
    require_matrices("pinv", "a", a, square=hermitian)
    if rcond is not None and rtol is not None:
        raise ValueError("pinv: rcond and rtol must not both be given")
    *batch, rows, columns = a.shape
    backend = resolve(backend)
    if not a.size:
        return mx.zeros((*batch, columns, rows))
    given = rtol if rcond is None else rcond
    bound = relative_bound("pinv", "rcond", given, max(rows, columns))
    bounds = mx.broadcast_to(bound, batch).reshape(-1, 1)
    flat = flat_batch(a)
    if hermitian:
        flat = mx.tril(flat) + mx.swapaxes(mx.tril(flat, -1), 1, 2)
    inverse: mx.array = _operation(backend, hermitian)(flat, bounds)
    return inverse.reshape(*batch, columns, rows)


@functools.cache
def _operation(backend: str, hermitian: bool) -> Operation:
    """The operation (B, M, N), bounds (B, 1) -> (B, N, M) on one backend."""

    def inverse(a: mx.array, bounds: mx.array) -> mx.array:
        if hermitian:
            s, v = eigh(a, backend=backend)
            ut = mx.swapaxes(v, 1, 2)
        else:
            u, s, vh = svd(a, full_matrices=False, backend=backend)
            ut, v = mx.swapaxes(u, 1, 2), mx.swapaxes(vh, 1, 2)
        sizes = mx.abs(s)
        large = mx.greater(sizes, bounds * mx.max(sizes, axis=1, keepdims=True))
        inverses = mx.where(
            large, mx.reciprocal(mx.where(large, s, mx.ones_like(s))), mx.zeros_like(s)
        )
        nothing = mx.sum(s - s, axis=1, keepdims=True)  # zero, or NaN if not finite
        return multiply(v * mx.expand_dims(inverses + nothing, axis=1), ut)

    return decomposition("pinv", backend, inverse, inverse, _gradient)


def _gradient(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
    """-P'GP' + (I - AP) G'PP' + P'PG' (I - PA), for a cotangent G of P (Golub, Pereyra 1973)."""
    (a, bounds), (cotangent,), (inverse,) = primals, cotangents, outputs
    transposed, pulled = mx.swapaxes(inverse, 1, 2), mx.swapaxes(cotangent, 1, 2)
    direct = multiply(multiply(transposed, cotangent), transposed)
    left = multiply(multiply(pulled, inverse), transposed)
    right = multiply(transposed, multiply(inverse, pulled))
    left = left - multiply(a, multiply(inverse, left))
    right = right - multiply(multiply(right, inverse), a)
    return left + right - direct, mx.zeros_like(bounds)
