"""Checkpoints of `xLSTMLarge` in NX-AI's package xlstm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlstm_kernels.checkpoints import hugging_face

if TYPE_CHECKING:
    from collections.abc import Mapping

    import mlx.core as mx

    from xlstm_kernels.nn.config import xLSTMConfig

_EMBEDDINGS = "embedding.weight"
# Where xLSTMLarge's defaults are not Hugging Face's.
_DEFAULTS = {"ffn_proj_factor": 2.6667}


def matches(weights: Mapping[str, mx.array]) -> bool:
    """Return whether weights have the names of this origin."""
    return _EMBEDDINGS in weights


def convert(
    weights: Mapping[str, mx.array], config: Mapping[str, Any]
) -> tuple[xLSTMConfig, dict[str, mx.array]]:
    """Convert a checkpoint; see `convert_weights`.

    The mode is `"inference"`, as `xlstm`'s `load_from_pretrained` sets it: here it takes any length
    and can be trained.
    """
    settings = {"mode": "inference", "return_last_states": True}
    return hugging_face.convert(weights, {**_DEFAULTS, **config, **settings})
