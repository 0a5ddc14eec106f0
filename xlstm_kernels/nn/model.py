"""An xLSTM that predicts tokens: embeddings, blocks, norm, logits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import mlx.core as mx
from mlx import nn

from xlstm_kernels.activation.soft_cap import soft_cap
from xlstm_kernels.nn.arguments import require_tokens
from xlstm_kernels.nn.blocks import keep_states, mLSTMBlock, run_blocks, sLSTMBlock
from xlstm_kernels.nn.config import xLSTMConfig
from xlstm_kernels.nn.initialization import small_linear, small_normal
from xlstm_kernels.nn.mlstm_layer import MLSTMState
from xlstm_kernels.nn.normalization import RMSNorm
from xlstm_kernels.nn.slstm_layer import sLSTMState

#: What a sequence goes on from: the state of each block.
XLSTMCache: TypeAlias = list[MLSTMState | sLSTMState]


class xLSTMBackbone(nn.Module):  # noqa: N801  (the name that NX-AI's users know)
    """Embeddings, blocks, norm.

    Args:
        config: see `xLSTMConfig`.
    """

    def __init__(self, config: xLSTMConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.embeddings = nn.Embedding(config.vocab_size, width)
        self.embeddings.weight = small_normal((config.vocab_size, width), width)
        self.blocks = [
            sLSTMBlock(config, index) if index in config.slstm_at else mLSTMBlock(config)
            for index in range(config.num_hidden_layers)
        ]
        if config.add_out_norm:
            self.add_out_norm(config)
        #: Whether gradients compute the inside of blocks again (`mx.checkpoint`) to save memory.
        self.recompute_blocks = False

    def __call__(
        self,
        inputs: mx.array,
        cache: Sequence[MLSTMState | sLSTMState] | None = None,
        mask: mx.array | None = None,
        seq_idx: mx.array | None = None,
    ) -> tuple[mx.array, list[MLSTMState | sLSTMState | None]]:
        """The last hidden states (B, S, D), and the state of each block after the last position.

        Arguments and errors are those of `xLSTM`.
        """
        require_tokens("xLSTM", inputs)
        blocks = self.blocks
        if self.recompute_blocks:
            blocks = [nn.utils.checkpoint(block) for block in blocks]
        x, after = run_blocks("xLSTM", blocks, self.embeddings(inputs), cache, mask, seq_idx)
        return (self.out_norm(x) if "out_norm" in self else x), after

    def add_out_norm(self, config: xLSTMConfig) -> None:
        """Add the norm after the blocks, with a weight of ones."""
        width = config.hidden_size
        self.out_norm = RMSNorm(width, eps=config.norm_eps, use_bias=config.use_bias)


class xLSTM(nn.Module):  # noqa: N801
    """An xLSTM that predicts the next token.

    Without sLSTM blocks it is xLSTM-7B, and its parameters have the names of Hugging Face's
    checkpoints: `model.load_weights(path)` takes them as they are.

    Args:
        config: see `xLSTMConfig`.
    """

    def __init__(self, config: xLSTMConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = xLSTMBackbone(config)
        if not config.tie_word_embeddings:
            self.lm_head = small_linear(config.hidden_size, config.vocab_size)

    def __call__(
        self,
        inputs: mx.array,
        cache: XLSTMCache | None = None,
        mask: mx.array | None = None,
        seq_idx: mx.array | None = None,
    ) -> mx.array:
        """Predict what follows each token.

        A sequence in pieces, one token or more at a time, all with one cache, gives what the whole
        gives. The states in a cache are never changed, only replaced: a copy of the list goes on
        from where it was made. A compiled function has to return the cache besides the logits.

        Args:
            inputs: (B, S), token ids.
            cache: a list, from `init_cache`, which the call brings up to date as mlx-lm's models
                do; None for the start without one.
            mask: (B, S) booleans. A token where it is False is not there, for any other one,
                wherever it stands: padding on the left or on the right; its own logits mean
                nothing.
            seq_idx: (B, S) integers, for sequences packed into rows. Where the number changes, a
                new sequence begins, which sees nothing of those before it; the first of a row goes
                on from `cache`.

        Returns:
            The logits (B, S, V), float32.

        Raises:
            TypeError: for tokens or `seq_idx` that are not arrays of integers, a mask not of
                booleans, a cache that is not a list.
            ValueError: for shapes that do not fit, a cache of another number of blocks.
        """
        hidden, after = self.backbone(inputs, cache, mask, seq_idx)
        head = self.lm_head if "lm_head" in self else self.backbone.embeddings.as_linear
        keep_states("xLSTM", cache, after)
        return soft_cap(head(hidden).astype(mx.float32), self.config.output_logit_soft_cap)

    def init_cache(self, batch_size: int) -> XLSTMCache:
        """The cache before the first token, zeros, for sequences side by side."""
        return [block.init_state(batch_size) for block in self.backbone.blocks]

    def sanitize(self, weights: Mapping[str, mx.array]) -> dict[str, mx.array]:
        """Weights of other checkpoints by the names of this model, for `load_weights`.

        Renames NX-AI's embeddings, and splits the matrices that `weight_mode="fused"` joins.

        Transformers (5.23) ignores three settings: it never ties the head, always has the norm
        before it, and that norm has no bias. So the model gets a head or a norm for which there
        are weights, whatever its configuration says, and a missing bias is zero.

        Args:
            weights: by name.
        """
        ours: dict[str, mx.array] = {}
        for name, weight in weights.items():
            layer, _, kind = name.rpartition(".")
            place, _, joined = layer.rpartition(".")
            parts, sizes = self._joined(joined)
            if name == "embedding.weight":
                ours["backbone.embeddings.weight"] = weight
            elif parts:
                ends = [sum(sizes[: count + 1]) for count in range(len(sizes) - 1)]
                for part, piece in zip(parts, mx.split(weight, ends, axis=0), strict=True):
                    ours[f"{place}.{part}.{kind}"] = piece
            else:
                ours[name] = weight
        self._add_missing_layers(ours)
        norm = "backbone.out_norm"
        if self.config.use_bias and f"{norm}.weight" in ours:
            ours.setdefault(f"{norm}.bias", mx.zeros_like(ours[f"{norm}.weight"]))
        return ours

    def _add_missing_layers(self, weights: Mapping[str, mx.array]) -> None:
        """Add the head and the norm before it, if there are weights for them."""
        changes: dict[str, Any] = {}
        if "lm_head.weight" in weights and self.config.tie_word_embeddings:
            changes["tie_word_embeddings"] = False
            self.lm_head = small_linear(self.config.hidden_size, self.config.vocab_size)
        if "backbone.out_norm.weight" in weights and not self.config.add_out_norm:
            changes["add_out_norm"] = True
            self.backbone.add_out_norm(self.config)
        self.config = dataclasses.replace(self.config, **changes)

    def _joined(self, name: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The layers that a fused one of this name consists of, and their widths."""
        layer = self.config.mlstm_layer()
        keys, values = layer.qk_dim, layer.v_dim
        return {
            "qkv_opreact": (("q", "k", "v", "ogate_preact"), (keys, keys, values, values)),
            "ifgate_preact": (("igate_preact", "fgate_preact"), (layer.num_heads,) * 2),
            "proj_up_gate_z": (("proj_up_gate", "proj_up"), (self.config.ffn_size,) * 2),
        }.get(name, ((), ()))
