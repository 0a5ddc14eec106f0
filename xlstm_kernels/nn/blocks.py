"""The residual blocks of an xLSTM: a memory, then a feed-forward layer, each after a norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import mlx.core as mx
from mlx import nn

from xlstm_kernels.nn.config import xLSTMConfig
from xlstm_kernels.nn.feed_forward import FeedForward
from xlstm_kernels.nn.mlstm_layer import mLSTMLayer
from xlstm_kernels.nn.normalization import RMSNorm
from xlstm_kernels.nn.slstm_layer import sLSTMLayer

_MANY_TOKENS = 512  # a block of them keeps a GPU busy while the host prepares the next one


class ResidualBlock(nn.Module):
    """x + layer(norm(x)), then x + FFN(norm(x)), if there is one; a subclass names the parts."""

    _layer: ClassVar[str]
    _norm: ClassVar[str]
    _ffn_norm: ClassVar[str] = "norm_ffn"

    def __call__(
        self,
        x: mx.array,
        state: Any = None,
        mask: mx.array | None = None,
        seq_idx: mx.array | None = None,
    ) -> tuple[mx.array, Any]:
        """Run the block over x (B, S, D); arguments and results are those of its layer."""
        remembered, last = self[self._layer](self[self._norm](x), state, mask, seq_idx)
        x = x + remembered
        return (x + self._feed_forward(self[self._ffn_norm](x)) if "ffn" in self else x), last

    def init_state(self, batch_size: int) -> Any:
        """The state before the first position, zeros."""
        return self[self._layer].init_state(batch_size)

    def _feed_forward(self, x: mx.array) -> Any:
        return self.ffn(x)


class _LargeBlock(ResidualBlock):
    """A block with the norms of xLSTM-7B."""

    def __init__(
        self, config: xLSTMConfig, layer: mLSTMLayer | sLSTMLayer, size: int, activation: str
    ) -> None:
        super().__init__()
        width, eps, use_bias = config.hidden_size, config.norm_eps, config.use_bias
        self[self._norm] = RMSNorm(width, eps=eps, use_bias=use_bias)
        self[self._layer] = layer
        self.norm_ffn = RMSNorm(width, eps=eps, use_bias=use_bias)
        self.ffn = FeedForward(
            width,
            size,
            activation,
            use_bias=use_bias,
            num_hidden_layers=config.num_hidden_layers,
        )


class mLSTMBlock(_LargeBlock):  # noqa: N801  (the name that NX-AI's users know)
    """A block of xLSTM-7B: x + mLSTM(norm(x)), then x + FFN(norm(x)), gated by a silu.

    Args:
        config: see `xLSTMConfig`.
    """

    _layer, _norm = "mlstm_layer", "norm_mlstm"

    def __init__(self, config: xLSTMConfig) -> None:
        super().__init__(config, mLSTMLayer(config.mlstm_layer()), config.ffn_size, "silu")


class sLSTMBlock(_LargeBlock):  # noqa: N801
    """The paper's sLSTM block: x + sLSTM(norm(x)), then x + FFN(norm(x)), gated by a gelu.

    Its norms are those of xLSTM-7B, so that blocks of both kinds go together.

    Args:
        config: see `xLSTMConfig`.
        layer_index: of the block in the model; it bends the initial forget gates.
    """

    _layer, _norm = "slstm_layer", "norm_slstm"

    def __init__(self, config: xLSTMConfig, layer_index: int) -> None:
        layer = sLSTMLayer(config.slstm_layer(layer_index))
        super().__init__(config, layer, config.slstm_ffn_size, "gelu")


def run_blocks(
    owner: str,
    blocks: Sequence[Callable[..., Any]],
    x: mx.array,
    cache: Sequence[Any] | None,
    mask: mx.array | None,
    seq_idx: mx.array | None,
) -> tuple[mx.array, list[Any]]:
    """Run blocks one after the other over x (B, S, D), each from its state in the cache, if any.

    Return the output of the last block, and the state of each block after the last position. Raise
    a TypeError for an array in place of a cache, a ValueError for one of another number of blocks.
    """
    if isinstance(cache, mx.array):
        raise TypeError(f"{owner}: the cache must be a list, got an array; a mask is mask=array")
    if cache is not None and len(cache) != len(blocks):
        raise ValueError(
            f"{owner}: the cache must have a state for each of {len(blocks)} blocks, got "
            f"{len(cache)}"
        )
    after = []
    eager = cache is not None and x.shape[0] * x.shape[1] >= _MANY_TOKENS
    for block, state in zip(blocks, cache or [None] * len(blocks), strict=True):
        y, last = block(x, state, mask, seq_idx)
        eager = eager and _follow(x, (y, last))
        after.append(last)
        x = y
    return x, after


def _follow(given: mx.array, results: Any) -> bool:
    """Start a block and wait for its input: what two blocks need is in memory, not what all do.

    MLX's CUDA backend launches up to eleven graphs before it waits, and frees nothing that they
    use: 8.9 GB for 2,048 tokens of xLSTM-7B, where two blocks need 1.1. Return whether it could:
    inside a transformation nothing can be evaluated.
    """
    try:
        mx.async_eval(results)
        mx.eval(given)
    except ValueError:
        return False
    return True


def keep_states(owner: str, cache: list[Any] | None, after: list[Any]) -> None:
    """Put the states after the last position into a cache, if there is one; it must be a list."""
    if cache is not None:
        if not isinstance(cache, list):
            raise TypeError(
                f"{owner}: the cache must be a list, which is changed in place, got "
                f"{type(cache).__name__}"
            )
        cache[:] = after
