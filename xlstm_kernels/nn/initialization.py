"""Initial values of the weights and biases of xLSTM (Beck et al., "xLSTM", 2024; "xLSTM 7B", 2025).

Of what reads the residual stream a normal distribution of variance 2 / (5 d) (Nguyen and Salazar,
"Transformers without Tears", 2019); of what writes to it one of deviation 2 / (L sqrt(d)), for L
blocks (Wang and Komatsuzaki, "GPT-J-6B", 2021).
"""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels.nn.linear import Linear

#: Of xLSTM-7B: at first little is let in.
INPUT_GATE_BIAS = -10.0
_FORGET_GATE_BIASES = (3.0, 6.0)


def small_linear(inputs: int, outputs: int, *, bias: bool = False) -> Linear:
    """A linear layer that reads the residual stream: normal, of variance 2 / (5 inputs)."""
    layer = Linear(inputs, outputs, bias=bias)
    layer.weight = small_normal((outputs, inputs), inputs)
    return _without_offset(layer)


def output_linear(
    inputs: int, outputs: int, *, num_hidden_layers: int, bias: bool = False
) -> Linear:
    """A linear layer that writes to the residual stream: of deviation 2 / (L sqrt(outputs))."""
    layer = Linear(inputs, outputs, bias=bias)
    deviation = 2 / (num_hidden_layers * math.sqrt(outputs))
    layer.weight = mx.random.normal((outputs, inputs), scale=deviation)
    return _without_offset(layer)


def gate_linear(inputs: int, biases: mx.array) -> Linear:
    """A linear layer that at first gives each of its outputs, the gates, its bias."""
    layer = Linear(inputs, biases.size, bias=True)
    layer.weight = mx.zeros((biases.size, inputs))
    layer.bias = biases
    return layer


def small_normal(shape: tuple[int, ...], width: int) -> mx.array:
    """Normal numbers of variance 2 / (5 width), float32."""
    return mx.random.normal(shape, scale=math.sqrt(2 / (5 * width)))


def forget_gate_biases(num_heads: int) -> mx.array:
    """From 3 to 6 in equal steps over the heads (NH,): each remembers longer than the last."""
    return mx.linspace(*_FORGET_GATE_BIASES, num_heads)


def slstm_biases(
    num_heads: int, units: int, *, layer_index: int, num_hidden_layers: int
) -> mx.array:
    """The biases (4, N, D) of an sLSTM: zero, but for the forget gates.

    Theirs fall from 5 to -7 over the units of a head, along a power law: 5 - 12 x^p for x from 0 to
    1, with p from 0.3 in the first block of the model to 1.6 in the last one, as in the package
    `xlstm`.
    """
    depth = layer_index / (num_hidden_layers - 1) if num_hidden_layers > 1 else 0.0
    falling = [5 - 12 * (unit / max(units - 1, 1)) ** (0.3 + 1.3 * depth) for unit in range(units)]
    forget = mx.broadcast_to(mx.array(falling, dtype=mx.float32), (num_heads, units))
    nothing = mx.zeros_like(forget)
    return mx.stack([nothing, forget, nothing, nothing])


def _without_offset(layer: Linear) -> Linear:
    if "bias" in layer:
        layer.bias = mx.zeros_like(layer.bias)
    return layer
