"""RMS norm: y = x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang, Sennrich 2019)."""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.arguments import non_negative, require_floating, require_shape
from xlstm_kernels.executors import NATIVE, StreamLike, on_stream, resolve
from xlstm_kernels.norm.multi_head_norm import finished, inverse_root, norm_operation


@on_stream
def rms_norm(
    x: mx.array,
    weight: mx.array | None = None,
    eps: float = 1e-6,
    *,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array:
    """Scale each row of `x` to a root mean square of one, then by `weight`.

    Computed in float32 and rounded once; with a half-precision weight of the dtype of `x` also
    before the weight, as in `mx.fast.rms_norm`, which computes on kernel backends then: on an H200
    its gradient takes 0.4 to 0.96 of the time of a kernel here. Differentiable any number of times,
    in `x` and `weight`. Errors are those of `multi_head_layer_norm`.

    Args:
        x: (..., D); float32, float16 or bfloat16. Any axis may be empty.
        weight: (D,) of any of these dtypes, or None for ones.
        eps: a number, zero or positive, added to the mean square.
        backend: as in `multi_head_layer_norm`.

    Returns:
        An array of the shape and dtype of `x`: a float32 weight does not promote a half-precision
        `x`, as it does in `mx.fast.rms_norm`.
    """
    require_floating("rms_norm", "x", x)
    if not x.ndim:
        raise ValueError("rms_norm: x must have an axis to normalise over, got a 0-d array")
    epsilon = non_negative("rms_norm", "eps", eps)
    if weight is not None:
        require_floating("rms_norm", "weight", weight)
        require_shape("rms_norm", "weight", weight, x.shape[-1:], "the last axis of x")
    resolved = resolve(backend)
    if not x.size:
        # On a CPU, MLX 0.32 may never end the sum over an empty axis of an array made by NumPy.
        return mx.zeros_like(x)
    if resolved == NATIVE:
        return rms_norm_reference(x, weight, epsilon)
    if weight is None or weight.dtype == x.dtype:
        return mx.fast.rms_norm(x, weight, epsilon)
    # MLX's kernel promotes x to the dtype of the weight.
    operation = norm_operation("rms_norm", resolved, epsilon, ("weight",), centred=False)
    normalised: mx.array = operation(x.reshape((1, -1, 1, x.shape[-1])), weight)
    return normalised.reshape(x.shape)


def rms_norm_reference(x: mx.array, weight: mx.array | None, eps: float) -> mx.array:
    """`rms_norm` in MLX operations."""
    wide = x.astype(mx.float32)
    return finished(wide * inverse_root(wide, eps), weight).astype(x.dtype)
