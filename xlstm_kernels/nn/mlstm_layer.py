"""The mLSTM layer of xLSTM-7B: projections, gates, mLSTM, norm over each head, output gate."""

from __future__ import annotations

from typing import TypeAlias

import mlx.core as mx
from mlx import nn

from xlstm_kernels.activation.soft_cap import soft_cap
from xlstm_kernels.mlstm.arguments import States
from xlstm_kernels.mlstm.backend import DTYPES, mLSTMBackend
from xlstm_kernels.nn.arguments import heads_first, require_sequences
from xlstm_kernels.nn.config import mLSTMLayerConfig
from xlstm_kernels.nn.initialization import (
    INPUT_GATE_BIAS,
    forget_gate_biases,
    gate_linear,
    output_linear,
    small_linear,
)
from xlstm_kernels.nn.normalization import MultiHeadLayerNorm

#: (c, n, m); with a sigmoid input gate (c, n).
MLSTMState: TypeAlias = tuple[mx.array, ...]


class mLSTMLayer(nn.Module):  # noqa: N801  (the name that NX-AI's users know)
    """h = mLSTM(q, k, v, i, f); y = W_out (norm(h) * sigmoid(W_o x)) (Beck et al., 2025).

    Parameters have the names of Hugging Face's xLSTM-7B.

    Args:
        config: see `mLSTMLayerConfig`.
    """

    def __init__(self, config: mLSTMLayerConfig) -> None:
        super().__init__()
        width, heads = config.hidden_size, config.num_heads
        self.config = config
        self.q = small_linear(width, config.qk_dim, bias=config.use_bias)
        self.k = small_linear(width, config.qk_dim, bias=config.use_bias)
        self.v = small_linear(width, config.v_dim, bias=config.use_bias)
        self.ogate_preact = small_linear(width, config.v_dim, bias=config.use_bias)
        self.igate_preact = gate_linear(width, mx.full((heads,), INPUT_GATE_BIAS))
        self.fgate_preact = gate_linear(width, forget_gate_biases(heads))
        self.mlstm_backend = mLSTMBackend(config.mlstm_backend)
        self.multihead_norm = MultiHeadLayerNorm(
            heads, config.v_dim // heads, eps=config.norm_eps, use_bias=config.use_bias
        )
        self.out_proj = output_linear(
            config.v_dim, width, num_hidden_layers=config.num_hidden_layers, bias=config.use_bias
        )

    def __call__(
        self,
        x: mx.array,
        state: MLSTMState | None = None,
        mask: mx.array | None = None,
        seq_idx: mx.array | None = None,
    ) -> tuple[mx.array, MLSTMState | None]:
        """Run the layer over a sequence, or a piece of one.

        Args:
            x: (B, S, D).
            state: what an earlier call returned, or `init_state` made; None for the start.
            mask: (B, S) booleans; what stands where it is False is not seen by any other position,
                wherever it stands.
            seq_idx: (B, S) integers; where the number changes, a new sequence begins, which sees
                nothing of those before it. The first goes on from `state`.

        Returns:
            y (B, S, D), and the state after the last position: c (B, NH, DK, DV), n (B, NH, DK) and
            m (B, NH, 1). None where the configuration is one of training without last states.

        Raises:
            ValueError: for shapes that do not fit.
        """
        require_sequences("mLSTMLayer", x, self.config.hidden_size)
        heads = self.config.num_heads
        q, k, v = (heads_first(project(x), heads) for project in (self.q, self.k, self.v))
        i, f = (self._gates(project(x)) for project in (self.igate_preact, self.fgate_preact))
        c, n, m = (*(state or (None, None)), None)[:3]
        result = self.mlstm_backend(
            *(q, k, v, i, f, c, n, m),
            return_last_states=None if state is None else True,
            mask=mask,
            seq_idx=seq_idx,
        )
        h, last = result if isinstance(result, tuple) else (result, None)
        return self.out_proj(
            self.multihead_norm(h.transpose(0, 2, 1, 3), self.ogate_preact(x))
        ), last

    def init_state(self, batch_size: int) -> MLSTMState:
        """The state before the first position, zeros."""
        heads = self.config.num_heads
        keys, values = self.config.qk_dim // heads, self.config.v_dim // heads
        dtype = DTYPES[self.config.mlstm_backend.inference_state_dtype]
        c = mx.zeros((batch_size, heads, keys, values), dtype=dtype)
        n = mx.zeros((batch_size, heads, keys), dtype=dtype)
        if self.config.mlstm_backend.is_siging:
            return c, n
        return States(c, n, mx.zeros((batch_size, heads, 1), dtype=dtype))

    def _gates(self, x: mx.array) -> mx.array:
        """(B, S, NH) as (B, NH, S), bounded, and float32: the mLSTM takes their exp."""
        return soft_cap(x.astype(mx.float32), self.config.gate_soft_cap).transpose(0, 2, 1)
