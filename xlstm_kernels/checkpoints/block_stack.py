"""Checkpoints of `xLSTMLMModel` and `xLSTMBlockStack` in NX-AI's package xlstm."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from xlstm_kernels.checkpoints.parameters import (
    Source,
    gather,
    parameter_shapes,
    require_parameters,
)
from xlstm_kernels.nn.block_stack import xLSTMBlockStack, xLSTMLMModel
from xlstm_kernels.nn.block_stack_config import xLSTMBlockStackConfig, xLSTMLMModelConfig

_EMBEDDINGS, _HEAD = "token_embedding.weight", "lm_head.weight"
# Theirs, by the ends of our names. Their layer feeds i from what it calls fgate, and f from igate.
_MLSTM_NAMES = {
    "conv1d.weight": "conv1d.conv.weight",
    "conv1d.bias": "conv1d.conv.bias",
    "q_bias": "q_proj.bias",
    "k_bias": "k_proj.bias",
    "v_bias": "v_proj.bias",
    "igate_preact.weight": "mlstm_cell.igate.weight",
    "igate_preact.bias": "mlstm_cell.igate.bias",
    "fgate_preact.weight": "mlstm_cell.fgate.weight",
    "fgate_preact.bias": "mlstm_cell.fgate.bias",
    "multihead_norm.weight": "mlstm_cell.outnorm.weight",
}
_SLSTM_NAMES = {
    "conv1d.weight": "conv1d.conv.weight",
    "conv1d.bias": "conv1d.conv.bias",
    "igate_preact.weight": "fgate.weight",
    "fgate_preact.weight": "igate.weight",
    "zgate_preact.weight": "zgate.weight",
    "ogate_preact.weight": "ogate.weight",
    "slstm_cell.recurrent_weight": "slstm_cell._recurrent_kernel_",
    "slstm_cell.bias": "slstm_cell._bias_",
    "multihead_norm.weight": "group_norm.weight",
}


def matches(weights: Mapping[str, mx.array]) -> bool:
    """Return whether weights have the names of this origin."""
    return any(key.endswith(".xlstm_norm.weight") for key in weights)


def convert(
    weights: Mapping[str, mx.array], config: Mapping[str, Any]
) -> tuple[xLSTMBlockStackConfig, dict[str, mx.array]]:
    """Convert a checkpoint; see `convert_weights`.

    Weights that this package has saved keep their names.
    """
    given = dict(weights)
    settings: xLSTMBlockStackConfig
    model: xLSTMBlockStack | xLSTMLMModel
    if any(key.startswith("xlstm_block_stack.") for key in given):
        settings = lm_settings = xLSTMLMModelConfig.from_dict(config)
        model = xLSTMLMModel(lm_settings)
        if lm_settings.tie_weights and _HEAD in given:
            # One matrix by two names, of which a file may have either.
            given[_EMBEDDINGS] = given.pop(_HEAD)
    else:
        settings = xLSTMBlockStackConfig.from_dict(config)
        model = xLSTMBlockStack(settings)
    if config.get("quantization"):
        return settings, given
    if any(key.endswith(".xlstm.igate_preact.weight") for key in given):
        require_parameters(given, model)
        return settings, given
    shapes = parameter_shapes(model)
    sources = {name: _source(name, shapes, given) for name in shapes}
    slstm = (config.get("slstm_block") or {}).get("slstm") or {}
    if not slstm.get("group_norm_weight", True):
        for source in sources.values():
            if source.key.endswith(".group_norm.weight"):
                given[source.key] = mx.zeros(source.shapes[0])
    return settings, gather(sources, given)


def _source(
    name: str, shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, mx.array]
) -> Source:
    """The origin of one of our parameters, named as those in `shapes`."""
    key, shape = _key(name, shapes), shapes[name]
    if name.endswith("norm.weight"):
        return Source(key, (shape,), lambda weight: 1 + weight)  # they keep what differs from 1
    if name.endswith(".conv1d.weight"):
        return Source(key, ((shape[0], 1, shape[1]),), lambda weight: weight[:, 0])
    if ".ffn.proj_up" in name:
        rows = slice(shape[0]) if "proj_up_gate" in name else slice(shape[0], None)
        return Source(key, ((2 * shape[0], *shape[1:]),), lambda weight: weight[rows])
    if name.endswith(".slstm_cell.recurrent_weight"):
        _, heads, units, _ = shape
        accepted = ((heads, 4 * units, units), (heads, units, 4 * units))
        return Source(key, accepted, _recurrent_weight)
    if name.endswith(".slstm_cell.bias"):
        recurrent = weights.get(key.removesuffix("_bias_") + "_recurrent_kernel_")
        is_cuda = recurrent is not None and _is_cuda(recurrent)
        read = functools.partial(_cell_bias, shape=shape, is_cuda=is_cuda)
        return Source(key, ((math.prod(shape),),), read)
    return Source(key, (shape,))


def _key(name: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Their name of one of our parameters."""
    block, _, rest = name.partition(".xlstm.")
    if not rest:
        return name.replace(".ffn.proj_up_gate.", ".ffn.proj_up.")
    is_slstm = f"{block}.xlstm.slstm_cell.bias" in shapes
    return f"{block}.xlstm.{(_SLSTM_NAMES if is_slstm else _MLSTM_NAMES).get(rest, rest)}"


def _is_cuda(recurrent: mx.array) -> bool:
    """Return whether R has the layout of their CUDA backend, (N, in, 4 out)."""
    return recurrent.ndim == 3 and recurrent.shape[2] == 4 * recurrent.shape[1]


def _recurrent_weight(weight: mx.array) -> mx.array:
    """R as (4, N, out, in), from (N, 4 out, in) or, of their CUDA backend, (N, in, 4 out)."""
    heads = weight.shape[0]
    if _is_cuda(weight):
        units = weight.shape[1]
        return weight.reshape(heads, units, 4, units).transpose(2, 0, 3, 1)
    units = weight.shape[2]
    return weight.reshape(heads, 4, units, units).transpose(1, 0, 2, 3)


def _cell_bias(weight: mx.array, shape: tuple[int, ...], is_cuda: bool) -> mx.array:
    """The bias as (4, N, D), from that order or, of their CUDA backend, (N, 4, D); both flat."""
    gates, heads, units = shape
    if is_cuda:
        return weight.reshape(heads, gates, units).swapaxes(0, 1)
    return weight.reshape(shape)
