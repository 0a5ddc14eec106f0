"""One step, or a few, of a causal depthwise convolution that goes on: decoding."""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.arguments import require_choice, require_floating
from xlstm_kernels.conv.arguments import ACTIVATIONS, require_filter
from xlstm_kernels.conv.causal_conv1d import causal_conv1d
from xlstm_kernels.executors import StreamLike, on_stream

_NAME = "causal_conv1d_update"


@on_stream
def causal_conv1d_update(
    x: mx.array,
    conv_state: mx.array,
    weight: mx.array,
    bias: mx.array | None = None,
    activation: str | None = None,
    *,
    backend: str | None = None,
    stream: StreamLike = None,
) -> tuple[mx.array, mx.array]:
    """Go on with `causal_conv1d` where `conv_state` says it is, and return the new state with y.

    Nothing is changed in place, since MLX's arrays are values: keep the state that is returned.
    Dao's `causal_conv1d_update` overwrites its conv_state, (B, C, K-1) or wider, and returns only
    y. The state in NX-AI's xlstm has K rows, (B, K, C), of which the oldest is never used again:
    its rows 1 to K-1 are this one.

    As `causal_conv1d` in arithmetic, gradients, errors and in everything not said here.

    Args:
        x: (B, C), one step; or (B, S, C), S steps. float32, float16 or bfloat16.
        conv_state: (B, K-1, C) of any of these dtypes, the steps before x, the latest last: zeros
            at the start, or the final states of `causal_conv1d`, or what this function returned.
        weight: (C, K), 1 <= K <= 32; weight[:, K-1] is multiplied with the current step.
        bias: (C,), or None for none.
        activation: None; or "silu", also called "swish".
        backend: as in `causal_conv1d`.

    Returns:
        The pair (y, new_state), both in the dtype of x: y in its shape, new_state (B, K-1, C).
    """
    require_floating(_NAME, "x", x)
    if x.ndim not in {2, 3}:
        raise ValueError(f"{_NAME}: x must be (B, C) or (B, S, C), got {x.shape}")
    steps = mx.expand_dims(x, 1) if x.ndim == 2 else x
    # None would mean zeros to `causal_conv1d`: here it is a cache that nobody made.
    require_floating(_NAME, "conv_state", conv_state)
    require_filter(_NAME, steps, weight, bias, ("conv_state", conv_state))
    require_choice(_NAME, "activation", activation, ACTIVATIONS)
    y, new_state = causal_conv1d(steps, weight, bias, conv_state, True, activation, backend=backend)
    return y.reshape(x.shape), new_state
