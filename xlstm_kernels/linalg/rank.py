"""The rank of matrices, by their singular values."""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.executors import StreamLike
from xlstm_kernels.linalg.arguments import in_float32, relative_bound, require_matrices
from xlstm_kernels.linalg.singular_values import svdvals
from xlstm_kernels.linalg.symmetric_eigen import eigvalsh


@in_float32
def matrix_rank(
    a: mx.array,
    /,
    tol: float | mx.array | None = None,
    hermitian: bool = False,
    *,
    rtol: float | mx.array | None = None,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array:
    """Count the singular values of matrices above a bound: `numpy.linalg.matrix_rank`.

    Args:
        a: (..., M, N) float32.
        tol: the bound, a number or float32 (...). Without it, `rtol` times the largest value.
        hermitian: the matrices are symmetric. Their lower triangles are read.
        rtol: max(M, N) times the epsilon of float32 by default.
        backend: as for `svdvals`.

    Returns:
        (...) int32. Zero for a matrix that is not finite.

    Errors are those of `pinv`, with `tol` for `rcond`.
    """
    require_matrices("matrix_rank", "a", a, square=hermitian)
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: tol and rtol must not both be given")
    if not a.size:
        return mx.zeros(a.shape[:-2], dtype=mx.int32)
    sizes = mx.abs(eigvalsh(a, backend=backend)) if hermitian else svdvals(a, backend=backend)
    name, given = ("rtol", rtol) if tol is None else ("tol", tol)
    bound = relative_bound("matrix_rank", name, given, max(a.shape[-2:]))
    if tol is None:
        bound = bound * mx.max(sizes, axis=-1)
    return mx.sum(sizes > bound[..., None], axis=-1).astype(mx.int32)
