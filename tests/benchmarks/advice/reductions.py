"""Sums of rows: trees in threadgroup memory, SIMD-group sums, one thread."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import mlx.core as mx

from tests.benchmarks.advice.piece import Piece, Variant, kernel, of_kernel
from xlstm_kernels.kernel import Kernel, Launch

THREADS = 256


def _launch(x: mx.array) -> Launch:
    return Launch((x.shape[0] * THREADS, 1, 1), (THREADS, 1, 1), (x.shape[:1],), (x.dtype,))


def _sum(name: str, combined: str) -> Kernel:
    """A threadgroup for a row: each thread adds every 256th element, then all are combined."""
    return kernel(f"advice_sum_{name}", "x", "y", _launch)(f"""
    threadgroup float partial[{THREADS}];
    const uint columns = x_shape[1];
    const uint row = threadgroup_position_in_grid.x;
    const uint own = thread_position_in_threadgroup.x;
    const int64_t start = static_cast<int64_t>(row) * columns;
    float sum = 0.0f;
    for (uint column = own; column < columns; column += {THREADS}) sum += x[start + column];
    {combined}
    if (own == 0) y[row] = sum;
    """)


_BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
SERIAL = _sum(
    "serial",
    f"""
    partial[own] = sum;
    {_BARRIER}
    if (own == 0) {{
        for (uint i = 1; i < {THREADS}; ++i) sum += partial[i];
    }}
    """,
)
TREE = _sum(
    "tree",
    f"""
    partial[own] = sum;
    for (uint width = {THREADS // 2}; width > 0; width /= 2) {{
        {_BARRIER}
        if (own < width) {{
            sum += partial[own + width];
            partial[own] = sum;
        }}
    }}
    """,
)
LAST_LEVELS = _sum(
    "last_levels",
    f"""
    partial[own] = sum;
    for (uint width = {THREADS // 2}; width > 16; width /= 2) {{
        {_BARRIER}
        if (own < width) {{
            sum += partial[own + width];
            partial[own] = sum;
        }}
    }}
    if (own < 32) {{
        for (uint width = 16; width > 0; width /= 2) {{
            simdgroup_barrier(mem_flags::mem_threadgroup);
            if (own < width) {{
                sum += partial[own + width];
                partial[own] = sum;
            }}
        }}
    }}
    """,
)
PARTIALS = _sum(
    "partials",
    f"""
    sum = simd_sum(sum);
    if (thread_index_in_simdgroup == 0) partial[simdgroup_index_in_threadgroup] = sum;
    {_BARRIER}
    if (own == 0) {{
        sum = 0.0f;
        for (uint i = 0; i < {THREADS // 32}; ++i) {{
            sum += partial[i];
        }}
    }}
    """,
)
TWICE = _sum(
    "twice",
    f"""
    sum = simd_sum(sum);
    if (thread_index_in_simdgroup == 0) partial[simdgroup_index_in_threadgroup] = sum;
    {_BARRIER}
    if (own < 32) {{
        sum = simd_sum(own < {THREADS // 32} ? partial[own] : 0.0f);
    }}
    """,
)
ONLY_SIMD = _sum("only_simd", "sum = simd_sum(sum);")


def _group_launch(x: mx.array) -> Launch:
    rows = math.ceil(x.shape[0] / 8) * 8
    return Launch((rows * 32, 1, 1), (256, 1, 1), (x.shape[:1],), (x.dtype,))


ROW_OF_SIMDGROUP = kernel("advice_sum_simdgroup", "x", "y", _group_launch)("""
    const uint columns = x_shape[1];
    const uint row = threadgroup_position_in_grid.x * 8 + simdgroup_index_in_threadgroup;
    if (row >= static_cast<uint>(x_shape[0])) return;
    const int64_t start = static_cast<int64_t>(row) * columns;
    float sum = 0.0f;
    for (uint column = thread_index_in_simdgroup; column < columns; column += 32)
        sum += x[start + column];
    sum = simd_sum(sum);
    if (thread_index_in_simdgroup == 0) y[row] = sum;
    """)


def _native(x: mx.array, *, backend: str) -> Sequence[mx.array]:
    return [mx.sum(x, axis=1)]


def _rows(rows: int, columns: int) -> Sequence[mx.array]:
    return [mx.random.uniform(shape=(rows, columns))]


def pieces(large: bool) -> Iterator[Piece]:
    for columns in (256, 4096):
        rows = 2**27 // columns if large else 4
        yield Piece(
            f"sum of rows of {columns}",
            "simd_sum, a partial per SIMD group, thread 0 combines",
            partial(_rows, rows, columns),
            (
                of_kernel("tree, threadgroup_barrier at 8 levels", TREE),
                of_kernel("tree, simdgroup_barrier at 5 of 8 levels", LAST_LEVELS),
                of_kernel("thread 0 adds 256 partials", SERIAL),
                of_kernel("simd_sum, thread 0 adds 8 partials", PARTIALS),
                of_kernel("simd_sum twice", TWICE),
                of_kernel("a SIMD group for a row, no barrier", ROW_OF_SIMDGROUP),
                Variant("mx.sum", _native),
                Variant("simd_sum alone: 7 of 8 partials lost", ONLY_SIMD, same=False),
            ),
        )
