"""The configuration of the layers and the model, with the names of Hugging Face's `xLSTMConfig`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xlstm_kernels.arguments import host_integer, host_number, non_negative
from xlstm_kernels.conv.arguments import MAX_WIDTH
from xlstm_kernels.mlstm.backend import mLSTMBackendConfig

# Any length, always the last states, and chunks as they are fastest.
_KERNELS = mLSTMBackendConfig(mode="inference", chunk_size=None)
_OF_KERNELS = {one.name for one in dataclasses.fields(_KERNELS)} - {"normalize_siging"}
_CHUNK_SIZE = 64  # the default, which Hugging Face saves
# Where a configuration says one thing twice: Hugging Face's name, and that of NX-AI's xlstm.
_SYNONYMS = {"embedding_dim": "hidden_size", "num_blocks": "num_hidden_layers"}


@dataclass(frozen=True, slots=True)
class mLSTMLayerConfig:  # noqa: N801  (the name that NX-AI's users know)
    """An mLSTM layer as in xLSTM-7B.

    Attributes:
        hidden_size: D, the width of the residual stream.
        num_heads: NH.
        qk_dim_factor: the width of all queries, over D; their heads share it out.
        v_dim_factor: the width of all values, over D.
        use_bias: whether the linear layers and the norm have biases; those of i and f always do.
        norm_eps: of the norm over each head.
        gate_soft_cap: bounds i and f before their exp and sigmoid; None for no bound.
        num_hidden_layers: blocks of the model, which scale the initial values of the output.
        mlstm_backend: what the mLSTM is; by default in inference mode, which takes any length and
            can be trained too.

    Raises:
        TypeError: for a value that is not a number where one is needed.
        ValueError: for numbers out of range, and for widths that heads cannot share out.
    """

    hidden_size: int
    num_heads: int
    qk_dim_factor: float = 0.5
    v_dim_factor: float = 1.0
    use_bias: bool = False
    norm_eps: float = 1e-6
    gate_soft_cap: float | None = 15.0
    num_hidden_layers: int = 1
    mlstm_backend: mLSTMBackendConfig = field(default=_KERNELS)

    def __post_init__(self) -> None:
        require_counts(self, "hidden_size", "num_heads", "num_hidden_layers")
        _require_positive(self, "qk_dim_factor", "v_dim_factor")
        _require_caps(self, "gate_soft_cap")
        non_negative(type(self).__name__, "norm_eps", self.norm_eps)
        for name, size in (("qk_dim_factor", self.qk_dim), ("v_dim_factor", self.v_dim)):
            require_multiple(self, f"hidden_size * {name}", size, "num_heads")

    @property
    def qk_dim(self) -> int:
        """The width of all queries, as of all keys."""
        return int(self.hidden_size * self.qk_dim_factor)

    @property
    def v_dim(self) -> int:
        """The width of all values."""
        return int(self.hidden_size * self.v_dim_factor)


_OF_MLSTM = {one.name for one in dataclasses.fields(mLSTMLayerConfig)} - {"mlstm_backend"}


@dataclass(frozen=True, slots=True)
class sLSTMLayerConfig:  # noqa: N801
    """An sLSTM layer as in the sLSTM block of the xLSTM paper.

    Errors are those of `mLSTMLayerConfig`.

    Attributes:
        hidden_size: D, the width of the residual stream, which the heads share out.
        num_heads: N.
        conv1d_kernel_size: steps that the convolution before i and f sees; 0 for none, at most 32.
        norm_eps: of the norm over each head.
        layer_index: of the block in the model; it bends the initial forget gates.
        num_hidden_layers: blocks of the model.
        dropout: the probability, in training, of a zero in y before the norm.
    """

    hidden_size: int
    num_heads: int = 4
    conv1d_kernel_size: int = 4
    norm_eps: float = 1e-6
    layer_index: int = 0
    num_hidden_layers: int = 1
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_counts(self, "hidden_size", "num_heads", "num_hidden_layers")
        require_counts(self, "conv1d_kernel_size", least=0, most=MAX_WIDTH)
        require_counts(self, "layer_index", least=0, most=self.num_hidden_layers - 1)
        non_negative(type(self).__name__, "norm_eps", self.norm_eps)
        require_multiple(self, "hidden_size", self.hidden_size, "num_heads")

    @property
    def head_dim(self) -> int:
        """Units of a head."""
        return self.hidden_size // self.num_heads


@dataclass(frozen=True, slots=True)
class xLSTMConfig:  # noqa: N801
    """An xLSTM of mLSTM blocks as in xLSTM-7B and, if configured, sLSTM blocks.

    The names are those of Hugging Face's `xLSTMConfig`, and so are the defaults, xLSTM-7B's, but
    for the chunk size, which is chosen for each call. `from_dict` reads a `config.json`.

    `chunkwise_kernel` to `normalizer_grad` are fields of `mLSTMBackendConfig`. The mode
    `"inference"` takes any length, and can be trained too.

    Attributes:
        vocab_size: tokens.
        hidden_size: D, the width of the residual stream.
        num_hidden_layers: blocks.
        num_heads: NH of the mLSTM.
        use_bias: whether linear layers and norms have biases; those of the gates i and f always do.
        tie_word_embeddings: whether the logits are read with the embeddings.
        add_out_norm: whether there is a norm before the logits.
        norm_eps: of all norms.
        qk_dim_factor: the width of the mLSTM's queries, over D.
        v_dim_factor: the width of its values, over D.
        ffn_proj_factor: the width inside the feed-forward layer of an mLSTM block, over D.
        ffn_round_up_to_multiple_of: what that width is rounded up to a multiple of.
        gate_soft_cap: bounds the gates i and f of the mLSTM; None for no bound.
        output_logit_soft_cap: bounds the logits; None for no bound.
        slstm_at: which blocks are sLSTM blocks, by their index from 0.
        slstm_num_heads: N of the sLSTM.
        slstm_ffn_proj_factor: the width inside the feed-forward layer of an sLSTM block, over D.
        conv1d_kernel_size: of the convolution in an sLSTM block; 0 for none.

    Raises:
        TypeError: for a value that is not a number where one is needed.
        ValueError: for numbers out of range, widths that heads cannot share out, unknown kernels.
    """

    vocab_size: int = 50304
    hidden_size: int = 4096
    num_hidden_layers: int = 32
    num_heads: int = 8
    use_bias: bool = False
    tie_word_embeddings: bool = False
    add_out_norm: bool = True
    norm_eps: float = 1e-6
    qk_dim_factor: float = 0.5
    v_dim_factor: float = 1.0
    chunkwise_kernel: str = _KERNELS.chunkwise_kernel
    sequence_kernel: str = _KERNELS.sequence_kernel
    step_kernel: str = _KERNELS.step_kernel
    mode: str = _KERNELS.mode
    chunk_size: int | None = _KERNELS.chunk_size
    return_last_states: bool = True
    autocast_kernel_dtype: str = "bfloat16"
    eps: float = 1e-6
    inference_state_dtype: str = "float32"
    normalizer_grad: bool = True
    ffn_proj_factor: float = 2.667
    ffn_round_up_to_multiple_of: int = 64
    gate_soft_cap: float | None = 15.0
    output_logit_soft_cap: float | None = 30.0
    slstm_at: tuple[int, ...] = ()
    slstm_num_heads: int = 4
    slstm_ffn_proj_factor: float = 4 / 3
    conv1d_kernel_size: int = 4

    def __post_init__(self) -> None:
        require_counts(self, "vocab_size", "hidden_size", "num_hidden_layers", "num_heads")
        require_counts(self, "ffn_round_up_to_multiple_of", "slstm_num_heads")
        require_counts(self, "conv1d_kernel_size", least=0)
        _require_positive(self, "ffn_proj_factor", "slstm_ffn_proj_factor")
        _require_caps(self, "output_logit_soft_cap")
        object.__setattr__(self, "chunk_size", self.mlstm_layer().mlstm_backend.chunk_size)
        indices = block_indices(self, self.slstm_at, self.num_hidden_layers)
        object.__setattr__(self, "slstm_at", indices)
        for index in indices:
            self.slstm_layer(index)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **changes: Any) -> xLSTMConfig:
        """A configuration from Hugging Face's `config.json`.

        Args:
            values: the contents of the file. Unknown names are ignored, as there are many
                about training, generation and files. The default `chunk_size`, 64, means that
                nobody chose one, as all names of kernels do.
            **changes: fields that are to be other than in the file.

        Raises:
            TypeError: for a change of something that is not a field.
            ValueError: if `embedding_dim` and `hidden_size`, or `num_blocks` and
                `num_hidden_layers`, contradict each other; and as the constructor.
        """
        known = {one.name for one in dataclasses.fields(cls)}
        given = {name: value for name, value in values.items() if name in known}
        for other, name in _SYNONYMS.items():
            value = values.get(other)
            if value is not None and given.setdefault(name, value) != value:
                raise ValueError(
                    f"xLSTMConfig: {name} = {given[name]} and {other} = {value} contradict"
                )
        if given.get("chunk_size") == _CHUNK_SIZE:
            del given["chunk_size"]
        return cls(**{**given, **changes})

    @property
    def ffn_size(self) -> int:
        """The width inside the feed-forward layer of an mLSTM block."""
        return self._rounded_up(self.ffn_proj_factor)

    @property
    def slstm_ffn_size(self) -> int:
        """The width inside the feed-forward layer of an sLSTM block."""
        return self._rounded_up(self.slstm_ffn_proj_factor)

    def mlstm_layer(self) -> mLSTMLayerConfig:
        """The part about the mLSTM layers."""
        shared = {name: getattr(self, name) for name in _OF_MLSTM}
        kernels = {name: getattr(self, name) for name in _OF_KERNELS}
        return mLSTMLayerConfig(**shared, mlstm_backend=mLSTMBackendConfig(**kernels))

    def slstm_layer(self, layer_index: int) -> sLSTMLayerConfig:
        """The part about the sLSTM layer of a block."""
        return sLSTMLayerConfig(
            hidden_size=self.hidden_size,
            num_heads=self.slstm_num_heads,
            conv1d_kernel_size=self.conv1d_kernel_size,
            norm_eps=self.norm_eps,
            layer_index=layer_index,
            num_hidden_layers=self.num_hidden_layers,
        )

    def _rounded_up(self, factor: float) -> int:
        # Hugging Face's arithmetic, of which the widths of checkpoints come: a fraction above a
        # multiple is dropped.
        unit = self.ffn_round_up_to_multiple_of
        return int((self.hidden_size * factor + unit - 1) // unit) * unit


def block_indices(config: object, slstm_at: Iterable[int], blocks: int) -> tuple[int, ...]:
    """Return the indices of sLSTM blocks as a tuple.

    Raise a TypeError for no sequence and for an index that is not an int, a ValueError for one that
    no block has.
    """
    owner = type(config).__name__
    if not isinstance(slstm_at, Iterable):
        raise TypeError(f"{owner}: slstm_at must be a sequence, got {type(slstm_at).__name__}")
    return tuple(
        host_integer(owner, "each of slstm_at", index, least=0, most=blocks - 1)
        for index in slstm_at
    )


def require_counts(config: object, *names: str, least: int = 1, most: int | None = None) -> None:
    """Turn these fields, integers from `least` to `most`, into ints."""
    owner = type(config).__name__
    for name in names:
        count = host_integer(owner, name, getattr(config, name), least=least, most=most)
        object.__setattr__(config, name, count)


def require_multiple(config: object, name: str, size: int, unit: str) -> None:
    """Accept a size, called `name`, that is a positive multiple of the field `unit`."""
    divisor = getattr(config, unit)
    if not size or size % divisor:
        raise ValueError(
            f"{type(config).__name__}: {name} = {size} must be a multiple of {unit} = {divisor}"
        )


def _require_positive(config: object, *names: str) -> None:
    for name in names:
        if host_number(type(config).__name__, name, getattr(config, name)) <= 0:
            raise ValueError(
                f"{type(config).__name__}: {name} must be positive, got {getattr(config, name)}"
            )


def _require_caps(config: object, name: str) -> None:
    if getattr(config, name) is not None:
        _require_positive(config, name)
