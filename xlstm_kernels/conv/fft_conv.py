"""Long causal convolutions by MLX's FFT: y_t = sum_j w_j x_{t-j} + d x_t in each channel.

S log S operations for filters as long as the sequence, as in H3, Hyena and Monarch Mixer (Poli et
al., 2023). Both directions have the norm "backward": the inverse divides by n, and nothing else
does. There is no kernel here: on each device, MLX's FFT is one.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from xlstm_kernels.arguments import require_floating, require_shape

# MLX's Metal FFT of more than 4,096 numbers is fast for powers of two alone (Bluestein's algorithm
# takes several FFTs of twice the length); of fewer, factors up to 13 have radices.
_MOST_WITH_ANY_RADIX = 4096
_ODD_FACTORS = (1, 3, 5, 7, 9)


def fft_conv(x: mx.array, weight: mx.array, skip: mx.array | None = None) -> mx.array:
    """Convolve each channel of `x` with its own filter, of any length, which sees the past.

    Computed in float32 and rounded once. Rounding errors are in proportion to the greatest numbers
    of a channel's whole sequence, and NaN or infinity anywhere in it makes all of it NaN. The order
    of taps is that of an impulse response, the reverse of `causal_conv1d`. Differentiable any
    number of times, in every array, and under `mx.vmap`.

    Args:
        x: (B, S, C); float32, float16 or bfloat16. B, S and C may be 0.
        weight: (C, K) of any of these dtypes, K >= 1; weight[:, j] applies to the step j before the
            current one. Taps from S on have nothing to apply to.
        skip: (C,) of any of these dtypes, a factor of the current step that is added to its tap, D
            in H3 and Hyena; None for none.

    Returns:
        y (B, S, C) in the dtype of x.

    Raises:
        TypeError: for a dtype that is not listed.
        ValueError: for shapes that do not fit.
    """
    return _convolve("fft_conv", {"x": x, "weight": weight, "skip": skip}, axis=1)


def fftconv(u: mx.array, k: mx.array, D: mx.array | None = None) -> mx.array:  # noqa: N803 (Hyena's)
    """Convolve by the call of H3's and Hyena's `fftconv`: `fft_conv`, channels first.

    No axis moves in memory. Errors are those of `fft_conv`.

    Args:
        u: (B, H, L); float32, float16 or bfloat16.
        k: (H, K), K >= 1, the filters.
        D: (H,), a factor of the current step, or None.

    Returns:
        y (B, H, L) in the dtype of u.
    """
    return _convolve("fftconv", {"u": u, "k": k, "D": D}, axis=2)


def fft_length(least: int) -> int:
    """The smallest length from `least` on that MLX's FFT is fast for; it is even."""
    power = 1 << max(1, (least - 1).bit_length())
    if power > _MOST_WITH_ANY_RADIX:
        return power
    lengths = (factor << shift for factor in _ODD_FACTORS for shift in range(1, power.bit_length()))
    return min(length for length in lengths if length >= least)


def _convolve(operator: str, arrays: dict[str, Any], *, axis: int) -> mx.array:
    """Convolve the first array with the second along an axis, and add it times the third."""
    of_x, of_weight, of_skip = arrays
    x, weight, skip = arrays.values()
    layout = "(B, S, C), channels last" if axis == 1 else "(B, H, L), channels first"
    require_floating(operator, of_x, x)
    if x.ndim != 3:
        raise ValueError(f"{operator}: {of_x} must be {layout}, got {x.shape}")
    channels = x.shape[3 - axis]
    require_floating(operator, of_weight, weight)
    if weight.ndim != 2 or weight.shape[0] != channels or not weight.shape[1]:
        raise ValueError(
            f"{operator}: {of_weight} must have shape ({channels}, K), a filter of at least one "
            f"tap for each channel, got {weight.shape}"
        )
    if skip is not None:
        require_floating(operator, of_skip, skip)
        require_shape(operator, of_skip, skip, (channels,), "one number for each channel")
    if not x.size:
        return mx.zeros_like(x)
    wide = x.astype(mx.float32)
    y = _convolved(wide, weight, axis=axis)
    if skip is not None:
        y = y + wide * mx.expand_dims(skip.astype(mx.float32), axis=axis - 1)
    return y.astype(x.dtype)


def _convolved(x: mx.array, weight: mx.array, *, axis: int) -> mx.array:
    """The first steps of the linear convolution: zeros after both keep it from wrapping around."""
    steps = x.shape[axis]
    taps = weight[:, :steps].astype(mx.float32)
    if axis == 1:
        taps = taps.T
    length = fft_length(steps + taps.shape[axis - 1] - 1)
    spectrum = mx.fft.rfft(x, n=length, axis=axis)
    spectrum = spectrum * mx.fft.rfft(taps, n=length, axis=axis - 1)
    y = mx.fft.irfft(spectrum, n=length, axis=axis)
    return y[:, :steps] if axis == 1 else y[:, :, :steps]
