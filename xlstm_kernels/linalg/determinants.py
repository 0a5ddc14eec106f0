"""Determinants, by LU factors with partial pivoting."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels.executors import StreamLike
from xlstm_kernels.linalg.arguments import in_float32, require_matrices
from xlstm_kernels.linalg.lu_factorization import lu_factor


class SlogdetResult(NamedTuple):
    """The results of `slogdet`, with NumPy's names."""

    sign: mx.array
    logabsdet: mx.array


@in_float32
def det(a: mx.array, /, *, backend: str | None = None, stream: StreamLike = None) -> mx.array:
    """Return the determinants of matrices: `numpy.linalg.det`.

    Differentiable any number of times. The gradient is NaN for a singular matrix. Errors are those
    of `lu`, and a LinAlgError for matrices that are not square.

    Args:
        a: (..., N, N) float32.
        backend: as for `lu`.

    Returns:
        (...) float32. Zero for a singular matrix, NaN for one that is not finite.
    """
    sign, diagonal = _factored("det", a, backend)
    return sign * mx.prod(diagonal, axis=-1)


@in_float32
def slogdet(
    a: mx.array, /, *, backend: str | None = None, stream: StreamLike = None
) -> SlogdetResult:
    """Return signs and logarithms of determinants, without overflow: `numpy.linalg.slogdet`.

    Differentiable as `det`; the sign has no gradient. Arguments and errors are those of `det`.

    Returns:
        sign (...) and logabsdet (...), float32. Zero and minus infinity for a singular matrix,
        NaN for one that is not finite.
    """
    sign, diagonal = _factored("slogdet", a, backend)
    signs = mx.prod(mx.sign(mx.stop_gradient(diagonal)), axis=-1)
    return SlogdetResult(sign * signs, mx.sum(mx.log(mx.abs(diagonal)), axis=-1))


def _factored(operator: str, a: mx.array, backend: str | None) -> tuple[mx.array, mx.array]:
    """The sign (...) of the permutation, and U's diagonal (..., N)."""
    require_matrices(operator, "a", a, square=True)
    if not a.size:  # on which MLX 0.32.4 takes seconds at times
        return mx.ones(a.shape[:-2]), mx.ones((*a.shape[:-2], 1))
    compact, pivots = lu_factor(a, backend=backend)
    exchanged = pivots != mx.arange(a.shape[-1], dtype=mx.int32)
    ones = mx.ones(pivots.shape)
    sign = mx.prod(mx.where(exchanged, mx.negative(ones), ones), axis=-1)
    constant = mx.stop_gradient(compact)
    nothing = mx.sum(constant - constant, axis=(-2, -1))  # zero, or NaN if not finite
    return sign + nothing, mx.diagonal(compact, axis1=-2, axis2=-1) + nothing[..., None]
