"""Which layers of a language model are quantized, and how a quantized checkpoint is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
from mlx import nn

#: Their exponentials and sigmoids decide how long a state lasts; they are 0.01 % of xLSTM-7B.
_GATES = ("igate_preact", "fgate_preact")


def is_quantized(path: str) -> bool:
    """Return whether quantization includes a layer: all but input and forget gates."""
    return not path.endswith(_GATES)


def quantize(model: nn.Module, bits: int = 4, group_size: int = 64) -> None:
    """Quantize linear layers and embeddings of a model in place; nothing is evaluated.

    Layers whose width is not a multiple of the group size keep their dtype, as do gates.

    Args:
        model: a model of `xlstm_kernels.nn`.
        bits: bits of a weight: 2, 3, 4, 5, 6 or 8.
        group_size: weights that share a scale: 32, 64 or 128.

    Raises:
        ValueError: if there is no layer that can be quantized.
    """

    def is_included(path: str, layer: nn.Module) -> bool:
        return (
            hasattr(layer, "to_quantized")
            and is_quantized(path)
            and layer.weight.shape[-1] % group_size == 0
        )

    if not any(is_included(path, layer) for path, layer in model.named_modules()):
        raise ValueError(f"no layer has a width that is a multiple of {group_size}, the group size")
    nn.quantize(model, group_size, bits, class_predicate=is_included)


def quantize_as(
    model: nn.Module, weights: Mapping[str, mx.array], settings: Mapping[str, Any]
) -> None:
    """Quantize the layers of a model that are quantized in a checkpoint, for `load_weights`.

    Quantized weights have a neighbour `scales`. The settings are `quantization` of mlx-lm's
    config.json: `group_size`, `bits`, `mode`, and other values of these by the paths of single
    layers. Raise a TypeError if there is no group size or bits.
    """
    if not isinstance(settings, dict) or not {"group_size", "bits"} <= settings.keys():
        raise TypeError(f"quantization must have group_size and bits, got {settings}")

    def choice(path: str, layer: nn.Module) -> bool | dict[str, Any]:
        if not hasattr(layer, "to_quantized") or f"{path}.scales" not in weights:
            return False
        own: bool | dict[str, Any] = settings.get(path, True)
        return own

    nn.quantize(
        model,
        settings["group_size"],
        settings["bits"],
        mode=settings.get("mode", "affine"),
        class_predicate=choice,
    )
