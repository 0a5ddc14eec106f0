"""The sLSTM layer: a causal convolution for i and f, headwise gates, sLSTM, norm over each head."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx
from mlx import nn

from xlstm_kernels.nn.arguments import require_sequences
from xlstm_kernels.nn.causal_conv import CausalConv1d
from xlstm_kernels.nn.config import sLSTMLayerConfig
from xlstm_kernels.nn.initialization import slstm_biases, small_normal
from xlstm_kernels.nn.normalization import MultiHeadLayerNorm
from xlstm_kernels.recurrent.slstm.sequence import slstm

_STATES = 4


class sLSTMState(NamedTuple):  # noqa: N801
    """The state of a sequence: conv (B, K-1, D), the last inputs; cell (B, 4, N, DH)."""

    conv: mx.array
    cell: mx.array


class HeadwiseLinear(nn.Module):
    """A linear layer in each head by itself, without bias.

    Args:
        num_heads: N.
        head_dim: DH, the width of a head before and after.
    """

    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.weight = small_normal((num_heads, head_dim, head_dim), num_heads * head_dim)

    def __call__(self, x: mx.array) -> mx.array:
        """Turn x (B, S, N * DH) into (B, S, N, DH)."""
        turned = _head_rows(x, self.weight.shape[0]) @ self.weight.transpose(0, 2, 1)
        return _heads_last(turned, x)

    def to_quantized(
        self, group_size: int | None = None, bits: int | None = None, mode: str = "affine"
    ) -> QuantizedHeadwiseLinear:
        """Return the layer with quantized weights; `nn.quantize` calls this.

        Args:
            group_size: as in `mx.quantize`, like the next two.
            bits: bits of a weight.
            mode: the format.

        Raises:
            ValueError: DH is not a multiple of the group size.
        """
        return QuantizedHeadwiseLinear(self.weight, group_size, bits, mode)

    def _extra_repr(self) -> str:
        num_heads, head_dim, _ = self.weight.shape
        return f"num_heads={num_heads}, head_dim={head_dim}"


class QuantizedHeadwiseLinear(nn.Module):
    """A `HeadwiseLinear` with quantized weights, which are frozen; see its `to_quantized`."""

    def __init__(
        self, weight: mx.array, group_size: int | None, bits: int | None, mode: str
    ) -> None:
        super().__init__()
        self.weight, self.scales, *biases = mx.quantize(weight, group_size, bits, mode=mode)
        self.biases = biases[0] if biases else None
        self.group_size = weight.shape[-1] // self.scales.shape[-1]
        self.bits = self.weight.shape[-1] * 32 // weight.shape[-1]
        self.mode = mode
        self.freeze()

    def __call__(self, x: mx.array) -> mx.array:
        """Turn x (B, S, N * DH) into (B, S, N, DH)."""
        turned = mx.quantized_matmul(
            _head_rows(x, self.weight.shape[0]),
            self.weight,
            self.scales,
            self.biases,
            transpose=True,
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )
        return _heads_last(turned, x)

    def _extra_repr(self) -> str:
        return (
            f"num_heads={self.weight.shape[0]}, head_dim={self.weight.shape[1]}, "
            f"group_size={self.group_size}, bits={self.bits}, mode={self.mode!r}"
        )


def _head_rows(x: mx.array, heads: int) -> mx.array:
    """View (B, S, N * DH) as (N, B * S, DH), one matrix for each head."""
    batch, steps, width = x.shape
    return x.reshape((batch * steps, heads, width // heads)).transpose(1, 0, 2)


def _heads_last(turned: mx.array, x: mx.array) -> mx.array:
    """(N, B * S, DH) as (B, S, N, DH), for x (B, S, N * DH)."""
    heads, _, units = turned.shape
    return turned.transpose(1, 0, 2).reshape((*x.shape[:2], heads, units))


class sLSTMCell(nn.Module):  # noqa: N801
    """The recurrence of an sLSTM with its parameters.

    `recurrent_weight` (4, N, DH, DH) is indexed [gate, head, out, in], and zero at first; `bias` is
    (4, N, DH). The gates are i, f, z and o, in this order.

    Args:
        num_heads: N.
        head_dim: DH, the units of a head.
        layer_index: of the block in the model; it bends the initial forget gates.
        num_hidden_layers: blocks of the model.
    """

    def __init__(
        self, num_heads: int, head_dim: int, *, layer_index: int = 0, num_hidden_layers: int = 1
    ) -> None:
        super().__init__()
        self.recurrent_weight = mx.zeros((_STATES, num_heads, head_dim, head_dim))
        self.bias = slstm_biases(
            num_heads, head_dim, layer_index=layer_index, num_hidden_layers=num_hidden_layers
        )

    def __call__(
        self,
        gates: mx.array,
        state: mx.array | None = None,
        mask: mx.array | None = None,
        seq_idx: mx.array | None = None,
    ) -> tuple[mx.array, mx.array]:
        """Run through a sequence.

        Args:
            gates: (B, S, 4, N, DH), what the input contributes to them.
            state: (B, 4, N, DH), y, c, n and m; None for zeros.
            mask: (B, S) booleans; where False the state stays, and y is zero.
            seq_idx: (B, S) integers; where the number changes, a new sequence begins. The first
                goes on from `state`.

        Returns:
            y (B, S, N, DH) and the state after the last position, float32.
        """
        # The operator has FlashRNN's order, (4, B, N, DH).
        before = None if state is None else state.swapaxes(0, 1)
        after_each, last = slstm(
            gates, self.recurrent_weight, self.bias, before, mask=mask, seq_idx=seq_idx
        )
        return after_each[0], mx.squeeze(last, axis=2).swapaxes(0, 1)

    def _extra_repr(self) -> str:
        _, num_heads, head_dim = self.bias.shape
        return f"num_heads={num_heads}, head_dim={head_dim}"


class sLSTMLayer(nn.Module):  # noqa: N801
    """The sLSTM as in the paper's sLSTM block (Beck et al., "xLSTM", 2024, figure 10).

    The gates i and f see x through a causal convolution and a silu, z and o see x itself; each head
    sees its own part of the width.

    Args:
        config: see `sLSTMLayerConfig`.
    """

    def __init__(self, config: sLSTMLayerConfig) -> None:
        super().__init__()
        heads, units = config.num_heads, config.head_dim
        self.config = config
        if config.conv1d_kernel_size:
            self.conv1d = CausalConv1d(config.hidden_size, config.conv1d_kernel_size, "silu")
        self.igate_preact = HeadwiseLinear(heads, units)
        self.fgate_preact = HeadwiseLinear(heads, units)
        self.zgate_preact = HeadwiseLinear(heads, units)
        self.ogate_preact = HeadwiseLinear(heads, units)
        self.slstm_cell = sLSTMCell(
            heads,
            units,
            layer_index=config.layer_index,
            num_hidden_layers=config.num_hidden_layers,
        )
        self.dropout = nn.Dropout(config.dropout)
        self.multihead_norm = MultiHeadLayerNorm(heads, units, eps=config.norm_eps)

    def __call__(
        self,
        x: mx.array,
        state: sLSTMState | None = None,
        mask: mx.array | None = None,
        seq_idx: mx.array | None = None,
    ) -> tuple[mx.array, sLSTMState]:
        """Run the layer over x (B, S, D), a sequence or a piece of one.

        Arguments, errors and y (B, S, D) are those of `mLSTMLayer`, with this layer's state.
        """
        require_sequences("sLSTMLayer", x, self.config.hidden_size)
        before = self.init_state(x.shape[0]) if state is None else state
        convolved, conv = x, before.conv
        if self.config.conv1d_kernel_size:
            convolved, conv = self.conv1d(x, conv, mask, seq_idx)
        gates = mx.stack(
            [
                self.igate_preact(convolved),
                self.fgate_preact(convolved),
                self.zgate_preact(x),
                self.ogate_preact(x),
            ],
            axis=2,
        )
        y, cell = self.slstm_cell(gates, before.cell, mask, seq_idx)
        return self.multihead_norm(self.dropout(y)).astype(x.dtype), sLSTMState(conv, cell)

    def init_state(self, batch_size: int) -> sLSTMState:
        """The state before the first position, zeros."""
        width, kernel_size = self.config.hidden_size, self.config.conv1d_kernel_size
        shape = (batch_size, _STATES, self.config.num_heads, self.config.head_dim)
        return sLSTMState(
            mx.zeros((batch_size, max(kernel_size - 1, 0), width), dtype=self._dtype),
            mx.zeros(shape, dtype=mx.float32),
        )

    @property
    def _dtype(self) -> mx.Dtype:
        weight = self.multihead_norm.weight
        assert weight is not None  # `use_weight` is True by default
        return weight.dtype
