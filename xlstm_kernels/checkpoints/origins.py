"""Recognize the package that a checkpoint comes from, and convert it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from xlstm_kernels.checkpoints import block_stack, hugging_face
from xlstm_kernels.nn.block_stack import xLSTMBlockStack, xLSTMLMModel
from xlstm_kernels.nn.block_stack_config import xLSTMBlockStackConfig, xLSTMLMModelConfig
from xlstm_kernels.nn.model import xLSTM

if TYPE_CHECKING:
    from collections.abc import Mapping

    import mlx.core as mx

    from xlstm_kernels.nn.config import xLSTMConfig

    Config: TypeAlias = xLSTMConfig | xLSTMBlockStackConfig
    Model: TypeAlias = xLSTM | xLSTMBlockStack | xLSTMLMModel


def convert_weights(
    weights: Mapping[str, mx.array], config: Mapping[str, Any]
) -> tuple[Config, dict[str, mx.array]]:
    """Convert a checkpoint to a configuration and the weights of the model that it describes.

    Nothing is evaluated: weights that `mx.load` reads lazily stay in their file. Quantized weights
    (with a `"quantization"` in their configuration) have the names of this package already; they
    are not compared with the model.

    Args:
        weights: by the names of the checkpoint.
        config: the contents of its `config.json` or `config.yaml`.

    Returns:
        The configuration, for `create_model`, and all weights, for `model.load_weights`.

    Raises:
        TypeError: for a value of an unexpected type in the configuration.
        ValueError: for a checkpoint of no known origin, and for missing, unexpected and misshapen
            weights, with their names in the checkpoint.
    """
    if block_stack.matches(weights):
        return block_stack.convert(weights, config)
    if hugging_face.matches(weights):
        return hugging_face.convert(weights, config)
    raise ValueError(
        "convert_weights: unknown origin: expected weights of transformers' xLSTMForCausalLM "
        "('backbone.embeddings.weight'), or of xlstm's xLSTMLarge ('embedding.weight') or "
        "xLSTMLMModel ('xlstm_block_stack.blocks.0.xlstm_norm.weight'), "
        f"got {', '.join(map(repr, sorted(weights)[:3])) or 'none'}"
    )


def create_model(config: Config) -> Model:
    """Create the model that a configuration describes."""
    if isinstance(config, xLSTMLMModelConfig):
        return xLSTMLMModel(config)
    if isinstance(config, xLSTMBlockStackConfig):
        return xLSTMBlockStack(config)
    return xLSTM(config)
