"""The models of the xLSTM paper, as in NX-AI's package xlstm: `xLSTMBlockStack`, `xLSTMLMModel`."""

from __future__ import annotations

from typing import TypeAlias

import mlx.core as mx
from mlx import nn

from xlstm_kernels.nn.arguments import require_tokens
from xlstm_kernels.nn.block_stack_config import NORM_EPS, xLSTMBlockStackConfig, xLSTMLMModelConfig
from xlstm_kernels.nn.blocks import ResidualBlock, keep_states, run_blocks
from xlstm_kernels.nn.feed_forward import FeedForward
from xlstm_kernels.nn.initialization import small_linear, small_normal
from xlstm_kernels.nn.slstm_layer import sLSTMLayer, sLSTMState
from xlstm_kernels.nn.up_projection_mlstm import UpProjectionMLSTMLayer, UpProjectionMLSTMState

#: The state of each block after a position.
BlockStackCache: TypeAlias = list[UpProjectionMLSTMState | sLSTMState]


class xLSTMBlock(ResidualBlock):  # noqa: N801  (the name that NX-AI's users know)
    """A block of the paper: x + layer(norm(x)), then for an sLSTM x + FFN(norm(x)).

    Args:
        config: see `xLSTMBlockStackConfig`, which also says whether the layer is an sLSTM.
        index: of the block in the model.
    """

    _layer, _norm, _ffn_norm = "xlstm", "xlstm_norm", "ffn_norm"

    def __init__(self, config: xLSTMBlockStackConfig, index: int) -> None:
        super().__init__()
        is_slstm = index in config.slstm_at
        self.xlstm_norm = _layer_norm(config)
        self.xlstm = (
            sLSTMLayer(config.slstm_layer(index)) if is_slstm else UpProjectionMLSTMLayer(config)
        )
        if is_slstm and config.ffn_dim:
            self.ffn_norm = _layer_norm(config)
            self.ffn = FeedForward(
                config.embedding_dim,
                config.ffn_dim,
                config.ffn_act_fn,
                use_bias=config.ffn_bias,
                num_hidden_layers=config.num_blocks,
            )
            self.ffn_dropout = nn.Dropout(config.ffn_dropout)

    def _feed_forward(self, x: mx.array) -> mx.array:
        return self.ffn_dropout(self.ffn(x))


class xLSTMBlockStack(nn.Module):  # noqa: N801
    """The blocks of the paper and a norm, from vectors to vectors.

    Args:
        config: see `xLSTMBlockStackConfig`.
    """

    def __init__(self, config: xLSTMBlockStackConfig) -> None:
        super().__init__()
        self.config = config
        self.blocks = [xLSTMBlock(config, index) for index in range(config.num_blocks)]
        if config.add_post_blocks_norm:
            self.post_blocks_norm = _layer_norm(config)

    def __call__(
        self,
        x: mx.array,
        cache: BlockStackCache | None = None,
        mask: mx.array | None = None,
        seq_idx: mx.array | None = None,
    ) -> mx.array:
        """Run the blocks over x (B, S, D); other arguments and errors are those of `xLSTM`.

        Returns:
            (B, S, D).
        """
        y, after = run_blocks("xLSTMBlockStack", self.blocks, x, cache, mask, seq_idx)
        keep_states("xLSTMBlockStack", cache, after)
        return self.post_blocks_norm(y) if "post_blocks_norm" in self else y

    def init_cache(self, batch_size: int) -> BlockStackCache:
        """The cache before the first position, zeros, for sequences side by side."""
        return [block.init_state(batch_size) for block in self.blocks]


class xLSTMLMModel(nn.Module):  # noqa: N801
    """The language model of the xLSTM paper: embeddings, `xLSTMBlockStack`, logits.

    Args:
        config: see `xLSTMLMModelConfig`.
    """

    def __init__(self, config: xLSTMLMModelConfig) -> None:
        super().__init__()
        width = config.embedding_dim
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, width)
        self.token_embedding.weight = small_normal((config.vocab_size, width), width)
        self.xlstm_block_stack = xLSTMBlockStack(config)
        self.emb_dropout = nn.Dropout(config.dropout if config.add_embedding_dropout else 0.0)
        if not config.tie_weights:
            self.lm_head = small_linear(width, config.vocab_size)

    def __call__(
        self,
        inputs: mx.array,
        cache: BlockStackCache | None = None,
        mask: mx.array | None = None,
        seq_idx: mx.array | None = None,
    ) -> mx.array:
        """Predict what follows each token; arguments, results and errors are those of `xLSTM`."""
        require_tokens("xLSTMLMModel", inputs)
        x = self.emb_dropout(self.token_embedding(inputs))
        hidden = self.xlstm_block_stack(x, cache, mask, seq_idx)
        head = self.lm_head if "lm_head" in self else self.token_embedding.as_linear
        logits: mx.array = head(hidden).astype(mx.float32)
        return logits

    def init_cache(self, batch_size: int) -> BlockStackCache:
        """The cache before the first token, zeros, for sequences side by side."""
        return self.xlstm_block_stack.init_cache(batch_size)


def _layer_norm(config: xLSTMBlockStackConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.embedding_dim, eps=NORM_EPS, bias=False)
