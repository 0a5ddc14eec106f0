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

_SIMD_WIDTH = 32
_MAX_SIMDGROUPS = 16
_COLUMNS_PER_THREAD = 4
_MAX_ROW_GROUPS = 65535
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
        TypeError: for a dtype that is not listed, or an `eps` that is no number.
        ValueError: for a 0-d `x`, a weight that does not fit, an `eps` that is negative or not
            finite, an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    require_floating("rms_norm", "x", x)
    if not x.ndim:
        raise ValueError("rms_norm: x must have an axis to normalise over, got a 0-d array")
    epsilon = host_number("rms_norm", "eps", eps)
    if epsilon < 0:
        raise ValueError(f"rms_norm: eps must not be negative, got {epsilon}")
    if weight is not None:
        _require_fit(x, weight)
    operation = _rms_norm(executors.resolve(backend), epsilon)
    normalised: mx.array = operation(x) if weight is None else operation(x, weight)
    return normalised


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
    return _weighted(wide * _inverse_rms(wide, eps), weight).astype(x.dtype)


def rms_norm_gradient_reference(
    x: mx.array, cotangent: mx.array, weight: mx.array | None = None, *, eps: float = 1e-6
) -> tuple[mx.array, mx.array]:
    """The gradient in `x`, in its shape and dtype, and 1 / rms as (..., 1) float32."""
    wide = x.astype(mx.float32)
    inverse_rms = _inverse_rms(wide, eps)
    normalised = wide * inverse_rms
    pulled = _weighted(cotangent.astype(mx.float32), weight)
    along = mx.mean(pulled * normalised, axis=-1, keepdims=True)
    return (inverse_rms * (pulled - normalised * along)).astype(x.dtype), inverse_rms


def weight_gradient_reference(x: mx.array, cotangent: mx.array, inverse_rms: mx.array) -> mx.array:
    """The gradient in the weight: (D,) float32, from x, cotangent (..., D), 1 / rms (..., 1)."""
    products = cotangent.astype(mx.float32) * (x.astype(mx.float32) * inverse_rms)
    return mx.sum(products, axis=tuple(range(x.ndim - 1)))


def _inverse_rms(wide: mx.array, eps: float) -> mx.array:
    mean_square = mx.mean(mx.square(wide), axis=-1, keepdims=True)
    return mx.rsqrt(mean_square + mx.array(eps, dtype=mean_square.dtype))


def _weighted(array: mx.array, weight: mx.array | None) -> mx.array:
    return array if weight is None else array * weight.astype(mx.float32)


# --- Metal -------------------------------------------------------------------------------------

# The row kernels see x as (rows, columns). A threadgroup takes a row, then the row that lies
# threadgroups_per_grid further on, so any number of rows fits the limits of any grid. Its threads
# stride over the columns. Row, and with it every barrier, is the same for all threads of a group;
# groups are whole simdgroups and the grid is whole groups, so every simdgroup is full.


