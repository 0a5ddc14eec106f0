"""A causal depthwise convolution as a layer, over sequences with gaps too."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
from mlx import nn

from xlstm_kernels.arguments import require_mask
from xlstm_kernels.conv.causal_conv1d import causal_conv1d
from xlstm_kernels.differentiation import selected
from xlstm_kernels.packing import sequence_begins


class CausalConv1d(nn.Module):
    """`xlstm_kernels.causal_conv1d` with a learned `weight` (C, K) and `bias` (C,).

    Args:
        channels: C.
        kernel_size: K, from 1 to 32; weight[:, K-1] is multiplied with the current step.
        activation: None or "silu".
    """

    def __init__(self, channels: int, kernel_size: int, activation: str | None = None) -> None:
        super().__init__()
        bound = 1 / math.sqrt(kernel_size)
        self.activation = activation
        self.weight = mx.random.uniform(-bound, bound, (channels, kernel_size))
        self.bias = mx.random.uniform(-bound, bound, (channels,))

    def __call__(
        self,
        x: mx.array,
        state: mx.array | None = None,
        mask: mx.array | None = None,
        seq_idx: mx.array | None = None,
    ) -> tuple[mx.array, mx.array]:
        """Convolve x (B, S, C) with what came before it.

        Args:
            x: (B, S, C).
            state: (B, K-1, C), the steps before x, as an earlier call returned them; None for
                zeros.
            mask: (B, S) booleans. Where False there is no step: those before and after it are
                neighbours, and its own y means nothing.
            seq_idx: (B, S) integers; where the number changes, a new sequence begins, and what is
                before it is zero. The first goes on from `state`.

        Returns:
            y (B, S, C), and the last K-1 steps of the last sequence, (B, K-1, C).

        Raises:
            TypeError: for a mask that is not an array of booleans, `seq_idx` not one of integers.
            ValueError: for shapes that do not fit.
        """
        if mask is None and seq_idx is None:
            y, last = self._convolve(x, state)
            return y, last
        batch, steps, _ = x.shape
        begins = None
        if seq_idx is not None:
            begins = sequence_begins("CausalConv1d", seq_idx, mask, (batch, steps))
        if mask is None:
            return self._convolve_packed(
                x, state, begins, mx.full((batch, 1), steps, dtype=mx.int32)
            )
        require_mask("CausalConv1d", mask, (batch, steps), "(B, S)")
        # The steps that are there move to the front, in their order, and back again.
        places = mx.arange(steps, dtype=mx.int32)
        late = places + mx.array(steps, dtype=places.dtype)
        order = mx.argsort(mx.where(mask, places, late), axis=1)
        begins = None if begins is None else mx.take_along_axis(begins, order, axis=1)
        behind = mx.sum(mask, axis=1, keepdims=True).astype(mx.int32)
        y, last = self._convolve_packed(_at(x, order), state, begins, behind)
        return _at(y, mx.argsort(order, axis=1)), last

    def _extra_repr(self) -> str:
        channels, kernel_size = self.weight.shape
        return f"{channels}, kernel_size={kernel_size}, activation={self.activation!r}"

    def _convolve(
        self, x: mx.array, state: mx.array | None, numbers: mx.array | None = None
    ) -> Any:
        """Return y and the last inputs; with numbers of sequences y alone."""
        return causal_conv1d(
            *(x, self.weight, self.bias, state, numbers is None, self.activation), seq_idx=numbers
        )

    def _convolve_packed(
        self, x: mx.array, state: mx.array | None, begins: mx.array | None, steps: mx.array
    ) -> tuple[mx.array, mx.array]:
        """y, and the last inputs of the last sequence; `steps` (B, 1) are there in each row."""
        (batch, _, channels), before = x.shape, self.weight.shape[1] - 1
        earlier = mx.zeros((batch, before, channels)) if state is None else state
        rows = mx.concatenate([earlier.astype(x.dtype), x], axis=1)
        ends = steps + mx.arange(before, dtype=mx.int32)
        last = _at(rows, ends)
        if begins is None:
            return self._convolve(x, state)[0], last
        numbers = mx.cumsum(begins.astype(mx.int32), axis=1)
        of_rows = mx.pad(numbers, [(0, 0), (before, 0)])
        if state is None:
            y = self._convolve(x, None, numbers)
        else:
            y = self._convolve(rows, None, of_rows)[:, before:]
        is_own = mx.take_along_axis(of_rows, ends, axis=1) == mx.sum(begins, axis=1, keepdims=True)
        return y, selected(mx.expand_dims(is_own, axis=2), last)


def _at(rows: mx.array, indices: mx.array) -> mx.array:
    """Of rows (B, S, C) those at indices (B, R)."""
    return mx.take_along_axis(rows, mx.expand_dims(indices, axis=2), axis=1)
