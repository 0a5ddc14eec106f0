"""An xLSTM by its definition, in NumPy's float64, from parameters by their names.

Beck et al., "xLSTM 7B" (2025) for the mLSTM block, "xLSTM" (2024), figure 10, for the sLSTM block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.xlstm_kernels.conv import oracle as conv
from tests.xlstm_kernels.mlstm import oracle as mlstm
from tests.xlstm_kernels.recurrent.slstm import oracle as slstm

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Settings of a model that the shapes of its parameters do not determine."""

    num_hidden_layers: int
    num_heads: int
    gate_cap: float | None = 15.0
    logit_cap: float | None = 30.0


@dataclass(frozen=True, slots=True)
class Parameters:
    """Some of a model's parameters: those whose names begin with `place`."""

    numbers: Mapping[str, Numbers]
    place: str = ""

    def __getitem__(self, name: str) -> Numbers:
        return self.numbers[self.place + name]

    def __contains__(self, name: str) -> bool:
        return self.place + name in self.numbers

    def at(self, name: str) -> Parameters:
        return Parameters(self.numbers, f"{self.place}{name}.")

    def linear(self, name: str, x: Numbers) -> Numbers:
        y = x @ self[f"{name}.weight"].T
        return y + self[f"{name}.bias"] if f"{name}.bias" in self else y

    def scaled(self, name: str, x: Numbers) -> Numbers:
        """The last step of a norm."""
        y = x * self[f"{name}.weight"]
        return y + self[f"{name}.bias"] if f"{name}.bias" in self else y


def logits(numbers: Mapping[str, Numbers], tokens: NDArray[np.int64], sizes: Sizes) -> Numbers:
    """tokens (B, S) -> logits (B, S, V)."""
    everything = Parameters(numbers)
    backbone = everything.at("backbone")
    x = backbone["embeddings.weight"][tokens]
    for index in range(sizes.num_hidden_layers):
        x = block(backbone.at(f"blocks.{index}"), x, sizes)
    if "out_norm.weight" in backbone:
        x = backbone.scaled("out_norm", rms_normalised(x))
    head = everything if "lm_head.weight" in everything else None
    read = head.linear("lm_head", x) if head else x @ backbone["embeddings.weight"].T
    return capped(read, sizes.logit_cap)


def block(parameters: Parameters, x: Numbers, sizes: Sizes) -> Numbers:
    if "norm_mlstm.weight" in parameters:
        seen = parameters.scaled("norm_mlstm", rms_normalised(x))
        x = x + mlstm_layer(parameters.at("mlstm_layer"), seen, sizes)
        activation = conv.silu
    else:
        seen = parameters.scaled("norm_slstm", rms_normalised(x))
        x = x + slstm_layer(parameters.at("slstm_layer"), seen)
        activation = gelu
    seen, ffn = parameters.scaled("norm_ffn", rms_normalised(x)), parameters.at("ffn")
    inside = activation(ffn.linear("proj_up_gate", seen)) * ffn.linear("proj_up", seen)
    return x + ffn.linear("proj_down", inside)


def mlstm_layer(parameters: Parameters, x: Numbers, sizes: Sizes) -> Numbers:
    batch, steps, _ = x.shape

    def heads(y: Numbers) -> Numbers:
        return y.reshape(batch, steps, sizes.num_heads, -1).transpose(0, 2, 1, 3)

    q, k, v = (heads(parameters.linear(name, x)) for name in "qkv")
    i, f = (
        heads(capped(parameters.linear(f"{name}gate_preact", x), sizes.gate_cap))[..., 0]
        for name in "if"
    )
    h = mlstm.mlstm(q, k, v, i, f).h.transpose(0, 2, 1, 3)
    gate = sigmoid(parameters.linear("ogate_preact", x))
    normed = parameters.scaled("multihead_norm", layer_normalised(h).reshape(batch, steps, -1))
    return parameters.linear("out_proj", gate * normed)


