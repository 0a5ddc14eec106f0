"""A causal depthwise convolution as a layer, over sequences with gaps too."""

from __future__ import annotations

import math

import mlx.core as mx
from mlx import nn

from xlstm_kernels.conv.causal_conv1d import causal_conv1d


class CausalConv1d(nn.Module):
    """`xlstm_kernels.causal_conv1d` with a learned `weight` (C, K) and `bias` (C,).

    Args:
        channels: C.
        kernel_size: K, from 1 to 32; weight[:, K-1] meets the present step.
        activation: None or "silu".
    """

    def __init__(self, channels: int, kernel_size: int, activation: str | None = None) -> None:
        super().__init__()
        bound = 1 / math.sqrt(kernel_size)
        self.activation = activation
        self.weight = mx.random.uniform(-bound, bound, (channels, kernel_size))
        self.bias = mx.random.uniform(-bound, bound, (channels,))

    def __call__(
        self, x: mx.array, state: mx.array | None = None, mask: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Convolve x (B, S, C) with what came before it.

        Args:
            x: (B, S, C).
            state: (B, K-1, C), the steps before x, as an earlier call returned them; None for
                zeros.
            mask: (B, S) booleans. Where False there is no step: those before and after it are
                neighbours, and its own y means nothing.

        Returns:
            y (B, S, C), and the last K-1 steps, (B, K-1, C).

        Raises:
            TypeError: for a mask that is no array of booleans.
            ValueError: for shapes that do not fit.
        """
        if mask is None:
            return self._convolve(x, state)
        if mask.dtype != mx.bool_ or mask.shape != x.shape[:2]:
            kind = TypeError if mask.dtype != mx.bool_ else ValueError
            raise kind(
                f"CausalConv1d: mask must be booleans of shape {x.shape[:2]}, (B, S), got "
                f"{mask.dtype} {mask.shape}"
            )
        if state is None:
            state = mx.zeros((x.shape[0], self.weight.shape[1] - 1, x.shape[2]), dtype=x.dtype)
        # The steps that are there move to the front, in their order, and back again.
        steps = mx.arange(x.shape[1], dtype=mx.int32)
        late = steps + mx.array(x.shape[1], dtype=steps.dtype)
        order = mx.argsort(mx.where(mask, steps, late), axis=1)
        gathered = _at(x, order)
        y, _ = self._convolve(gathered, state)
        behind = mx.sum(mask, axis=1, keepdims=True).astype(mx.int32)
        last = behind + mx.arange(state.shape[1], dtype=mx.int32)
        rows = mx.concatenate([state.astype(x.dtype), gathered], axis=1)
        return _at(y, mx.argsort(order, axis=1)), _at(rows, last)

    def _extra_repr(self) -> str:
        channels, kernel_size = self.weight.shape
        return f"{channels}, kernel_size={kernel_size}, activation={self.activation!r}"

    def _convolve(self, x: mx.array, state: mx.array | None) -> tuple[mx.array, mx.array]:
        y, last = causal_conv1d(x, self.weight, self.bias, state, True, self.activation)
        return y, last


def _at(rows: mx.array, indices: mx.array) -> mx.array:
    """Of rows (B, S, C) those at indices (B, R)."""
    return mx.take_along_axis(rows, mx.expand_dims(indices, axis=2), axis=1)
