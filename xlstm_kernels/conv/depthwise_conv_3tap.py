"""Depthwise convolution with three taps: y_t = bias + w_0 x_{t-1} + w_1 x_t + w_2 x_{t+1}.

x is zero before its first and after its last step, so y is as long as x: "same" padding. Gradients,
with dy zero beyond its ends as well: dx_t = w_0 dy_{t+1} + w_1 dy_t + w_2 dy_{t-1}; dw_j and dbias
are sums over all sequences and steps of dy_t x_{t-1+j} and dy_t.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.arguments import require_floating
from xlstm_kernels.differentiation import Arrays, Operation, differentiable, gradient_of
from xlstm_kernels.kernel import Kernel, Launch

_NAME = "depthwise_conv_3tap"
_TAPS = 3
_SIMD_WIDTH = 32
_CHANNELS_PER_THREADGROUP = 8
_STEPS_PER_THREAD = 4


def depthwise_conv_3tap(
    x: mx.array, weight: mx.array, bias: mx.array | None = None, *, backend: str | None = None
) -> mx.array:
    """Convolve each channel of `x` with three taps of its own, centred on the present step.

    The ports to MLX had two operators under this name. Their Python kernels see x_{t-1}, x_t and
    x_{t+1}, as this one does; their Depthwise3.metal sees x_t, x_{t+1} and x_{t+2}, so that its y_t
    is the y_{t+1} of here, with x prolonged by a zero.

    Computed in float32 and rounded once. Differentiable any number of times, in every array. `x`
    is read as it lies: a transposed view is not copied.

    Args:
        x: (B, C, L), time last; float32, float16 or bfloat16. Any axis may be empty.
        weight: (C, 3) of any of these dtypes: for the step before, the present, the one after.
        bias: (C,) of any of these dtypes, or None for none.
        backend: `"metal"`, `"native"` (MLX operations), or None for Metal where it is available and
            the GPU is the default device. Inside `mx.vmap` and `mx.jvp` it must be `"native"`,
            since MLX refuses kernels there.

    Returns:
        An array of the shape and dtype of `x`.

    Raises:
        TypeError: for a dtype that is not listed.
        ValueError: for shapes that do not fit, an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    require_floating(_NAME, "x", x)
    if x.ndim != 3:
        raise ValueError(f"{_NAME}: x must be (B, C, L), time last, got {x.shape}")
    channels = x.shape[1]
    require_floating(_NAME, "weight", weight)
    if weight.shape != (channels, _TAPS):
        raise ValueError(f"{_NAME}: weight must be (C, 3) = {(channels, 3)}, got {weight.shape}")
    if bias is not None:
        require_floating(_NAME, "bias", bias)
        if bias.shape != (channels,):
            raise ValueError(
                f"{_NAME}: bias must have shape {(channels,)}, one number for each channel, "
                f"got {bias.shape}"
            )
    resolved = executors.resolve(backend)
    if not x.size:
        # On a CPU, MLX 0.32 may never end the sums over an empty axis that gradients would be.
        return mx.zeros_like(x)
    operation = _depthwise_conv_3tap(resolved)
    convolved: mx.array = operation(x, weight) if bias is None else operation(x, weight, bias)
    return convolved


def depthwise_conv_3tap_reference(
    x: mx.array, weight: mx.array, bias: mx.array | None = None
) -> mx.array:
    """`depthwise_conv_3tap` in MLX operations: a sum of shifted products."""
    length = x.shape[2]
    padded = mx.pad(x.astype(mx.float32), [(0, 0), (0, 0), (1, 1)])
    taps = weight.astype(mx.float32)
    convolved = padded[:, :, :length] * taps[:, :1]
    convolved = convolved + padded[:, :, 1 : 1 + length] * taps[:, 1:2]
    convolved = convolved + padded[:, :, 2:] * taps[:, 2:]
    if bias is not None:
        convolved = convolved + mx.expand_dims(bias.astype(mx.float32), 1)
    return convolved.astype(x.dtype)


# --- Metal -------------------------------------------------------------------------------------


