"""The causal convolution by the call, and in the layout, of Dao's causal-conv1d: (B, D, L)."""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.arguments import require_floating, require_shape
from xlstm_kernels.conv.causal_conv1d import causal_conv1d
from xlstm_kernels.executors import StreamLike, on_stream
from xlstm_kernels.packing import Places, as_places, seq_idx_from_cu_seqlens


@on_stream
def causal_conv1d_fn(
    x: mx.array,
    weight: mx.array,
    bias: mx.array | None = None,
    seq_idx: mx.array | None = None,
    initial_states: mx.array | None = None,
    return_final_states: bool = False,
    final_states_out: None = None,
    activation: str | None = None,
    *,
    cu_seqlens: Places | None = None,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array | tuple[mx.array, mx.array]:
    """Convolve each channel of `x` with its own filter: `causal_conv1d`, channels first.

    No axis moves in memory, so that x may be a transposed (B, L, D), the faster layout.

    Args:
        x: (B, D, L); float32, float16 or bfloat16.
        weight: (D, W), 1 <= W <= 32.
        bias: (D,), or None for none.
        seq_idx: (B, L) integers, see `causal_conv1d`.
        initial_states: (B, D, W-1), the steps before the first of x; None for zeros.
        return_final_states: whether to return the last W-1 steps as well.
        final_states_out: only None: arrays are values, and the final states are returned.
        activation: None, "silu" or "swish".
        cu_seqlens: (N + 1,), the places where the sequences of a single row begin, and the end of
            the last one, in place of `seq_idx`.
        backend: as in `causal_conv1d`.

    Returns:
        y (B, D, L) in the dtype of x; with `return_final_states` the pair of it and the final
        states (B, D, W-1).

    Raises:
        TypeError: for a dtype that is not listed.
        ValueError: for shapes that do not fit, for `final_states_out`, for both `seq_idx` and
            `cu_seqlens`, and for the latter with several rows; otherwise as `causal_conv1d`.
    """
    operator = "causal_conv1d_fn"
    require_floating(operator, "x", x)
    if x.ndim != 3:
        raise ValueError(f"{operator}: x must be (B, D, L), channels first, got {x.shape}")
    require_floating(operator, "weight", weight)
    if weight.shape[:1] != x.shape[1:2]:
        raise ValueError(
            f"{operator}: weight must be (D, W) for x (B, D, L) = {x.shape}, got {weight.shape}"
        )
    if final_states_out is not None:
        raise ValueError(f"{operator}: final_states_out must be None: use return_final_states=True")
    if cu_seqlens is not None:
        if seq_idx is not None or x.shape[0] != 1:
            raise ValueError(f"{operator}: cu_seqlens needs B = 1 and no seq_idx, got {x.shape}")
        seq_idx = seq_idx_from_cu_seqlens(cu_seqlens, x.shape[2])
    if initial_states is not None:
        require_floating(operator, "initial_states", initial_states)
        shape = (*x.shape[:2], weight.shape[-1] - 1)
        require_shape(operator, "initial_states", initial_states, shape, "(B, D, W-1)")
        initial_states = mx.swapaxes(initial_states, -1, -2)
    result = causal_conv1d(
        mx.swapaxes(x, 1, 2),
        weight,
        bias,
        initial_states,
        return_final_states,
        activation,
        seq_idx=seq_idx,
        backend=backend,
    )
    if isinstance(result, tuple):
        y, final_states = result
        return mx.swapaxes(y, 1, 2), mx.swapaxes(final_states, 1, 2)
    return mx.swapaxes(result, 1, 2)


def causal_conv1d_varlen_states(x: mx.array, cu_seqlens: Places, state_len: int) -> mx.array:
    """The last steps of each of the sequences in a row, to go on from with `causal_conv1d_update`.

    Args:
        x: (L, D), the sequences one after the other.
        cu_seqlens: (N + 1,), the places where they begin, and the end of the last one.
        state_len: steps of a state, W-1 for a filter of W taps.

    Returns:
        (N, D, state_len) in the dtype of x; zero where a sequence has fewer steps.

    Raises:
        TypeError: for a dtype that is not listed, and for places that are not integers.
        ValueError: for shapes that do not fit.
    """
    operator = "causal_conv1d_varlen_states"
    require_floating(operator, "x", x)
    if x.ndim != 2:
        raise ValueError(f"{operator}: x must be (L, D), got {x.shape}")
    ends = as_places(operator, cu_seqlens, x.shape[0])
    rows = mx.expand_dims(ends[1:], axis=1) - mx.arange(state_len, 0, -1, dtype=ends.dtype)
    inside = mx.expand_dims(rows >= mx.expand_dims(ends[:-1], axis=1), axis=2)
    last = mx.take(x, mx.maximum(rows, mx.zeros_like(rows)), axis=0)
    return mx.swapaxes(mx.where(inside, last, mx.zeros_like(last)), 1, 2)
