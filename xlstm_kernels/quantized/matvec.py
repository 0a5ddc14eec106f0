"""Products of a few rows with a quantized matrix: y = x W^T, W = scale q + bias in each group.

The format is that of `mx.quantize`: 32 / bits numbers q in each uint32, from the lowest bits up; a
scale and a bias for `group_size` numbers of a row. A simdgroup computes 4 columns of y for all rows
of x, so that W is read from memory once. Several rows in halves go to `tiles`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import mlx.core as mx

from xlstm_kernels import by_size, products
from xlstm_kernels.arguments import require_choice, require_floating, require_kind, require_shape
from xlstm_kernels.differentiation import Arrays, Operation, differentiable, gradient_of, on_backend
from xlstm_kernels.executors import StreamLike, on_stream, resolve
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import PACKS
from xlstm_kernels.quantized import tiles

MAX_ROWS = 16
_GROUP_SIZES = (32, 64, 128)
BITS = (4, 8)
_WORD = 32
_OUTPUTS = 4  # columns of y, rows of W, of a simdgroup
_ROWS = 8  # at most, of a launch
_SIMDGROUPS = 4  # at most, of a threadgroup: each takes a part of the sums
_PACK_BYTES = 16


@on_stream
def quantized_matvec(
    x: mx.array,
    w: mx.array,
    scales: mx.array,
    biases: mx.array,
    *,
    group_size: int = 64,
    bits: int = 4,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array:
    """Multiply up to sixteen rows with the transpose of a quantized matrix.

    The same as `mx.quantized_matmul(x, w, scales, biases, group_size=group_size, bits=bits)`.
    Weights are dequantized to float32 and never rounded to the dtype of x, products are added in
    float32, and the sum is rounded once. Differentiable any number of times, in x, scales and
    biases. MLX operations dequantize the whole matrix first.

    Args:
        x: (..., K), 1 to 16 rows of K in all; float32, float16 or bfloat16.
        w: (N, K * bits / 32), uint32, from `mx.quantize`.
        scales: (N, K / group_size); float32, float16 or bfloat16.
        biases: as scales.
        group_size: 32, 64 or 128.
        bits: of a weight, 4 or 8.
        backend: `"metal"`, `"cuda"`, `"native"` (MLX operations), or None for kernels where they
            can run, and `mx.quantized_matmul` where that is faster (`by_size`). Inside
            `mx.vmap` it must be `"native"`.

    Returns:
        (..., N) in the dtype of x.

    Raises:
        TypeError: for a dtype that is not listed.
        ValueError: for shapes that do not fit, more than sixteen rows, other bits or group sizes,
            an unknown backend, and for the gradient in w.
        RuntimeError: for a backend that cannot run here.
    """
    _require_arguments(x, w, scales, biases, group_size, bits)
    resolved = resolve(backend)
    if not (x.size and w.size):
        return mx.zeros((*x.shape[:-1], w.shape[0]), dtype=x.dtype)
    rows = x.size // x.shape[-1]
    kind = "row" if rows == 1 else "rows" if rows < _ROWS else "tiles"
    by_mlx = x.dtype == scales.dtype == biases.dtype and by_size.by_mlx(
        f"quantized_{kind}", backend, w.shape[0] * x.shape[-1], x.dtype
    )
    operation = _quantized_matvec(resolved, group_size, bits, by_mlx)
    product: mx.array = operation(x, _without_gradient(w), scales, biases)
    return product


def dequantized(w: mx.array, scales: mx.array, biases: mx.array, bits: int) -> mx.array:
    """The matrix (N, K) that quantized weights stand for, in float32: scale q + bias."""
    shifts = mx.arange(0, _WORD, bits, dtype=mx.uint32)
    mask = mx.array(2**bits - 1, dtype=mx.uint32)
    fields = mx.bitwise_and(mx.right_shift(mx.expand_dims(w, axis=2), shifts), mask)
    groups = fields.reshape((*scales.shape, -1)).astype(mx.float32)
    scaled = groups * mx.expand_dims(scales.astype(mx.float32), axis=2)
    matrix = scaled + mx.expand_dims(biases.astype(mx.float32), axis=2)
    return matrix.reshape((w.shape[0], -1))


def quantized_matvec_reference(
    x: mx.array, w: mx.array, scales: mx.array, biases: mx.array, bits: int
) -> mx.array:
    """`quantized_matvec` in MLX operations."""
    exact = products.exact()
    matrix = exact.operand(dequantized(w, scales, biases, bits))
    return (exact.operand(x) @ matrix.transposed).astype(x.dtype)


def _require_arguments(
    x: mx.array, w: object, scales: mx.array, biases: mx.array, group_size: int, bits: int
) -> None:
    operator = "quantized_matvec"
    for name, array in (("x", x), ("scales", scales), ("biases", biases)):
        require_floating(operator, name, array)
    w = require_kind(operator, "w", w, mx.uint32, "uint32, as mx.quantize makes it")
    require_choice(operator, "group_size", group_size, _GROUP_SIZES)
    require_choice(operator, "bits", bits, BITS)
    columns = x.shape[-1] if x.ndim else 0
    if not x.ndim or w.ndim != 2 or w.shape[1] * _WORD != columns * bits:
        raise ValueError(
            f"{operator}: w must be (N, K * bits / 32) with the K = {columns} columns of x, "
            f"got x {x.shape}, w {w.shape}"
        )
    groups = (w.shape[0], math.ceil(columns / group_size))
    if columns % group_size:
        raise ValueError(f"{operator}: K must be a multiple of group_size, got K = {columns}")
    for name, array in (("scales", scales), ("biases", biases)):
        require_shape(operator, name, array, groups, "(N, K / group_size)")
    rows = math.prod(x.shape[:-1])
    if rows > MAX_ROWS:
        raise ValueError(
            f"{operator}: x must have at most {MAX_ROWS} rows, got {rows}; use mx.quantized_matmul"
        )


def _refused(*_: object) -> Any:
    """Refuse a gradient, as `mx.quantized_matmul` does."""
    raise ValueError("quantized_matvec: quantized weights have no gradient")


_without_gradient: Any = mx.custom_function(lambda w: w)
_without_gradient.vjp(_refused)
_without_gradient.jvp(_refused)
_without_gradient.vmap(lambda inputs, axes: (inputs, axes))


@functools.cache
def _quantized_matvec(backend: str, group_size: int, bits: int, by_mlx: bool) -> Operation:
    """The differentiable operation (x, w, scales, biases) -> (..., N) on one backend."""

    def matmul(x: mx.array, w: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        # With an axis before the rows, MLX reads the matrix for each row.
        flat = x.reshape(-1, x.shape[-1])
        y = mx.quantized_matmul(flat, w, scales, biases, group_size=group_size, bits=bits)
        return y.reshape(*x.shape[:-1], w.shape[0])

    def launch(x: mx.array, *matrix: mx.array) -> mx.array:
        rows = x.size // x.shape[-1]
        settings: Any = {"backend": backend, "group_size": group_size, "bits": bits}
        if tiles.fit(x, matrix[0]):
            return tiles.KERNEL(x, *matrix, **settings)[0]
        if rows <= _ROWS:
            return _KERNEL(x, *matrix, **settings)[0]
        halves = mx.split(mx.flatten(x, 0, -2), [_ROWS])
        products = [_KERNEL(half, *matrix, **settings)[0] for half in halves]
        return mx.unflatten(mx.concatenate(products), 0, x.shape[:-1])

    def native(x: mx.array, w: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        return quantized_matvec_reference(x, w, scales, biases, bits)

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        x, w, scales, biases = primals
        exact = products.exact()
        given = exact.operand(cotangents[0].reshape(-1, w.shape[0]))
        in_x = given @ exact.operand(dequantized(w, scales, biases, bits))
        in_matrix = given.transposed @ exact.operand(x.reshape(-1, x.shape[-1]))

        def matrix(scales: mx.array, biases: mx.array) -> mx.array:
            return dequantized(w, scales, biases, bits)

        in_scales, in_biases = gradient_of(matrix)((scales, biases), (in_matrix,))
        return in_x.reshape(x.shape).astype(x.dtype), mx.zeros_like(w), in_scales, in_biases

    if by_mlx:
        return differentiable(matmul, gradient, jvp_by_gradient=True)
    return on_backend(backend, launch, native, gradient, operator="quantized_matvec")


def _launch(
    x: mx.array,
    w: mx.array,
    scales: mx.array,
    biases: mx.array,
    *,
    group_size: int,
    bits: int,
) -> Launch:
    """Few rows leave registers for many weights, which a thread then loads at once."""
    inner = x.shape[-1]
    rows = x.size // inner
    values = 32 if rows <= 2 else 16 if rows <= 4 else 8
    values = min(values, _PACK_BYTES * 8 // bits)
    simdgroups = min(_SIMDGROUPS, math.ceil(inner / (32 * values)))
    return Launch.of_groups(
        math.ceil(w.shape[0] / _OUTPUTS),
        32 * simdgroups,
        (*x.shape[:-1], w.shape[0]),
        dtype=x.dtype,
        T=x.dtype,
        ScaleT=scales.dtype,
        BiasT=biases.dtype,
        ROWS=rows,
        VALUES=values,
        PACK=min(values, _PACK_BYTES // x.dtype.size),
        SIMDGROUPS=simdgroups,
        GROUP_SIZE=group_size,
        BITS=bits,
    )


_KERNEL = Kernel(
    name="xlstm_quantized_matvec",
    inputs=("x", "w", "scales", "biases"),
    outputs=("product",),
    launch=_launch,
    header=PACKS,
    body=f"""
    // x: ROWS of `inner`; w: (outputs, words); scales, biases: (outputs, groups); product: ROWS of
    // `outputs`; all contiguous. A lane takes VALUES weights of a row at a time, which are in
    // one group.
    constexpr uint OUTPUTS = {_OUTPUTS};
    constexpr uint FIELDS = 32 / BITS;
    constexpr uint WORDS = VALUES / FIELDS;
    const uint outputs = w_shape[0];
    const uint words = w_shape[1];
    const uint inner = words * FIELDS;
    const uint groups = scales_shape[1];
    const uint lane = thread_index_in_simdgroup;
    const uint part = simdgroup_index_in_threadgroup;
    const uint first = threadgroup_position_in_grid.x * OUTPUTS;
    float sums[OUTPUTS * ROWS] = {{}};
    for (uint start = (part * 32 + lane) * VALUES; start < inner;
         start += SIMDGROUPS * 32 * VALUES) {{
        xlstm_packs<uint, 1, WORDS> packed[OUTPUTS];
        float scale[OUTPUTS], bias[OUTPUTS];
        #pragma clang loop unroll(full)
        for (uint i = 0; i < OUTPUTS; ++i) {{
            const size_t row = metal::min(first + i, outputs - 1);
            packed[i] = xlstm_read_packs<1, WORDS>(w + row * words + start / FIELDS, 0, 1, 1);
            const size_t group = row * groups + start / GROUP_SIZE;
            scale[i] = static_cast<float>(scales[group]);
            bias[i] = static_cast<float>(biases[group]);
        }}
        xlstm_packs<float, VALUES / PACK, PACK> given[ROWS];
        #pragma clang loop unroll(full)
        for (uint m = 0; m < ROWS; ++m) {{
            given[m] = xlstm_load_packs<VALUES / PACK, PACK>(
                x + static_cast<size_t>(m) * inner + start, PACK, 1, VALUES / PACK);
        }}
        #pragma clang loop unroll(full)
        for (uint i = 0; i < OUTPUTS; ++i) {{
            #pragma clang loop unroll(full)
            for (uint k = 0; k < VALUES; ++k) {{
                // Not by a conversion of each integer, which a GPU does at a quarter of its rate.
                // 2^23 + field, by its bits, minus 2^23 is the field where it is in the word.
                const uint shift = k % FIELDS * BITS;
                const uint half_word = packed[i].at[0].at[k / FIELDS] >> (shift / 16 * 16);
                const uint field = half_word & (((1u << BITS) - 1) << (shift % 16));
                const float level = as_type<float>(0x4b000000u | field) - 8388608.0f;
                const float weight = metal::fma(level, scale[i] / (1 << (shift % 16)), bias[i]);
                #pragma clang loop unroll(full)
                for (uint m = 0; m < ROWS; ++m) {{
                    const uint at = i * ROWS + m;
                    sums[at] = metal::fma(weight, given[m].number(k / PACK, k % PACK), sums[at]);
                }}
            }}
        }}
    }}
    threadgroup float parts[SIMDGROUPS][OUTPUTS * ROWS];
    #pragma clang loop unroll(full)
    for (uint own = 0; own < OUTPUTS * ROWS; ++own) {{
        const float sum = simd_sum(sums[own]);
        if (lane == own) {{
            parts[part][own] = sum;
        }}
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint row = lane % ROWS;
    const uint column = first + lane / ROWS;
    if (part == 0 && lane < OUTPUTS * ROWS && column < outputs) {{
        float total = 0.0f;
        for (uint i = 0; i < SIMDGROUPS; ++i) {{
            total += parts[i][lane];
        }}
        product[static_cast<size_t>(row) * outputs + column] = static_cast<T>(total);
    }}
    """,
)