def _simdgroups(values: mx.array) -> int:
    """Of a channel: one for 128 steps, so that every simdgroup is full."""
    return math.ceil(values.shape[2] / (_SIMD_WIDTH * _STEPS_PER_THREAD))


def _launch(values: mx.array, *_others: mx.array) -> Launch:
    batch, channels, _ = values.shape
    return Launch(
        grid=(_simdgroups(values) * _SIMD_WIDTH, channels, batch),
        threadgroup=(_SIMD_WIDTH, _CHANNELS_PER_THREADGROUP, 1),
        output_shapes=(values.shape,),
        output_dtypes=(values.dtype,),
        template=(("T", values.dtype), ("STEPS", _STEPS_PER_THREAD)),
    )


def _gradient_launch(values: mx.array, *others: mx.array) -> Launch:
    batch, channels, _ = values.shape
    blocks = batch * _simdgroups(values)
    return replace(
        _launch(values, *others),
        output_shapes=(values.shape, (blocks, channels, _TAPS + 1)),
        output_dtypes=(values.dtype, mx.float32),
    )


# Each element of `windowed` is read by one lane, that of its step. The others have it from there.
_WINDOW = """
    const uint lane = thread_position_in_threadgroup.x;
    const uint channel = thread_position_in_grid.y;
    const uint batch = thread_position_in_grid.z;
    const uint channels = values_shape[1];
    const uint length = values_shape[2];
    const bool present = channel < channels && batch < static_cast<uint>(values_shape[0]);
    const uint start = threadgroup_position_in_grid.x * (32 * STEPS);
    const auto row = @windowed + (batch * @windowed_strides[0] + channel * @windowed_strides[1]);

    float number = 0.0f;
    if (present && lane < 3) {
        number = static_cast<float>(
            weight[channel * weight_strides[0] + lane * weight_strides[1]]);
    } else if (present && lane == 3) {
        number = @bias;
    }
    const float past_weight = simd_broadcast(number, @first);
    const float present_weight = simd_broadcast(number, 1);
    const float future_weight = simd_broadcast(number, @last);
    const float offset = simd_broadcast(number, 3);

    // Step start + 32 k + lane, and the two beside the steps of this simdgroup, each with the lane
    // that hands it on: the last one that before, the first one that after.
    float window[STEPS];
    #pragma clang loop unroll(full)
    for (uint k = 0; k < STEPS; ++k) {
        const uint step = start + 32 * k + lane;
        window[k] = present && step < length
            ? static_cast<float>(row[step * @windowed_strides[2]]) : 0.0f;
    }
    float outer = 0.0f;
    if (present && lane == 31 && start > 0) {
        outer = static_cast<float>(row[(start - 1) * @windowed_strides[2]]);
    } else if (present && lane == 0 && start + 32 * STEPS < length) {
        outer = static_cast<float>(row[(start + 32 * STEPS) * @windowed_strides[2]]);
    }

    #pragma clang loop unroll(full)
    for (uint k = 0; k < STEPS; ++k) {
        // In a ring of lanes the first one's past is the last one's 32 steps ago, and so on.
        const float before = k == 0 ? outer : window[k > 0 ? k - 1 : 0];
        const float after = k == STEPS - 1 ? outer : window[k < STEPS - 1 ? k + 1 : k];
        const float past = simd_shuffle_rotate_up(lane == 31 ? before : window[k], 1);
        const float future = simd_shuffle_rotate_down(lane == 0 ? after : window[k], 1);
        float sum = metal::fma(past_weight, past, offset);
        sum = metal::fma(present_weight, window[k], sum);
        sum = metal::fma(future_weight, future, sum);
        const uint step = start + 32 * k + lane;
        if (present && step < length) {
            const size_t element =
                (static_cast<size_t>(batch) * channels + channel) * length + step;
            @store
        }
    }
"""


