"""Checks on the arguments that the causal convolutions share."""

from __future__ import annotations

from typing import Any

from xlstm_kernels.arguments import Accept, require_floating, require_shape

MAX_WIDTH = 32
#: Of a convolution; "swish" is another name of "silu".
ACTIVATIONS = (None, "silu", "swish")


def require_filter(
    operator: str,
    x: Any,
    weight: Any,
    bias: Any | None,
    states: tuple[str, Any | None],
    accept: Accept = require_floating,
) -> None:
    """Accept x (B, S, C), weight (C, K), bias (C,), and states (B, K-1, C) with their name.

    They are arrays, or tensors that `accept` takes.

    Raise a TypeError for a dtype other than float32, float16 and bfloat16, a ValueError for shapes
    that do not fit, and for K < 1 or K > 32.
    """
    batch, _, channels = x.shape
    accept(operator, "weight", weight)
    if weight.ndim != 2 or weight.shape[0] != channels:
        raise ValueError(
            f"{operator}: weight must be (C, K) with the C = {channels} channels of x, "
            f"got {tuple(weight.shape)}"
        )
    width = weight.shape[1]
    if not 1 <= width <= MAX_WIDTH:
        raise ValueError(
            f"{operator}: a filter must have 1 to {MAX_WIDTH} taps, got K = {width}; "
            "use fft_conv for longer ones"
        )
    if bias is not None:
        accept(operator, "bias", bias)
        require_shape(operator, "bias", bias, (channels,), "one number for each channel")
    name, held = states
    if held is not None:
        accept(operator, name, held)
        require_shape(operator, name, held, (batch, width - 1, channels), "(B, K-1, C)")
