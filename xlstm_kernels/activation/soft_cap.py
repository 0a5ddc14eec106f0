"""Soft cap: y = c * tanh(x / c), which bounds x to (-c, c) and is close to the identity near zero.

xLSTM caps its gate pre-activations at 15 and its logits at 30.
"""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels import by_size
from xlstm_kernels.arguments import host_number, require_floating
from xlstm_kernels.differentiation import Arrays, Operation, on_backend
from xlstm_kernels.executors import StreamLike, on_stream
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import PACKS

_SMALLEST_CAP = mx.finfo(mx.float32).smallest_normal  # a GPU takes it or 1 / cap below for zero
_PACK_BYTES = 16


@on_stream
def soft_cap(
    values: mx.array,
    cap_value: float | mx.array | None,
    *,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array:
    """Bound `values` smoothly to the interval [-cap_value, cap_value].

    Computed in float32 and rounded once. Differentiable any number of times, in `values` and in a
    `cap_value` that is an array.

    Args:
        values: any shape, 0-d and empty included; float32, float16 or bfloat16.
        cap_value: a positive number; a 0-d array of one, such as a learned cap; or None for no
            bound. The number in an array is not checked, since looking at it would force its
            evaluation: a cap of zero gives NaN, a negative one acts as its absolute value.
        backend: `"metal"`, `"cuda"`, `"native"` (MLX operations), or None for kernels where they
            can run, and MLX operations where these are faster (`by_size`). Inside `mx.vmap`
            it must be `"native"`.

    Returns:
        An array of the shape and dtype of `values`.

    Raises:
        TypeError: for a dtype or a kind of cap that is not listed.
        ValueError: for a number that is not positive and finite, for an array that is not 0-d, for
            an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    require_floating("soft_cap", "values", values)
    if cap_value is None:
        return values
    if isinstance(cap_value, mx.array):
        cap, variable_cap = _array_cap(cap_value), True
    else:
        cap, variable_cap = mx.array(require_cap(cap_value), dtype=mx.float32), False
    operation = _soft_cap(
        by_size.chosen("soft_cap", backend, values),
        by_size.chosen("soft_cap_gradient", backend, values),
        variable_cap,
    )
    capped: mx.array = operation(values, cap)
    return capped


def soft_cap_reference(values: mx.array, cap: mx.array) -> mx.array:
    """`soft_cap` in MLX operations; `cap` is a 0-d float32 array."""
    return (cap * mx.tanh(values.astype(mx.float32) / cap)).astype(values.dtype)


def soft_cap_gradient_reference(values: mx.array, cotangent: mx.array, cap: mx.array) -> mx.array:
    """The cotangent times the slope of the soft cap, in the shape and dtype of `values`."""
    # Not of x / cap: `mx.compile` would store that in memory, once for both passes.
    slope = tanh_slope(mx.abs(values).astype(mx.float32) / cap)
    return (cotangent.astype(mx.float32) * slope).astype(values.dtype)


def cap_gradient_reference(values: mx.array, cotangent: mx.array, cap: mx.array) -> mx.array:
    """The sum of cotangent * (tanh(z) - z sech^2(z)) over all z = x / c: a 0-d float32 array.

    For small z the difference would lose its digits. There the same number is taken as
    (sinh(u) - u) / (1 + cosh(u)), u = 2 z, with the series of its numerator.
    """
    scaled = values.astype(mx.float32) / cap
    # Beyond 50 the number is one to the last bit, but at infinity the formula gives NaN.
    reach = mx.array(50, dtype=scaled.dtype)
    scaled = mx.clip(scaled, mx.negative(reach), reach)
    direct = mx.tanh(scaled) - scaled * tanh_slope(scaled)

    small = mx.abs(scaled) < mx.array(0.5, dtype=scaled.dtype)
    # The branch not taken must stay finite too: its gradient is multiplied by zero, not skipped.
    bounded = mx.where(small, scaled, mx.zeros_like(scaled))
    u = bounded + bounded
    series = mx.zeros_like(u)
    for power in (11, 9, 7, 5, 3):
        coefficient = mx.array(1 / math.factorial(power), dtype=u.dtype)
        series = series * mx.square(u) + coefficient
    near_zero = u * mx.square(u) * series / (mx.ones_like(u) + mx.cosh(u))

    return mx.sum(cotangent.astype(mx.float32) * mx.where(small, near_zero, direct))


def tanh_slope(scaled: mx.array) -> mx.array:
    """sech^2(z) = 4 e / (1 + e)^2, e = exp(-2 |z|): exact in the tails, where 1 - tanh^2 is not."""
    # An array of ones would be another launch.
    minus_two, one, four = (mx.array(number, dtype=scaled.dtype) for number in (-2, 1, 4))
    decay = mx.exp(minus_two * mx.abs(scaled))
    return four * decay / mx.square(one + decay)


def require_cap(cap_value: float) -> float:
    """Return a cap that is a number of the host, positive and finite, as a float."""
    number = host_number("soft_cap", "cap_value", cap_value)
    if not _SMALLEST_CAP <= number <= 1 / _SMALLEST_CAP:
        raise ValueError(
            f"soft_cap: cap_value must be positive, from {_SMALLEST_CAP:.3g} to "
            f"{1 / _SMALLEST_CAP:.3g}, got {number}"
        )
    return number


def _array_cap(cap_value: mx.array) -> mx.array:
    require_floating("soft_cap", "cap_value", cap_value)
    if cap_value.ndim:
        raise ValueError(
            f"soft_cap: cap_value must be a number or a 0-d array, got shape {cap_value.shape}; "
            "make an array of one element 0-d with .reshape(())"
        )
    return cap_value.astype(mx.float32)


# --- Metal -------------------------------------------------------------------------------------


def _launch(values: mx.array, *_others: mx.array) -> Launch:
    return Launch.of_elements(values, _PACK_BYTES // values.dtype.size)


_TANH = """
    // tanh(x) = sign(x) (1 - 2 / (1 + exp(2 |x|))): one exponential and one division, both fast,
    // since a small term has their error. From 20 on it is 1. Below 0.35 the difference loses
    // digits, and x + x^3 P(x^2) is taken, P from a fit of the least relative error (4e-8); of NaN
    // too, which it keeps.
    inline float xlstm_tanh(float x) {
        const float magnitude = metal::abs(x);
        const float growth = metal::fast::exp(2.0f * metal::min(magnitude, 20.0f));
        const float far = 1.0f - metal::fast::divide(2.0f, 1.0f + growth);
        const float square = x * x;
        float series = metal::fma(-0.0491595035f, square, 0.133000129f);
        series = metal::fma(series, square, -0.333326703f);
        const float near = metal::fma(x * square, series, x);
        return magnitude >= 0.35f ? metal::copysign(far, x) : near;
    }
"""

FORWARD = Kernel(
    name="xlstm_soft_cap",
    inputs=("values", "cap"),
    outputs=("capped",),
    launch=_launch,
    header=PACKS + _TANH,
    body="""
    // values, capped: two axes, contiguous, read as flat; cap: 0-d.
    const Index count = static_cast<Index>(values_shape[0]) * values_shape[1];
    const Index first = static_cast<Index>(thread_position_in_grid.x) * PACK;
    if (first < count) {
        const uint left = static_cast<uint>(metal::min(count - first, static_cast<Index>(PACK)));
        auto pack = xlstm_load<PACK>(values + first, 1, left);
        const float inverse = 1.0f / cap;
        #pragma clang loop unroll(full)
        for (uint k = 0; k < PACK; ++k) {
            pack.at[k] = cap * xlstm_tanh(pack.at[k] * inverse);
        }
        xlstm_store(capped + first, pack, left);
    }
    """,
)

GRADIENT = Kernel(
    name="xlstm_soft_cap_gradient",
    inputs=("values", "cotangent", "cap"),
    outputs=("values_gradient",),
    launch=_launch,
    header=PACKS,
    body="""
    // values, cotangent, values_gradient: two axes, contiguous, read as flat; cap: 0-d.
    const Index count = static_cast<Index>(values_shape[0]) * values_shape[1];
    const Index first = static_cast<Index>(thread_position_in_grid.x) * PACK;
    if (first < count) {
        const uint left = static_cast<uint>(metal::min(count - first, static_cast<Index>(PACK)));
        auto pack = xlstm_load<PACK>(values + first, 1, left);
        const auto given = xlstm_load<PACK>(cotangent + first, 1, left);
        const float inverse = 1.0f / cap;
        #pragma clang loop unroll(full)
        for (uint k = 0; k < PACK; ++k) {
            const float scaled = pack.at[k] * inverse;
            // sech^2, see tanh_slope
            const float decay = metal::precise::exp(-2.0f * metal::abs(scaled));
            const float rest = metal::fast::divide(1.0f, 1.0f + decay);
            pack.at[k] = given.at[k] * (4.0f * decay * rest * rest);
        }
        xlstm_store(values_gradient + first, pack, left);
    }
    """,
)


def _rows(array: mx.array) -> mx.array:
    """The array with two axes: a launch has their lengths, and no number to wait for."""
    columns = array.shape[-1] if array.ndim else 1
    return array.reshape((array.size // max(columns, 1), columns))


@functools.cache
def _soft_cap(backend: str, gradient_backend: str, variable_cap: bool) -> Operation:
    """The differentiable operation (values, cap) -> capped, each pass on one backend.

    Nobody can ask for the gradient in a cap that came as a number, so none is built.
    """

    def launch(values: mx.array, cap: mx.array) -> mx.array:
        (capped,) = FORWARD(_rows(values), cap, backend=backend)
        return capped.reshape(values.shape)

    def pull_back(values: mx.array, cotangent: mx.array, cap: mx.array) -> mx.array:
        (gradient,) = GRADIENT(_rows(values), _rows(cotangent), cap, backend=gradient_backend)
        return gradient.reshape(values.shape)

    native = soft_cap_gradient_reference
    pulled = on_backend(gradient_backend, pull_back, native, operator="soft_cap")

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        values, cap = primals
        (cotangent,) = cotangents
        return (
            pulled(values, cotangent, cap),
            cap_gradient_reference(values, cotangent, cap) if variable_cap else mx.zeros_like(cap),
        )

    return on_backend(backend, launch, soft_cap_reference, gradient, operator="soft_cap")
