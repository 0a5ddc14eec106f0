"""Norms of each head by itself, as xLSTM-7B has them between its cells and their output projection.

Over the DH elements of a head, with s the square root of (what is below + eps):
layer norm: y = (h - mean(h)) / s, s of the variance; RMS norm: y = h / s, s of the mean square.
Then y * weight + bias with one weight for each element of each head, and, in one go with it, the
output gate of the mLSTM: times sigmoid(gate) (Beck et al., "xLSTM 7B", 2025).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from xlstm_kernels.arguments import Accept, non_negative, require_floating, require_shape
from xlstm_kernels.differentiation import Arrays, Operation, with_gradient_kernel
from xlstm_kernels.executors import NATIVE, StreamLike, on_stream, resolve
from xlstm_kernels.norm.row_gradients import norm_gradient_kernel
from xlstm_kernels.norm.rows import norm_kernel


@on_stream
def multi_head_layer_norm(
    x: mx.array,
    weight: mx.array | None = None,
    bias: mx.array | None = None,
    eps: float = 1e-6,
    *,
    gate: mx.array | None = None,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array:
    """Bring each head of `x` to mean zero and variance one; then weight, bias and output gate.

    Computed in float32 and rounded once. The variance is that of the differences from the mean, so
    that values which lie far from zero, close to each other, keep their digits. Differentiable any
    number of times, in all arrays.

    Args:
        x: (B, S, NH, DH); float32, float16 or bfloat16. Any axis may be empty. It is read as it
            lies: h (B, NH, S, DH), seen as `h.transpose(0, 2, 1, 3)`, is not copied.
        weight: (NH*DH,) of any of these dtypes, or None for ones.
        bias: (NH*DH,) of any of these dtypes, or None for zeros.
        eps: a number, zero or positive, added to the variance.
        gate: (B, S, NH*DH) of any of these dtypes: the result is multiplied by its sigmoid. None
            for no gate.
        backend: "metal", "cuda", "native" (MLX operations; `mx.vmap` needs it), or None to choose.

    Returns:
        (B, S, NH*DH), in the dtype of `x`.

    Raises:
        TypeError: for a dtype that is not listed, or an `eps` that is not a number.
        ValueError: for shapes that do not fit, an `eps` that is negative or not finite, an unknown
            backend.
        RuntimeError: for a backend that cannot run here.
    """
    extras = {"weight": weight, "bias": bias, "gate": gate}
    return _normalise("multi_head_layer_norm", x, extras, eps, backend, centred=True)


@on_stream
def multi_head_rms_norm(
    x: mx.array,
    weight: mx.array | None = None,
    eps: float = 1e-6,
    *,
    bias: mx.array | None = None,
    gate: mx.array | None = None,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array:
    """Bring each head of `x` to a root mean square of one; then weight, bias and output gate.

    As `multi_head_layer_norm`, but that no mean is taken away: eps is added to the mean square.
    Arguments, result (B, S, NH*DH) and errors are those of it.
    """
    extras = {"weight": weight, "bias": bias, "gate": gate}
    return _normalise("multi_head_rms_norm", x, extras, eps, backend, centred=False)


def require_heads(
    operator: str, x: Any, extras: Mapping[str, Any], accept: Accept = require_floating
) -> dict[str, Any]:
    """Return those extras that are not None, if they fit x (B, S, NH, DH): arrays, or tensors."""
    accept(operator, "x", x)
    if x.ndim != 4:
        raise ValueError(f"{operator}: x must be (B, S, NH, DH), got shape {tuple(x.shape)}")
    batch, length, heads, columns = x.shape
    present = {name: array for name, array in extras.items() if array is not None}
    for name, array in present.items():
        accept(operator, name, array)
        fitting = (heads * columns,) if name != "gate" else (batch, length, heads * columns)
        require_shape(operator, name, array, fitting, f"for x of {tuple(x.shape)}")
    return present


def finished(
    flat: mx.array,
    weight: mx.array | None = None,
    bias: mx.array | None = None,
    gate: mx.array | None = None,
) -> mx.array:
    """Normalised heads side by side, weighted and gated, in float32."""
    if weight is not None:
        flat = flat * weight.astype(mx.float32)
    if bias is not None:
        flat = flat + bias.astype(mx.float32)
    return flat if gate is None else flat * mx.sigmoid(gate.astype(mx.float32))


def inverse_root(wide: mx.array, eps: float) -> mx.array:
    """1 / sqrt(mean of squares + eps) of each row of a float32 array, (..., 1)."""
    mean_square = mx.mean(mx.square(wide), axis=-1, keepdims=True)
    return mx.rsqrt(mean_square + mx.array(eps, dtype=mean_square.dtype))


def _normalise(
    operator: str,
    x: mx.array,
    extras: Mapping[str, mx.array | None],
    eps: float,
    backend: str | None,
    *,
    centred: bool,
) -> mx.array:
    present = require_heads(operator, x, extras)
    batch, length, heads, columns = x.shape
    epsilon = non_negative(operator, "eps", eps)
    resolved = resolve(backend)
    if not x.size:
        # On a CPU, MLX 0.32 may never end the sum over an empty axis of an array made by NumPy.
        return mx.zeros((batch, length, heads * columns), dtype=x.dtype)
    operation = norm_operation(operator, resolved, epsilon, tuple(present), centred=centred)
    normalised: mx.array = operation(x, *present.values())
    return normalised


@functools.cache
def norm_operation(
    operator: str, backend: str, eps: float, extras: tuple[str, ...], *, centred: bool
) -> Operation:
    """The differentiable operation (x, each of the extras) -> normalised on one backend."""
    native = _reference(eps, extras, centred=centred)
    if backend == NATIVE:
        return native
    kernel = norm_kernel(extras, centred=centred)
    pulling = norm_gradient_kernel(extras, centred=centred)

    def launch(x: mx.array, *arrays: mx.array) -> mx.array:
        (normalised,) = kernel(x, _scalar(eps), *arrays, backend=backend)
        return normalised

    def pull_back(primals: Arrays, cotangents: Arrays) -> Arrays:
        x, *arrays = primals
        in_x, *gradients = pulling(x, _scalar(eps), *cotangents, *arrays, backend=backend)
        results = (
            gradient if name == "gate" else mx.sum(gradient, axis=0).astype(array.dtype)
            for name, array, gradient in zip(extras, arrays, gradients, strict=True)
        )
        return in_x, *results

    return with_gradient_kernel(backend, launch, native, pull_back, operator=operator)


def _reference(eps: float, extras: tuple[str, ...], *, centred: bool) -> Operation:
    """The norm in MLX operations, of x and each of the extras."""

    def reference(x: mx.array, *arrays: mx.array) -> mx.array:
        wide = x.astype(mx.float32)
        if centred:
            # The mean as rounded, then that of what it left: see the kernel.
            wide = wide - mx.mean(wide, axis=-1, keepdims=True)
            wide = wide - mx.mean(wide, axis=-1, keepdims=True)
        flat = mx.flatten(wide * inverse_root(wide, eps), 2, 3)
        return finished(flat, **dict(zip(extras, arrays, strict=True))).astype(x.dtype)

    return reference


def _scalar(number: float) -> mx.array:
    """Made anew for each call: an array that outlives it would be tied to the calling thread."""
    return mx.array(number, dtype=mx.float32)
