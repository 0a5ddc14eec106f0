"""The configurations of the paper's models, read from those of NX-AI's package xlstm."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

from typing_extensions import Self  # type checkers bring it

from xlstm_kernels.arguments import host_integer, host_number, require_choice
from xlstm_kernels.conv.arguments import MAX_WIDTH
from xlstm_kernels.nn.config import (
    block_indices,
    mLSTMLayerConfig,
    require_counts,
    require_multiple,
    sLSTMLayerConfig,
)
from xlstm_kernels.nn.feed_forward import ACTIVATIONS

NORM_EPS = 1e-5
_PROJ_FACTOR = 2.0
_FFN_PROJ_FACTOR = 1.3


@dataclass(frozen=True, slots=True)
class xLSTMBlockStackConfig:  # noqa: N801  (the name that NX-AI's users know)
    """The blocks of the xLSTM paper, with the defaults of the package xlstm.

    The package nests its configurations (`mlstm_block.mlstm.num_heads`): `from_dict` reads them.

    Attributes:
        embedding_dim: D, the width of the residual stream.
        num_blocks: blocks.
        slstm_at: indices, from 0, of the sLSTM blocks; the others are mLSTM blocks.
        bias: whether the linear layers of mLSTM blocks have biases; those of the gates always do.
        dropout: the probability, in training, of a zero in the output of an mLSTM layer, in that of
            an sLSTM before its norm, and in the embeddings (see `xLSTMLMModelConfig`).
        add_post_blocks_norm: whether there is a norm after the blocks.
        mlstm_num_heads: NH of the mLSTM.
        mlstm_inner_dim: the width of the mLSTM's q, k and v; None for 2 D, up to a multiple of 64.
        mlstm_qkv_proj_blocksize: the width of the blocks that project to q, k and v.
        mlstm_conv1d_kernel_size: steps that the convolution before q and k sees.
        slstm_num_heads: N of the sLSTM.
        slstm_conv1d_kernel_size: steps that the convolution before i and f sees; 0 for none.
        ffn_dim: the width in the feed-forward layer of sLSTM blocks; None for 1.3 D, up to a
            multiple of 64; 0 for no such layer.
        ffn_act_fn: its activation; see `FeedForward`.
        ffn_bias: whether it has biases.
        ffn_dropout: the probability, in training, of a zero in its output.

    Raises:
        TypeError: for a value that is not a number where one is needed.
        ValueError: for numbers out of range, for a width that heads or blocks do not divide, and
            for an unknown activation.
    """

    embedding_dim: int = 128
    num_blocks: int = 1
    slstm_at: tuple[int, ...] = ()
    bias: bool = False
    dropout: float = 0.0
    add_post_blocks_norm: bool = True
    mlstm_num_heads: int = 4
    mlstm_inner_dim: int | None = None
    mlstm_qkv_proj_blocksize: int = 4
    mlstm_conv1d_kernel_size: int = 4
    slstm_num_heads: int = 4
    slstm_conv1d_kernel_size: int = 4
    ffn_dim: int | None = None
    ffn_act_fn: str = "gelu"
    ffn_bias: bool = False
    ffn_dropout: float = 0.0

    def __post_init__(self) -> None:
        require_counts(self, "embedding_dim", "num_blocks", "mlstm_qkv_proj_blocksize")
        owner = type(self).__name__
        for name in ("dropout", "ffn_dropout"):
            if not 0 <= host_number(owner, name, getattr(self, name)) < 1:
                raise ValueError(
                    f"{owner}: {name} must be at least 0 and below 1, got {getattr(self, name)}"
                )
        for name, factor in (("mlstm_inner_dim", _PROJ_FACTOR), ("ffn_dim", _FFN_PROJ_FACTOR)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, _up_dim(self.embedding_dim, factor))
        require_counts(self, "mlstm_inner_dim")
        require_counts(self, "mlstm_conv1d_kernel_size", most=MAX_WIDTH)
        require_counts(self, "ffn_dim", least=0)
        for name in ("bias", "ffn_bias", "add_post_blocks_norm"):
            if not isinstance(getattr(self, name), bool):
                kind = type(getattr(self, name)).__name__
                raise TypeError(f"{owner}: {name} must be a bool, got {kind}")
        require_choice(owner, "activation", self.ffn_act_fn, ACTIVATIONS)
        indices = block_indices(self, self.slstm_at, self.num_blocks)
        object.__setattr__(self, "slstm_at", indices)
        if len(self.slstm_at) < self.num_blocks:
            self.mlstm_layer()
            require_multiple(self, "mlstm_inner_dim", self.inner_dim, "mlstm_qkv_proj_blocksize")
        for index in self.slstm_at:
            self.slstm_layer(index)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A configuration from the fields of this class, or from xlstm's nested ones.

        Args:
            values: the contents of a `config.json`, a YAML file or `dataclasses.asdict`. Unknown
                names are ignored: many are about training, kernels and initial values.

        Raises:
            TypeError: for values of an unexpected type.
            ValueError: for an sLSTM block whose function is not `"slstm"`; and as the constructor.
        """
        known = {one.name for one in dataclasses.fields(cls)}
        given = {name: value for name, value in values.items() if name in known}
        if {"mlstm_block", "slstm_block"} & values.keys():
            given.update(_flattened(values))
        return cls(**given)

    @property
    def inner_dim(self) -> int:
        """The width of the mLSTM's q, k and v, as a number."""
        assert self.mlstm_inner_dim is not None  # `__post_init__` sets it
        return self.mlstm_inner_dim

    def mlstm_layer(self) -> mLSTMLayerConfig:
        """The part about the mLSTM inside its projections."""
        return mLSTMLayerConfig(
            hidden_size=self.inner_dim,
            num_heads=self.mlstm_num_heads,
            qk_dim_factor=1.0,
            use_bias=self.bias,
            norm_eps=NORM_EPS,
            gate_soft_cap=None,
            num_hidden_layers=self.num_blocks,
        )

    def slstm_layer(self, layer_index: int) -> sLSTMLayerConfig:
        """The part about the sLSTM layer of a block."""
        return sLSTMLayerConfig(
            hidden_size=self.embedding_dim,
            num_heads=self.slstm_num_heads,
            conv1d_kernel_size=self.slstm_conv1d_kernel_size,
            norm_eps=NORM_EPS,
            layer_index=layer_index,
            num_hidden_layers=self.num_blocks,
            dropout=self.dropout,
        )


