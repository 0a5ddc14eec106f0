"""The gated feed-forward layer: y = W_down (act(W_gate x) * W_up x) (Shazeer, 2020)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import mlx.core as mx
from mlx import nn

from xlstm_kernels.arguments import require_choice
from xlstm_kernels.nn.initialization import output_linear, small_linear


def _selu(x: mx.array) -> mx.array:
    # MLX's own has its constants to six digits.
    scale = mx.array(1.0507009873554805, dtype=x.dtype)
    return mx.multiply(scale, nn.elu(x, 1.6732632423543772))


#: The names are PyTorch's and those of the package xlstm.
ACTIVATIONS = {
    "silu": nn.silu,
    "swish": nn.silu,
    "gelu": nn.gelu,
    "relu": nn.relu,
    "relu^2": nn.relu2,
    "sigmoid": nn.sigmoid,
    "selu": _selu,
}


@functools.cache
def _gated(activation: str) -> Callable[[mx.array, mx.array], mx.array]:
    """act(gate) * up, as one kernel."""
    function = ACTIVATIONS[activation]
    return mx.compile(lambda gate, up: function(gate) * up, shapeless=True)


class FeedForward(nn.Module):
    """Up to a greater width, gated, and down again; parameters are named as in xLSTM-7B.

    Args:
        hidden_size: D, the width of the residual stream.
        up_size: the width in between.
        activation: of the gate: `"silu"` (or `"swish"`) as in xLSTM-7B, `"gelu"` as after an sLSTM,
            `"relu"`, `"relu^2"`, `"sigmoid"` or `"selu"`.
        use_bias: whether the linear layers have biases.
        num_hidden_layers: blocks of the model, which scale the initial values of the way down.

    Raises:
        ValueError: for another activation.
    """

    def __init__(
        self,
        hidden_size: int,
        up_size: int,
        activation: str = "silu",
        *,
        use_bias: bool = False,
        num_hidden_layers: int = 1,
    ) -> None:
        super().__init__()
        require_choice("FeedForward", "activation", activation, ACTIVATIONS)
        # By name: MLX's activations can be neither copied nor pickled, and a layer must be.
        self.activation = activation
        self.proj_up_gate = small_linear(hidden_size, up_size, bias=use_bias)
        self.proj_up = small_linear(hidden_size, up_size, bias=use_bias)
        self.proj_down = output_linear(
            up_size, hidden_size, num_hidden_layers=num_hidden_layers, bias=use_bias
        )

    def __call__(self, x: mx.array) -> mx.array:
        """Transform x (..., D), position by position."""
        gated = _gated(self.activation)
        return self.proj_down(gated(self.proj_up_gate(x), self.proj_up(x)))

    def _extra_repr(self) -> str:
        return f"activation={self.activation!r}"