def _convolve(windowed: str, store: str, *, bias: str = "0.0f", mirrored: bool = False) -> str:
    """MSL that convolves the rows of an input and runs `store` for each `sum`, at `element`.

    Args:
        windowed: name of the input, of the shape of `values`.
        store: MSL statements.
        bias: expression of the bias.
        mirrored: whether the filter's last tap meets the step before.
    """
    body = _WINDOW.replace("@windowed", windowed).replace("@bias", bias).replace("@store", store)
    first, last = ("2", "0") if mirrored else ("0", "2")
    return body.replace("@first", first).replace("@last", last)


def _kernel(suffix: str, bias_input: tuple[str, ...], bias: str) -> Kernel:
    return Kernel(
        name=f"xlstm_depthwise_conv_3tap{suffix}",
        inputs=("values", "weight", *bias_input),
        outputs=("convolved",),
        launch=_launch,
        contiguous_inputs=False,
        body=f"""
    // values: (batch, channels, length); weight: (channels, 3); bias: (channels), all read through
    // their strides; convolved: as values, contiguous.
    {_convolve("values", "convolved[element] = static_cast<T>(sum);", bias=bias)}
    """,
    )


# Indexed by the number of biases.
_KERNELS = (
    _kernel("", (), "0.0f"),
    _kernel("_biased", ("bias",), "static_cast<float>(bias[channel * bias_strides[0]])"),
)

_SUM_UP = """
            values_gradient[element] = static_cast<T>(sum);
            const auto own =
                values + (batch * values_strides[0] + channel * values_strides[1]);
            const float value = static_cast<float>(own[step * values_strides[2]]);
            // x_t meets the first tap in y_{t+1}, the last one in y_{t-1}, if there are these.
            sums += float4(
                step + 1 < length ? future * value : 0.0f, window[k] * value,
                step > 0 ? past * value : 0.0f, window[k]);
"""
_GRADIENT = Kernel(
    name="xlstm_depthwise_conv_3tap_gradient",
    inputs=("values", "weight", "cotangent"),
    outputs=("values_gradient", "block_sums"),
    launch=_gradient_launch,
    contiguous_inputs=False,
    body=f"""
    // values, cotangent: (batch, channels, length); weight: (channels, 3), all read through their
    // strides; values_gradient: as values; block_sums: (blocks, channels, 4), those of the weights
    // and of the bias, a block for each 128 steps of a sequence. Outputs are contiguous.
    float4 sums = float4(0.0f);
    {_convolve("cotangent", _SUM_UP, mirrored=True)}
    sums = simd_sum(sums);
    if (present && lane < 4) {{
        const size_t block =
            static_cast<size_t>(batch) * threadgroups_per_grid.x + threadgroup_position_in_grid.x;
        block_sums[(block * channels + channel) * 4 + lane] = sums[lane];
    }}
    """,
)


@functools.cache
def _depthwise_conv_3tap(backend: str) -> Operation:
    """The differentiable operation (x, weight) or (x, weight, bias) -> y on one backend."""
    if backend == executors.NATIVE:
        return depthwise_conv_3tap_reference
    input_gradient = _depthwise_conv_3tap_gradient(backend)

    def launch(x: mx.array, weight: mx.array, *bias: mx.array) -> mx.array:
        (convolved,) = _KERNELS[len(bias)](x, weight, *bias, backend=backend)
        return convolved

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        gradients: Arrays = input_gradient(*cotangents, *primals)
        return gradients

    return differentiable(launch, gradient)


@functools.cache
def _depthwise_conv_3tap_gradient(backend: str) -> Operation:
    """The differentiable operation (cotangent, x, weight[, bias]) -> gradients in the others."""
    gradient = gradient_of(depthwise_conv_3tap_reference)

    def reference(cotangent: mx.array, *primals: mx.array) -> Arrays:
        return gradient(primals, (cotangent,))

    def launch(cotangent: mx.array, x: mx.array, weight: mx.array, *bias: mx.array) -> Arrays:
        in_x, block_sums = _GRADIENT(x, weight, cotangent, backend=backend)
        sums = mx.sum(block_sums, axis=0)
        in_weight = sums[:, :_TAPS].astype(weight.dtype)
        return (in_x, in_weight, *(sums[:, _TAPS].astype(b.dtype) for b in bias))

    return differentiable(launch, gradient_of(reference))