@dataclass(frozen=True, slots=True)
class xLSTMLMModelConfig(xLSTMBlockStackConfig):  # noqa: N801
    """The blocks of the xLSTM paper between embeddings and logits.

    Attributes:
        vocab_size: tokens.
        tie_weights: whether the logits are read with the embeddings.
        add_embedding_dropout: whether there is dropout after the embeddings.
    """

    vocab_size: int = 50304
    tie_weights: bool = False
    add_embedding_dropout: bool = False

    def __post_init__(self) -> None:
        require_counts(self, "vocab_size")
        # Without arguments, super() does not work in a dataclass with slots.
        super(xLSTMLMModelConfig, self).__post_init__()


def _flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `xLSTMBlockStackConfig` from xlstm's nested ones."""
    width = values.get("embedding_dim", 128)
    mlstm_block, slstm_block = values.get("mlstm_block"), values.get("slstm_block")
    indices = values.get("slstm_at") or ()
    if indices == "all" or mlstm_block is None:
        indices = range(values.get("num_blocks", 1))
    for name in ("mlstm_block", "slstm_block"):
        if not isinstance(values.get(name), (Mapping, NoneType)):
            kind = type(values[name]).__name__
            raise TypeError(f"xLSTMBlockStackConfig: {name} must be a mapping, got {kind}")
    flattened: dict[str, Any] = {"slstm_at": tuple(indices)}
    if mlstm_block is not None:
        flattened.update(_mlstm(width, mlstm_block.get("mlstm") or {}))
    if slstm_block is not None:
        flattened.update(_slstm(slstm_block.get("slstm") or {}))
        flattened.update(_feed_forward(width, slstm_block.get("feedforward", {})))
    return flattened


def _mlstm(width: int, values: Mapping[str, Any]) -> dict[str, Any]:
    names = ("num_heads", "qkv_proj_blocksize", "conv1d_kernel_size")
    return {
        "mlstm_inner_dim": _up_dim(width, _PROJ_FACTOR, values),
        **{f"mlstm_{name}": values[name] for name in names if name in values},
    }


def _slstm(values: Mapping[str, Any]) -> dict[str, Any]:
    if (function := values.get("function", "slstm")) != "slstm":
        raise ValueError(f"xLSTMBlockStackConfig: function must be 'slstm', got {function!r}")
    names = ("num_heads", "conv1d_kernel_size")
    return {f"slstm_{name}": values[name] for name in names if name in values}


def _feed_forward(width: int, values: Mapping[str, Any] | None) -> dict[str, Any]:
    if values is None:
        return {"ffn_dim": 0}
    return {
        "ffn_dim": _up_dim(width, _FFN_PROJ_FACTOR, values),
        "ffn_act_fn": values.get("act_fn", "gelu"),
        "ffn_bias": values.get("bias", False),
        "ffn_dropout": values.get("dropout", 0.0),
    }


def _up_dim(width: int, factor: float, values: Mapping[str, Any] | None = None) -> int:
    """The width after an up-projection: a factor of D, rounded to a multiple."""
    values = values or {}
    name = "round_proj_up_to_multiple_of"
    unit = host_integer("xLSTMBlockStackConfig", name, values.get(name, 64), least=1)
    units: float = values.get("proj_factor", factor) * width / unit
    rounds_up = values.get("round_proj_up_dim_up", True)
    return (math.ceil(units) if rounds_up else math.floor(units)) * unit
