"""Products of float32 matrices to the digits of float32, on GPUs that multiply in TF32 as well."""

from __future__ import annotations

import mlx.core as mx

# TF32 keeps 10 of the 23 bits after the leading one.
_KEPT_BITS = 0xFFFFE000
_HALF_OF_LAST_BIT = 0x1000
_LENGTH = 1024  # of the sums that are left to the matrix hardware, which rounds towards zero


def product(a: mx.array, b: mx.array) -> mx.array:
    """The product a @ b of float32 arrays (..., M, K) and (..., K, N).

    A GPU may take only the leading 11 bits of a factor, unless MLX_ENABLE_TF32 is 0. So factors are
    split there into these bits and the rest. The product of the two rests is left out: it is 2^-22
    of the whole. MLX has no derivative of this.
    """
    if mx.default_device() != mx.gpu:
        return a @ b
    parts = range(0, a.shape[-1], _LENGTH)
    return sum(
        (_by_parts(a[..., k : k + _LENGTH], b[..., k : k + _LENGTH, :]) for k in parts[1:]),
        start=_by_parts(a[..., :_LENGTH], b[..., :_LENGTH, :]),
    )


def _by_parts(a: mx.array, b: mx.array) -> mx.array:
    (a, more_of_a), (b, more_of_b) = _split(a), _split(b)
    left = mx.concatenate([a, a, more_of_a], axis=-1)
    return _multiply(left, mx.concatenate([b, more_of_b, b], axis=-2))


def _split(x: mx.array) -> tuple[mx.array, mx.array]:
    """The leading bits of each number, and the rest, NaN of what is not finite."""
    half, kept = (mx.array(bits, dtype=mx.uint32) for bits in (_HALF_OF_LAST_BIT, _KEPT_BITS))
    leading = ((x.view(mx.uint32) + half) & kept).view(mx.float32)
    return leading, x - leading


def _multiply(a: mx.array, b: mx.array) -> mx.array:
    return a @ b