def block_stack_logits(
    numbers: Mapping[str, Numbers], tokens: NDArray[np.int64], sizes: Sizes
) -> Numbers:
    """The paper's language model: tokens (B, S) -> logits (B, S, V)."""
    everything = Parameters(numbers)
    stack = everything.at("xlstm_block_stack")
    x = everything["token_embedding.weight"][tokens]
    for index in range(sizes.num_hidden_layers):
        block = stack.at(f"blocks.{index}")
        layer, seen = block.at("xlstm"), block.scaled("xlstm_norm", layer_normalised(x, 1e-5))
        if "proj_up.weight" in layer:
            x = x + up_projection_mlstm_layer(layer, seen, sizes)
        else:
            x = x + slstm_layer(layer, seen, 1e-5)
        if "ffn_norm.weight" in block:
            seen, ffn = block.scaled("ffn_norm", layer_normalised(x, 1e-5)), block.at("ffn")
            inside = gelu(ffn.linear("proj_up_gate", seen)) * ffn.linear("proj_up", seen)
            x = x + ffn.linear("proj_down", inside)
    if "post_blocks_norm.weight" in stack:
        x = stack.scaled("post_blocks_norm", layer_normalised(x, 1e-5))
    head = "lm_head" if "lm_head.weight" in everything else "token_embedding"
    return everything.linear(head, x)


def up_projection_mlstm_layer(parameters: Parameters, x: Numbers, sizes: Sizes) -> Numbers:
    batch, steps, _ = x.shape

    def heads(y: Numbers) -> Numbers:
        return y.reshape(batch, steps, sizes.num_heads, -1).transpose(0, 2, 1, 3)

    u, z = np.split(parameters.linear("proj_up", x), 2, axis=2)
    bias = parameters["conv1d.bias"]
    convolved, _ = conv.causal(u, parameters["conv1d.weight"], bias, activation="silu")
    qkv = []
    for name, seen in (("q", convolved), ("k", convolved), ("v", u)):
        weight = parameters[f"{name}_proj.weight"]
        by_block = seen.reshape(batch, steps, weight.shape[0], -1)
        y = np.einsum("noi,bsni->bsno", weight, by_block).reshape(u.shape)
        qkv.append(y + parameters[f"{name}_bias"] if f"{name}_bias" in parameters else y)
    joined = np.concatenate(qkv, axis=2)
    i, f = (heads(parameters.linear(f"{name}gate_preact", joined))[..., 0] for name in "if")
    h = mlstm.mlstm(*map(heads, qkv), i, f).h.transpose(0, 2, 1, 3)
    normed = parameters.scaled(
        "multihead_norm", layer_normalised(h, 1e-5).reshape(batch, steps, -1)
    )
    skipped = normed + parameters["learnable_skip"] * convolved
    return parameters.linear("proj_down", skipped * conv.silu(z))


def slstm_layer(parameters: Parameters, x: Numbers, eps: float = 1e-6) -> Numbers:
    batch, steps, _ = x.shape
    convolved = x
    if "conv1d.weight" in parameters:
        bias = parameters["conv1d.bias"]
        convolved, _ = conv.causal(x, parameters["conv1d.weight"], bias, activation="silu")
    gates = []
    for name, seen in (("i", convolved), ("f", convolved), ("z", x), ("o", x)):
        weight = parameters[f"{name}gate_preact.weight"]
        by_head = seen.reshape(batch, steps, weight.shape[0], -1)
        gates.append(np.einsum("noi,bsni->bsno", weight, by_head))
    cell = parameters.at("slstm_cell")
    result = slstm.slstm(np.stack(gates, axis=2), cell["recurrent_weight"], cell["bias"])
    y = layer_normalised(result.states[0], eps).reshape(batch, steps, -1)
    return parameters.scaled("multihead_norm", y)


def rms_normalised(x: Numbers, eps: float = 1e-6) -> Numbers:
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)


def layer_normalised(x: Numbers, eps: float = 1e-6) -> Numbers:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + eps)


def capped(x: Numbers, cap: float | None) -> Numbers:
    return x if cap is None else cap * np.tanh(x / cap)


def sigmoid(x: Numbers) -> Numbers:
    return 1 / (1 + np.exp(-x))


def gelu(x: Numbers) -> Numbers:
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def cross_entropy(predicted: Numbers, following: NDArray[np.int64]) -> float:
    """The mean over all tokens of -log softmax(predicted)[following]."""
    normaliser = np.log(np.exp(predicted).sum(axis=-1))
    chosen = np.take_along_axis(predicted, following[..., None], axis=-1)[..., 0]
    return float(np.mean(normaliser - chosen))
