"""Orthogonalization of matrices: by Newton and Schulz's iteration, as in Muon, or by QR."""

from __future__ import annotations

from typing import Any, Literal, get_args

import mlx.core as mx

from xlstm_kernels.arguments import host_integer, non_negative, require_choice
from xlstm_kernels.executors import StreamLike, on_stream
from xlstm_kernels.linalg.arguments import require_matrices
from xlstm_kernels.linalg.qr_factorization import qr

Method = Literal["newton_schulz", "qr"]

# Keller Jordan, Muon: an optimizer for hidden layers in neural networks, 2024.
_QUINTIC = (3.4445, -4.7750, 2.0315)


@on_stream
def orthogonalize(
    a: mx.array,
    /,
    *,
    method: Method = "newton_schulz",
    steps: int = 5,
    eps: float = 1e-7,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array:
    """Replace each matrix by one with orthonormal columns, or rows if it has more columns.

    - "newton_schulz": the matrix over its Frobenius norm, then `steps` times
      X <- p X + (q X X' + r (X X')^2) X, with (p, q, r) = (3.4445, -4.7750, 2.0315). It keeps the
      singular vectors. After 5 steps, singular values that were above 0.3% of the norm lie
      between 0.68 and 1.21; more steps do not bring them to one. All backends multiply with MLX,
      in the dtype of `a`, and float32 in TF32 on GPUs that have it.
    - "qr": Q of the reduced QR factorization, orthonormal to the digits of float32, with the signs
      of its columns such that R's diagonal is not negative, as Gram and Schmidt's method gives it.
      Of a matrix with more columns than rows, the transposed Q of its transpose.

    Differentiable any number of times. Errors are those of `lu`, a TypeError for a number of
    another kind, and a ValueError for another method, steps below zero, or an infinite or negative
    `eps`.

    Args:
        a: (..., M, N); float32, float16 or bfloat16. A matrix of zeros stays zero with
            "newton_schulz", and gives columns of the identity with "qr".
        method: "newton_schulz" or "qr".
        steps: of the iteration.
        eps: added to the norm.
        backend: of the kernels of "qr", as in `qr`.

    Returns:
        An array of the shape and dtype of `a`. "qr" rounds float32 results to it.
    """
    require_matrices("orthogonalize", "a", a)
    require_choice("orthogonalize", "method", method, get_args(Method))
    count = host_integer("orthogonalize", "steps", steps, least=0)
    added = non_negative("orthogonalize", "eps", eps)
    if not a.size:
        return a
    # On the short side X X' is smaller, and vectors can be orthogonal to each other.
    wide = a.shape[-1] > a.shape[-2]
    if method == "qr":
        tall = mx.swapaxes(a, -1, -2) if wide else a
        result = _by_qr(tall.astype(mx.float32), backend).astype(a.dtype)
        return mx.swapaxes(result, -1, -2) if wide else result
    short = a if wide else mx.swapaxes(a, -1, -2)
    result = _by_newton_schulz(short, count, added)
    return result if wide else mx.swapaxes(result, -1, -2)


def _by_qr(matrices: mx.array, backend: str | None) -> mx.array:
    q, r = qr(matrices, backend=backend)
    diagonal = mx.stop_gradient(mx.diagonal(r, axis1=-2, axis2=-1))
    ones = mx.ones_like(diagonal)
    signs = mx.where(diagonal < mx.zeros_like(diagonal), mx.negative(ones), ones)
    return q * mx.expand_dims(signs, axis=-2)


def _by_newton_schulz(matrices: mx.array, steps: int, eps: float) -> mx.array:
    """Of matrices that are not tall."""
    numbers: Any = matrices.astype(mx.float32)
    # Squares of the elements over the greatest one cannot overflow.
    largest = mx.max(mx.abs(mx.stop_gradient(numbers)), axis=(-2, -1), keepdims=True)
    unit = mx.where(largest == mx.zeros_like(largest), mx.ones_like(largest), largest)
    scaled = numbers / unit
    squares = mx.sum(mx.square(scaled), axis=(-2, -1), keepdims=True)
    positive = squares > mx.zeros_like(squares)
    norm = mx.sqrt(mx.where(positive, squares, mx.ones_like(squares))) * unit
    x: mx.array = (numbers / (norm + mx.array(eps, dtype=mx.float32))).astype(matrices.dtype)
    # In bfloat16 the coefficients alone would be 0.2% off: only products are of that dtype.
    p, q, r = (mx.array(number, dtype=mx.float32) for number in _QUINTIC)
    for _ in range(steps):
        gram = x @ mx.swapaxes(x, -1, -2)
        weights = q * gram.astype(mx.float32) + r * (gram @ gram).astype(mx.float32)
        moved = (weights.astype(matrices.dtype) @ x).astype(mx.float32)
        x = (p * x.astype(mx.float32) + moved).astype(matrices.dtype)
    return x
