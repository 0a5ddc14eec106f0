"""Products of double-float matrices.

A threadgroup computes 32 x 32 elements, a thread 2 x 2 of them, from tiles of 16 columns of A and
16 rows of B in threadgroup memory. An element's sum runs over k in order: equal inputs, equal bits.
"""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels.differentiation import Arrays, Operation, on_backend
from xlstm_kernels.double_float.metal import DOUBLE
from xlstm_kernels.double_float.reductions import doubled, halved
from xlstm_kernels.kernel import Kernel, Launch

_TILE = 32
_DEPTH = 16


@functools.cache
def matrix_product(backend: str) -> Operation:
    """The operation A (B, M, K), B (B, K, N), high and low each, -> (high, low), (B, M, N)."""

    def launch(*arrays: mx.array) -> Arrays:
        return _KERNEL(*arrays, backend=backend)

    def native(*arrays: mx.array) -> Arrays:
        with mx.stream(mx.cpu):
            return halved(doubled(*arrays[:2]) @ doubled(*arrays[2:]))

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        """Compute dA = dC B^T and dB = A^T dC in double-float, rounded once."""
        a, b = primals[:2], primals[2:]
        given = cotangents[0], mx.zeros_like(cotangents[0])
        multiply = matrix_product(backend)
        in_a, _ = multiply(*given, *(mx.swapaxes(part, 1, 2) for part in b))
        in_b, _ = multiply(*(mx.swapaxes(part, 1, 2) for part in a), *given)
        return in_a, in_a, in_b, in_b

    return on_backend(backend, launch, native, gradient, operator="DoubleFloat.matmul")


def _launch(a_high: mx.array, _a_low: mx.array, b_high: mx.array, _b_low: mx.array) -> Launch:
    batch, rows, _ = a_high.shape
    columns = b_high.shape[2]
    threads = _TILE // 2
    return Launch(
        grid=(
            math.ceil(columns / _TILE) * threads,
            math.ceil(rows / _TILE) * threads,
            batch,
        ),
        threadgroup=(threads, threads, 1),
        output_shapes=((batch, rows, columns),) * 2,
        output_dtypes=(mx.float32, mx.float32),
    )


_KERNEL = Kernel(
    name="xlstm_double_matmul",
    inputs=("a_high", "a_low", "b_high", "b_low"),
    outputs=("high", "low"),
    launch=_launch,
    header=DOUBLE,
    body=f"""
    // a: (batch, rows, inner), b: (batch, inner, columns), contiguous; high, low alike.
    threadgroup float2 a_tile[{_TILE}][{_DEPTH} + 1];
    threadgroup float2 b_tile[{_DEPTH}][{_TILE} + 1];
    const uint rows = a_high_shape[1];
    const uint inner = a_high_shape[2];
    const uint columns = b_high_shape[2];
    const int64_t batch = threadgroup_position_in_grid.z;
    const uint first_row = threadgroup_position_in_grid.y * {_TILE};
    const uint first_column = threadgroup_position_in_grid.x * {_TILE};
    const uint x = thread_position_in_threadgroup.x;
    const uint y = thread_position_in_threadgroup.y;
    const uint own = y * 16 + x;
    float2 sums[2][2] = {{
        {{float2(0.0f, 0.0f), float2(0.0f, 0.0f)}}, {{float2(0.0f, 0.0f), float2(0.0f, 0.0f)}}}};
    for (uint start = 0; start < inner; start += {_DEPTH}) {{
        for (uint place = own; place < {_TILE * _DEPTH}; place += 256) {{
            const uint a_row = first_row + place / {_DEPTH};
            const uint a_column = start + place % {_DEPTH};
            const bool in_a = a_row < rows && a_column < inner;
            const int64_t a_at = (batch * rows + a_row) * inner + a_column;
            a_tile[place / {_DEPTH}][place % {_DEPTH}] =
                in_a ? float2(a_high[a_at], a_low[a_at]) : float2(0.0f, 0.0f);
            const uint b_row = start + place / {_TILE};
            const uint b_column = first_column + place % {_TILE};
            const bool in_b = b_row < inner && b_column < columns;
            const int64_t b_at = (batch * inner + b_row) * columns + b_column;
            b_tile[place / {_TILE}][place % {_TILE}] =
                in_b ? float2(b_high[b_at], b_low[b_at]) : float2(0.0f, 0.0f);
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        // Not beyond the last column of A: zero times infinity is not zero.
        const uint depth = metal::min(inner - start, {_DEPTH}u);
        for (uint k = 0; k < depth; ++k) {{
            const float2 left[2] = {{a_tile[y][k], a_tile[y + 16][k]}};
            const float2 right[2] = {{b_tile[k][x], b_tile[k][x + 16]}};
            for (uint i = 0; i < 2; ++i) {{
                for (uint j = 0; j < 2; ++j) {{
                    sums[i][j] = xlstm_double_add(
                        sums[i][j], xlstm_double_multiply(left[i], right[j]));
                }}
            }}
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }}
    for (uint i = 0; i < 2; ++i) {{
        for (uint j = 0; j < 2; ++j) {{
            const uint row = first_row + y + 16 * i;
            const uint column = first_column + x + 16 * j;
            if (row < rows && column < columns) {{
                const int64_t at = (batch * rows + row) * columns + column;
                high[at] = sums[i][j].x;
                low[at] = sums[i][j].y;
            }}
        }}
    }}
    """,
)
