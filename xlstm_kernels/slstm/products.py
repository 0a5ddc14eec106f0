"""Products of float32 matrices to the digits of float32, on GPUs that multiply in TF32 as well."""

from __future__ import annotations

import mlx.core as mx

# TF32 keeps 10 of the 23 bits after the leading one.
_KEPT_BITS = 0xFFFFE000
_HALF_OF_LAST_BIT = 0x1000


def left_factor(x: mx.array, axis: int) -> mx.array:
    """Float32 `x` as the left factor of a product that sums over `axis`, where it is longer.

    A GPU may take only the leading 11 bits of a factor, unless MLX_ENABLE_TF32 is 0. So factors are
    split there into these bits and the rest, one after the other. The product of the two rests is
    left out: it is 2^-22 of the whole. MLX has no derivative of this.
    """
    if mx.default_device() != mx.gpu:
        return x
    leading, rest = _split(x)
    return mx.concatenate([leading, leading, rest], axis=axis)


def right_factor(x: mx.array, axis: int) -> mx.array:
    """The second factor of such a product; see `left_factor`."""
    if mx.default_device() != mx.gpu:
        return x
    leading, rest = _split(x)
    return mx.concatenate([leading, rest, leading], axis=axis)


def _split(x: mx.array) -> tuple[mx.array, mx.array]:
    """The leading bits of each number, and the rest, NaN of what is not finite."""
    half, kept = (mx.array(bits, dtype=mx.uint32) for bits in (_HALF_OF_LAST_BIT, _KEPT_BITS))
    leading = ((x.view(mx.uint32) + half) & kept).view(mx.float32)
    return leading, x - leading
