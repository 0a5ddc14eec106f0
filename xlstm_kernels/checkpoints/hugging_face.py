"""Checkpoints of transformers' `xLSTMForCausalLM`, such as NX-AI/xLSTM-7b, and of `nn.xLSTM`.

Those of `xLSTMLarge` in NX-AI's package xlstm have another name of the embeddings, and defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from xlstm_kernels.checkpoints.parameters import require_parameters
from xlstm_kernels.nn.config import xLSTMConfig
from xlstm_kernels.nn.model import xLSTM

_OF_XLSTM_LARGE = "embedding.weight"


def matches(weights: Mapping[str, mx.array]) -> bool:
    """Return whether weights have the names of this origin."""
    return "backbone.embeddings.weight" in weights or _OF_XLSTM_LARGE in weights


def convert(
    weights: Mapping[str, mx.array], config: Mapping[str, Any]
) -> tuple[xLSTMConfig, dict[str, mx.array]]:
    """Convert a checkpoint; see `convert_weights`.

    For xLSTMLarge the mode is `"inference"`, as `xlstm`'s `load_from_pretrained` sets it: here it
    takes any length and can be trained.
    """
    if _OF_XLSTM_LARGE in weights:
        settings = {"mode": "inference", "return_last_states": True}
        config = {"ffn_proj_factor": 2.6667, **config, **settings}
    model = xLSTM(xLSTMConfig.from_dict(config))
    ours = model.sanitize(weights)
    if not config.get("quantization"):
        require_parameters(ours, model)
    return model.config, ours
