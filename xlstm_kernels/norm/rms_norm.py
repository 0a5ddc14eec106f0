"""RMS norm: y = x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang and Sennrich, 2019).

Gradients, with r = 1 / sqrt(mean(x^2) + eps), n = x r and g = dy * weight:
dx = r (g - n mean(g n)), dweight = sum over the rows of dy * n.
"""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.arguments import host_number, require_floating
from xlstm_kernels.differentiation import Arrays, Operation, differentiable, gradient_of
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import THREADGROUP_SUM
from xlstm_kernels.norm.rows import (
    COLUMNS,
    each_element,
    held_elements,
    norm_kernel,
    row_launch,
    threadgroup_sum,
)

_SIMD_WIDTH = 32
_ROWS_PER_BLOCK = 64
_MAX_BLOCKS = 1024
_BLOCK_THREADS = 256


def rms_norm(
    x: mx.array,
    weight: mx.array | None = None,
    eps: float = 1e-6,
    *,
    backend: str | None = None,
) -> mx.array:
    """Scale each row of `x` to a root mean square of one, then by `weight`.

    Computed in float32 and rounded once. Differentiable any number of times, in `x` and `weight`.

    Args:
        x: (..., D); float32, float16 or bfloat16. Any axis may be empty.
        weight: (D,) of any of these dtypes, or None for ones.
        eps: a number, zero or positive, added to the mean square.
        backend: `"metal"`, `"native"` (MLX operations), or None for Metal where it is available and
            the GPU is the default device. Inside `mx.vmap` and `mx.jvp` it must be `"native"`,
            since MLX refuses kernels there.

    Returns:
        An array of the shape and dtype of `x`: a float32 weight does not promote a half-precision
        `x`, as it does in `mx.fast.rms_norm`.

    Raises:
        TypeError: for a dtype that is not listed, or an `eps` that is not a number.
        ValueError: for a 0-d `x`, a weight that does not fit, an `eps` that is negative or not
            finite, an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    require_floating("rms_norm", "x", x)
    if not x.ndim:
        raise ValueError("rms_norm: x must have an axis to normalise over, got a 0-d array")
    epsilon = checked_epsilon("rms_norm", eps)
    if weight is not None:
        _require_fit(x, weight)
    operation = _rms_norm(executors.resolve(backend), epsilon)
    normalised: mx.array = operation(x) if weight is None else operation(x, weight)
    return normalised


def checked_epsilon(operator: str, eps: float) -> float:
    """Accept what a norm may add below its root: a number that is not negative."""
    epsilon = host_number(operator, "eps", eps)
    if epsilon < 0:
        raise ValueError(f"{operator}: eps must not be negative, got {epsilon}")
    return epsilon


def _require_fit(x: mx.array, weight: mx.array) -> None:
    require_floating("rms_norm", "weight", weight)
    if weight.shape != x.shape[-1:]:
        raise ValueError(
            f"rms_norm: weight must have shape {x.shape[-1:]}, the last axis of x, "
            f"got {weight.shape}"
        )


def rms_norm_reference(
    x: mx.array, weight: mx.array | None = None, *, eps: float = 1e-6
) -> mx.array:
    """`rms_norm` in MLX operations."""
    wide = x.astype(mx.float32)
    return _weighted(wide * inverse_root(wide, eps), weight).astype(x.dtype)


def rms_norm_gradient_reference(
    x: mx.array, cotangent: mx.array, weight: mx.array | None = None, *, eps: float = 1e-6
) -> tuple[mx.array, mx.array]:
    """The gradient in `x`, in its shape and dtype, and 1 / rms as (..., 1) float32."""
    wide = x.astype(mx.float32)
    inverse_rms = inverse_root(wide, eps)
    normalised = wide * inverse_rms
    pulled = _weighted(cotangent.astype(mx.float32), weight)
    along = mx.mean(pulled * normalised, axis=-1, keepdims=True)
    return (inverse_rms * (pulled - normalised * along)).astype(x.dtype), inverse_rms


def weight_gradient_reference(x: mx.array, cotangent: mx.array, inverse_rms: mx.array) -> mx.array:
    """The gradient in the weight: (D,) float32, from x, cotangent (..., D), 1 / rms (..., 1)."""
    products = cotangent.astype(mx.float32) * (x.astype(mx.float32) * inverse_rms)
    return mx.sum(products, axis=tuple(range(x.ndim - 1)))


def inverse_root(wide: mx.array, eps: float) -> mx.array:
    """1 / sqrt(mean of squares + eps) of each row of a float32 array, (..., 1)."""
    mean_square = mx.mean(mx.square(wide), axis=-1, keepdims=True)
    return mx.rsqrt(mean_square + mx.array(eps, dtype=mean_square.dtype))


def _weighted(array: mx.array, weight: mx.array | None) -> mx.array:
    return array if weight is None else array * weight.astype(mx.float32)


# --- Metal -------------------------------------------------------------------------------------


def _gradient_launch(x: mx.array, *_others: mx.array) -> Launch:
    rows, columns = x.shape
    return row_launch(rows, columns, x.dtype, (x.shape, (rows,)), (x.dtype, mx.float32))


def _weight_gradient_launch(x: mx.array, *_others: mx.array) -> Launch:
    """A thread for each column and block of rows, in whole simdgroups one thread high."""
    rows, columns = x.shape
    blocks = min(math.ceil(rows / _ROWS_PER_BLOCK), _MAX_BLOCKS)
    return Launch(
        grid=(math.ceil(columns / _SIMD_WIDTH) * _SIMD_WIDTH, blocks, 1),
        threadgroup=(_BLOCK_THREADS, 1, 1),
        output_shapes=((blocks, columns),),
        output_dtypes=(mx.float32,),
    )


def _gradient_kernel(*, weighted: bool) -> Kernel:
    """The gradient in the rows, and 1 / rms of each."""
    value = "const float value = static_cast<float>(values[start + column]);"
    pulled = "const float pulled = static_cast<float>(cotangent[start + column])"
    weight = "static_cast<float>(weight[column])"
    by_held, by_weight = (" * weights[k]", f" * {weight}") if weighted else ("", "")
    sums = each_element(
        "sums += float2(value * value, value * pulled);",
        held=f"{value} {pulled}{by_held}; held[k] = value; held_pulled[k] = pulled;",
        left=f"{value} {pulled}{by_weight};",
    )
    gradient = each_element(
        "const float gradient = scale * (pulled - value * scale * along);"
        "values_gradient[start + column] = static_cast<T>(gradient);",
        held="const float value = held[k]; const float pulled = held_pulled[k];",
        left=f"{value} {pulled}{by_weight};",
    )
    return Kernel(
        name="xlstm_rms_norm_gradient" + ("_weighted" if weighted else ""),
        inputs=("values", "cotangent", "epsilon", *(("weight",) if weighted else ())),
        outputs=("values_gradient", "inverse_rms"),
        launch=_gradient_launch,
        header=THREADGROUP_SUM,
        body=f"""
    // values, cotangent, values_gradient: (rows, columns), contiguous; inverse_rms: (rows);
    // weight: (columns); epsilon: 0-d.
    threadgroup float2 partial[MAX_SIMDGROUPS];
    {COLUMNS}
    const uint rows = values_shape[0];
    const uint columns = values_shape[1];
    const float count = static_cast<float>(columns);
    {held_elements(weights=weight) if weighted else ""}
    for (uint row = threadgroup_position_in_grid.x; row < rows; row += threadgroups_per_grid.x) {{
        const size_t start = static_cast<size_t>(row) * columns;
        float held[VALUES];
        float held_pulled[VALUES];
        float2 sums = float2(0.0f);
        {sums}
        sums = {threadgroup_sum("sums", "partial")};
        const float scale = metal::precise::rsqrt(sums.x / count + epsilon);
        const float along = sums.y * scale / count;
        {gradient}
        if (thread_column == 0) {{
            inverse_rms[row] = scale;
        }}
    }}
    """,
    )


# Indexed by the number of weights.
_FORWARD = (norm_kernel(), norm_kernel(("weight",)))
_GRADIENT = (_gradient_kernel(weighted=False), _gradient_kernel(weighted=True))
_WEIGHT_GRADIENT = Kernel(
    name="xlstm_rms_norm_weight_gradient",
    inputs=("values", "cotangent", "inverse_rms"),
    outputs=("block_sums",),
    launch=_weight_gradient_launch,
    body="""
    // values, cotangent: (rows, columns), contiguous; inverse_rms: (rows);
    // block_sums: (blocks, columns), one thread for each; the rows of a block are `blocks` apart.
    const uint rows = values_shape[0];
    const uint columns = values_shape[1];
    const uint column = thread_position_in_grid.x;
    const uint block = thread_position_in_grid.y;
    const uint blocks = threads_per_grid.y;
    float sum = 0.0f;
    for (uint first = block; first < rows; first += blocks * threads_per_simdgroup) {
        // Each lane reads 1 / rms of one row, and hands it to all.
        const uint own_row = first + thread_index_in_simdgroup * blocks;
        const float own = own_row < rows ? inverse_rms[own_row] : 0.0f;
        for (uint lane = 0; lane < threads_per_simdgroup; ++lane) {
            const uint row = first + lane * blocks;
            const float scale = simd_broadcast(own, lane);
            if (row < rows && column < columns) {
                const size_t element = static_cast<size_t>(row) * columns + column;
                const float normalised = static_cast<float>(values[element]) * scale;
                sum += static_cast<float>(cotangent[element]) * normalised;
            }
        }
    }
    if (column < columns) {
        block_sums[static_cast<size_t>(block) * columns + column] = sum;
    }
    """,
)


@functools.cache
def _rms_norm(backend: str, eps: float) -> Operation:
    """The differentiable operation (x) or (x, weight) -> normalised on one backend."""
    reference = functools.partial(rms_norm_reference, eps=eps)
    input_gradient = _input_gradient(backend, eps)
    weight_gradient = _weight_gradient(backend)

    def launch(x: mx.array, *weight: mx.array) -> mx.array:
        rows = mx.expand_dims(_rows(x), (0, 2))
        (normalised,) = _FORWARD[len(weight)](rows, scalar(eps), *weight, backend=backend)
        return normalised.reshape(x.shape)

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        x, *weight = primals
        (cotangent,) = cotangents
        x_gradient, inverse_rms = input_gradient(x, cotangent, *weight)
        return (
            x_gradient,
            *(weight_gradient(x, cotangent, inverse_rms).astype(w.dtype) for w in weight),
        )

    forward = reference if backend == executors.NATIVE else launch
    return differentiable(forward, gradient)


@functools.cache
def _input_gradient(backend: str, eps: float) -> Operation:
    """(x, cotangent) or (x, cotangent, weight) -> (gradient in x, 1 / rms), differentiable."""
    reference = functools.partial(rms_norm_gradient_reference, eps=eps)

    def launch(x: mx.array, cotangent: mx.array, *weight: mx.array) -> Arrays:
        x_gradient, inverse_rms = _GRADIENT[len(weight)](
            _rows(x), _rows(cotangent), scalar(eps), *weight, backend=backend
        )
        return x_gradient.reshape(x.shape), inverse_rms.reshape((*x.shape[:-1], 1))

    forward = reference if backend == executors.NATIVE else launch
    return differentiable(forward, gradient_of(reference))


@functools.cache
def _weight_gradient(backend: str) -> Operation:
    """(x, cotangent, 1 / rms) -> gradient in the weight, float32, differentiable."""

    def launch(x: mx.array, cotangent: mx.array, inverse_rms: mx.array) -> mx.array:
        (block_sums,) = _WEIGHT_GRADIENT(
            _rows(x), _rows(cotangent), inverse_rms.reshape((-1,)), backend=backend
        )
        return mx.sum(block_sums, axis=0)

    forward = weight_gradient_reference if backend == executors.NATIVE else launch
    return differentiable(forward, gradient_of(weight_gradient_reference))


def _rows(x: mx.array) -> mx.array:
    """All rows of x, as (rows, columns)."""
    return x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


def scalar(number: float) -> mx.array:
    """Made anew for each call: an array that outlives it would be tied to the calling thread."""
    return mx.array(number, dtype=mx.float32)
