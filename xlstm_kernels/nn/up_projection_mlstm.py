"""The mLSTM layer of the xLSTM paper: up-projection, convolution, mLSTM, skip, output gate."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx
from mlx import nn

from xlstm_kernels.mlstm.backend import mLSTMBackend
from xlstm_kernels.nn.arguments import heads_first, require_sequences
from xlstm_kernels.nn.block_stack_config import xLSTMBlockStackConfig
from xlstm_kernels.nn.causal_conv import CausalConv1d
from xlstm_kernels.nn.initialization import (
    forget_gate_biases,
    gate_linear,
    output_linear,
    small_linear,
    small_normal,
)
from xlstm_kernels.nn.normalization import MultiHeadLayerNorm
from xlstm_kernels.nn.slstm_layer import HeadwiseLinear

_INPUT_GATE_DEVIATION = 0.1


class UpProjectionMLSTMState(NamedTuple):
    """The state of a sequence: conv (B, K-1, P), the last inputs, and c, n and m of the mLSTM."""

    conv: mx.array
    c: mx.array
    n: mx.array
    m: mx.array


class UpProjectionMLSTMLayer(nn.Module):
    """The mLSTM as in the paper's mLSTM block (Beck et al., "xLSTM", 2024, figure 11).

    With u, z = W_up x and a = silu(conv(u)): q and k are projections of a and v one of u, in small
    blocks of the width P; the gates i and f see q, k and v; and
    y = W_down ((norm(mLSTM(q, k, v, i, f)) + skip * a) * silu(z)).

    Args:
        config: see `xLSTMBlockStackConfig`.
    """

    def __init__(self, config: xLSTMBlockStackConfig) -> None:
        super().__init__()
        width, inner, heads = config.embedding_dim, config.inner_dim, config.mlstm_num_heads
        cell = config.mlstm_layer()
        self.config = config
        self.proj_up = small_linear(width, 2 * inner, bias=config.bias)
        self.conv1d = CausalConv1d(inner, config.mlstm_conv1d_kernel_size, "silu")
        self.q_proj, self.k_proj, self.v_proj = (_blockwise(config) for _ in range(3))
        if config.bias:
            self.q_bias, self.k_bias, self.v_bias = (mx.zeros((inner,)) for _ in range(3))
        biases = mx.random.normal((heads,), scale=_INPUT_GATE_DEVIATION)
        self.igate_preact = gate_linear(3 * inner, biases)
        self.fgate_preact = gate_linear(3 * inner, forget_gate_biases(heads))
        self.mlstm_backend = mLSTMBackend(cell.mlstm_backend)
        self.multihead_norm = MultiHeadLayerNorm(heads, inner // heads, eps=cell.norm_eps)
        self.learnable_skip = mx.ones((inner,))
        self.proj_down = output_linear(
            inner, width, num_hidden_layers=config.num_blocks, bias=config.bias
        )
        self.dropout = nn.Dropout(config.dropout)

    def __call__(
        self,
        x: mx.array,
        state: UpProjectionMLSTMState | None = None,
        mask: mx.array | None = None,
        seq_idx: mx.array | None = None,
    ) -> tuple[mx.array, UpProjectionMLSTMState]:
        """Run the layer over x (B, S, D), a sequence or a piece of one.

        Arguments, errors and y (B, S, D) are those of `mLSTMLayer`, with this layer's state.
        """
        require_sequences("UpProjectionMLSTMLayer", x, self.config.embedding_dim)
        conv, c, n, m = state or (None,) * 4
        u, z = mx.split(self.proj_up(x), 2, axis=2)
        convolved, conv = self.conv1d(u, conv, mask, seq_idx)
        inputs = {"q": convolved, "k": convolved, "v": u}
        qkv = [self._project(name, seen) for name, seen in inputs.items()]
        joined = mx.concatenate(qkv, axis=2)
        i, f = (
            gate(joined).astype(mx.float32).swapaxes(1, 2)
            for gate in (self.igate_preact, self.fgate_preact)
        )
        q, k, v = (heads_first(array, self.config.mlstm_num_heads) for array in qkv)
        h, last = self.mlstm_backend(
            *(q, k, v, i, f, c, n, m), return_last_states=True, mask=mask, seq_idx=seq_idx
        )
        normed = self.multihead_norm(h.swapaxes(1, 2)) + self.learnable_skip * convolved
        y = self.dropout(self.proj_down(normed * nn.silu(z)))
        return y, UpProjectionMLSTMState(conv, *last)

    def init_state(self, batch_size: int) -> UpProjectionMLSTMState:
        """The state before the first position, zeros."""
        inner, heads = self.config.inner_dim, self.config.mlstm_num_heads
        units, taps = inner // heads, self.config.mlstm_conv1d_kernel_size
        return UpProjectionMLSTMState(
            mx.zeros((batch_size, taps - 1, inner), dtype=self.learnable_skip.dtype),
            mx.zeros((batch_size, heads, units, units)),
            mx.zeros((batch_size, heads, units)),
            mx.zeros((batch_size, heads, 1)),
        )

    def _project(self, name: str, x: mx.array) -> mx.array:
        """Project (B, S, P) to (B, S, P), in blocks."""
        y: mx.array = self[f"{name}_proj"](x).reshape(x.shape)
        return y + self[f"{name}_bias"] if self.config.bias else y


def _blockwise(config: xLSTMBlockStackConfig) -> HeadwiseLinear:
    """A projection in blocks of the inner width."""
    size = config.mlstm_qkv_proj_blocksize
    layer = HeadwiseLinear(config.inner_dim // size, size)
    layer.weight = small_normal(layer.weight.shape, config.embedding_dim)
    return layer
