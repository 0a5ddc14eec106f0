"""The largest singular values and their vectors, by subspace iteration."""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.arguments import host_integer
from xlstm_kernels.executors import StreamLike, resolve
from xlstm_kernels.linalg.arguments import in_float32, require_matrices
from xlstm_kernels.linalg.arithmetic import multiply
from xlstm_kernels.linalg.qr_factorization import qr
from xlstm_kernels.linalg.singular_values import SVDResult, svd


@in_float32
def truncated_svd(
    a: mx.array,
    k: int,
    *,
    oversampling: int = 10,
    iterations: int = 4,
    key: mx.array | None = None,
    backend: str | None = None,
    stream: StreamLike = None,
) -> SVDResult:
    """Return the k largest singular values of matrices, and their vectors.

    Randomized subspace iteration (Halko, Martinsson and Tropp 2011, algorithms 4.4 and 5.1): the
    matrix and its transpose are applied in turn to an orthonormal basis of k + oversampling
    vectors, random at first, and `svd` takes what the matrix is in the last one. Errors shrink by
    the square of the ratio of singular value k + oversampling + 1 to k in each iteration. Work is
    4 M N (k + oversampling) (iterations + 1) operations, most of it in matrix products.

    Bases of up to 128 vectors take the kernels of `qr` and `svd`, on matrices that these fit. Where
    a matrix is not finite, its results are NaN. The gradient is that of the iterations. It
    approaches that of `svd`, and like it is infinite or NaN in vectors of equal singular values;
    also where a matrix has a rank below k + oversampling, since that of `qr` is. `mx.vmap` is not
    available. Errors are those of `lu`, a TypeError for counts that are not integers, and a
    ValueError for one out of bounds.

    Args:
        a: float32 (..., M, N).
        k: how many singular values, 1 to min(M, N).
        oversampling: further vectors of the basis, at least 0; up to min(M, N) in all.
        iterations: how often the matrix and its transpose are applied after the first time, at
            least 0.
        key: of the random start, from `mx.random.key`. None takes MLX's global random state.
        backend: name of an executor, "native", or None to choose.

    Returns:
        U (..., M, k), S (..., k) descending, and Vh (..., k, N).
    """
    require_matrices("truncated_svd", "a", a)
    least = min(a.shape[-2:])
    k = host_integer("truncated_svd", "k", k, least=1, most=least)
    oversampling = host_integer("truncated_svd", "oversampling", oversampling, least=0)
    iterations = host_integer("truncated_svd", "iterations", iterations, least=0)
    backend = resolve(backend)
    transposed = mx.swapaxes(a, -1, -2)
    start = mx.random.normal((a.shape[-1], min(k + oversampling, least)), key=key)
    basis = qr(multiply(a, start), backend=backend).Q
    for _ in range(iterations):
        basis = qr(multiply(transposed, basis), backend=backend).Q
        basis = qr(multiply(a, basis), backend=backend).Q
    inside = multiply(mx.swapaxes(basis, -1, -2), a)
    u, s, vh = svd(inside, full_matrices=False, backend=backend)
    return SVDResult(multiply(basis, u[..., :k]), s[..., :k], vh[..., :k, :])
