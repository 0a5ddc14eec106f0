"""Checkpoints of transformers' `xLSTMForCausalLM`, such as NX-AI/xLSTM-7b, and of `nn.xLSTM`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlstm_kernels.checkpoints.parameters import require_parameters
from xlstm_kernels.nn.config import xLSTMConfig
from xlstm_kernels.nn.model import xLSTM

if TYPE_CHECKING:
    from collections.abc import Mapping

    import mlx.core as mx


def matches(weights: Mapping[str, mx.array]) -> bool:
    """Return whether weights have the names of this origin."""
    return "backbone.embeddings.weight" in weights


def convert(
    weights: Mapping[str, mx.array], config: Mapping[str, Any]
) -> tuple[xLSTMConfig, dict[str, mx.array]]:
    """Convert a checkpoint; see `convert_weights`."""
    model = xLSTM(xLSTMConfig.from_dict(config))
    ours = model.sanitize(weights)
    if not config.get("quantization"):
        require_parameters(ours, model)
    return model.config, ours