def _row_launch(
    x: mx.array, output_shapes: tuple[tuple[int, ...], ...], output_dtypes: tuple[mx.Dtype, ...]
) -> Launch:
    rows, columns = x.shape
    simdgroups = min(math.ceil(columns / (_SIMD_WIDTH * _COLUMNS_PER_THREAD)), _MAX_SIMDGROUPS)
    threads = simdgroups * _SIMD_WIDTH
    return Launch(
        grid=(min(rows, _MAX_ROW_GROUPS) * threads, 1, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=output_shapes,
        output_dtypes=output_dtypes,
        template=(("T", x.dtype), ("MAX_SIMDGROUPS", _MAX_SIMDGROUPS)),
    )


def _forward_launch(x: mx.array, *_others: mx.array) -> Launch:
    return _row_launch(x, (x.shape,), (x.dtype,))


def _gradient_launch(x: mx.array, *_others: mx.array) -> Launch:
    return _row_launch(x, (x.shape, x.shape[:1]), (x.dtype, mx.float32))


def _weight_gradient_launch(x: mx.array, *_others: mx.array) -> Launch:
    """A thread for each column and block of rows, in threadgroups one thread high."""
    rows, columns = x.shape
    blocks = min(math.ceil(rows / _ROWS_PER_BLOCK), _MAX_BLOCKS)
    return Launch(
        grid=(columns, blocks, 1),
        threadgroup=(_BLOCK_THREADS, 1, 1),
        output_shapes=((blocks, columns),),
        output_dtypes=(mx.float32,),
    )


# Without and with a weight: suffix of the kernel's name, the input it adds, the factor in MSL.
_WEIGHTINGS = (
    ("", (), "1.0f"),
    ("_weighted", ("weight",), "static_cast<float>(weight[column])"),
)


def _forward_kernel(suffix: str, weight_input: tuple[str, ...], weight: str) -> Kernel:
    return Kernel(
        name=f"xlstm_rms_norm{suffix}",
        inputs=("values", "epsilon", *weight_input),
        outputs=("normalised",),
        launch=_forward_launch,
        header=THREADGROUP_SUM,
        body=f"""
    // values, normalised: (rows, columns), contiguous; weight: (columns); epsilon: 0-d.
    threadgroup float partial[MAX_SIMDGROUPS];
    const uint thread_column = thread_index_in_threadgroup;
    const uint stride = threads_per_threadgroup.x;
    const uint rows = values_shape[0];
    const uint columns = values_shape[1];
    for (uint row = threadgroup_position_in_grid.x; row < rows; row += threadgroups_per_grid.x) {{
        const size_t start = static_cast<size_t>(row) * columns;
        float squares = 0.0f;
        for (uint column = thread_column; column < columns; column += stride) {{
            const float value = static_cast<float>(values[start + column]);
            squares += value * value;
        }}
        squares = xlstm_threadgroup_sum(
            squares, partial, simdgroup_index_in_threadgroup,
            thread_index_in_simdgroup, simdgroups_per_threadgroup);
        const float scale = metal::precise::rsqrt(squares / static_cast<float>(columns) + epsilon);
        for (uint column = thread_column; column < columns; column += stride) {{
            const float value = static_cast<float>(values[start + column]) * scale;
            normalised[start + column] = static_cast<T>(value * {weight});
        }}
    }}
    """,
    )


def _gradient_kernel(suffix: str, weight_input: tuple[str, ...], weight: str) -> Kernel:
    return Kernel(
        name=f"xlstm_rms_norm_gradient{suffix}",
        inputs=("values", "cotangent", "epsilon", *weight_input),
        outputs=("values_gradient", "inverse_rms"),
        launch=_gradient_launch,
        header=THREADGROUP_SUM,
        body=f"""
    // values, cotangent, values_gradient: (rows, columns), contiguous; inverse_rms: (rows);
    // weight: (columns); epsilon: 0-d.
    threadgroup float partial[MAX_SIMDGROUPS];
    const uint thread_column = thread_index_in_threadgroup;
    const uint stride = threads_per_threadgroup.x;
    const uint rows = values_shape[0];
    const uint columns = values_shape[1];
    for (uint row = threadgroup_position_in_grid.x; row < rows; row += threadgroups_per_grid.x) {{
        const size_t start = static_cast<size_t>(row) * columns;
        float squares = 0.0f;
        float products = 0.0f;
        for (uint column = thread_column; column < columns; column += stride) {{
            const float value = static_cast<float>(values[start + column]);
            const float pulled = static_cast<float>(cotangent[start + column]) * {weight};
            squares += value * value;
            products += value * pulled;
        }}
        squares = xlstm_threadgroup_sum(
            squares, partial, simdgroup_index_in_threadgroup,
            thread_index_in_simdgroup, simdgroups_per_threadgroup);
        products = xlstm_threadgroup_sum(
            products, partial, simdgroup_index_in_threadgroup,
            thread_index_in_simdgroup, simdgroups_per_threadgroup);
        const float length = static_cast<float>(columns);
        const float scale = metal::precise::rsqrt(squares / length + epsilon);
        const float along = products * scale / length;
        for (uint column = thread_column; column < columns; column += stride) {{
            const float value = static_cast<float>(values[start + column]) * scale;
            const float pulled = static_cast<float>(cotangent[start + column]) * {weight};
            values_gradient[start + column] = static_cast<T>(scale * (pulled - value * along));
        }}
        if (thread_column == 0) {{
            inverse_rms[row] = scale;
        }}
    }}
    """,
    )


# Indexed by the number of weights.
_FORWARD = tuple(_forward_kernel(*weighting) for weighting in _WEIGHTINGS)
_GRADIENT = tuple(_gradient_kernel(*weighting) for weighting in _WEIGHTINGS)
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
    if (column < columns) {
        float sum = 0.0f;
        for (uint row = block; row < rows; row += blocks) {
            const size_t element = static_cast<size_t>(row) * columns + column;
            const float normalised = static_cast<float>(values[element]) * inverse_rms[row];
            sum += static_cast<float>(cotangent[element]) * normalised;
        }
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
        (normalised,) = _FORWARD[len(weight)](_rows(x), _epsilon(eps), *weight, backend=backend)
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
            _rows(x), _rows(cotangent), _epsilon(eps), *weight, backend=backend
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


def _epsilon(eps: float) -> mx.array:
    """Made anew for each call: an array that outlives it would be tied to the calling thread."""
    return mx.array(eps, dtype=mx.float32)
