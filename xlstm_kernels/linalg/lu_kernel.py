"""The kernel that factors panels of columns with partial pivoting."""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.linalg.triangular import BLOCK, block_size

_MAX_THREADS = 1024
_TALL_COLUMNS = 32  # of panels with a row for each of up to 1,024 threads
_LEAST_COLUMNS = 8


def panel_columns(rows: int, columns: int) -> int:
    """The columns of a panel: so many that its rows fit the registers."""
    if rows <= BLOCK:
        return min(columns, BLOCK)
    per_thread = math.ceil(rows / _MAX_THREADS)
    return min(columns, max(_TALL_COLUMNS >> (per_thread - 1).bit_length(), _LEAST_COLUMNS))


def factor_panel(a: mx.array, backend: str) -> tuple[mx.array, mx.array, mx.array]:
    """Compact factors (B, M, N), permutation (B, M) and pivots (B, min(M, N)) of a (B, M, N).

    Args:
        a: with at most `panel_columns` columns.
        backend: of an executor.
    """
    factors, permutation, pivots = _KERNEL(a, backend=backend)
    return factors, permutation, pivots


def _launch(a: mx.array) -> Launch:
    batch, rows, columns = a.shape
    per_thread = math.ceil(rows / _MAX_THREADS)
    threads = math.ceil(rows / (32 * per_thread)) * 32
    return Launch(
        grid=(batch * threads, 1, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=(a.shape, (batch, rows), (batch, min(rows, columns))),
        output_dtypes=(mx.float32, mx.int32, mx.int32),
        template=(
            ("SIZE", block_size(columns)),
            ("ROWS", per_thread),
            ("SIMDGROUPS", threads // 32),
        ),
    )


_KERNEL = Kernel(
    name="xlstm_lu_panel",
    inputs=("a",),
    outputs=("factors", "permutation", "pivots"),
    launch=_launch,
    contiguous_inputs=False,
    body="""
    // a: (batch, rows, columns), of any strides; factors: the same, contiguous;
    // permutation: (batch, rows); pivots: (batch, min(rows, columns)).
    threadgroup float best_values[SIMDGROUPS];
    threadgroup uint best_rows[SIMDGROUPS];
    threadgroup float pivot_row[SIZE];
    threadgroup float other_row[SIZE];
    threadgroup int pivot_origin;
    threadgroup int other_origin;
    const uint rows = a_shape[1];
    const uint columns = a_shape[2];
    const uint steps = metal::min(rows, columns);
    const int64_t batch = threadgroup_position_in_grid.x;
    const uint own = thread_position_in_threadgroup.x;
    const uint threads = threads_per_threadgroup.x;
    const uint lane = thread_index_in_simdgroup;
    const uint simdgroup = own / 32;
    float held[ROWS][SIZE];
    int origin[ROWS];
    #pragma clang loop unroll(full)
    for (uint r = 0; r < ROWS; ++r) {
        const uint i = own + r * threads;
        origin[r] = i;
        #pragma clang loop unroll(full)
        for (uint j = 0; j < SIZE; ++j) {
            const bool present = i < rows && j < columns;
            held[r][j] = present
                ? a[batch * a_strides[0] + i * a_strides[1] + j * a_strides[2]] : 0.0f;
        }
    }
    #pragma clang loop unroll(full)
    for (uint k = 0; k < SIZE; ++k) {
        if (k < steps) {
            // The greatest element of the column; among equal ones the first.
            float value = -1.0f;
            uint row = k;
            #pragma clang loop unroll(full)
            for (uint r = 0; r < ROWS; ++r) {
                const uint i = own + r * threads;
                const float size = metal::abs(held[r][k]);
                if (i >= k && i < rows && size > value) {
                    value = size;
                    row = i;
                }
            }
            float best = simd_max(value);
            uint pivot = simd_min(value == best ? row : rows);
            if (SIMDGROUPS > 1) {
                if (lane == 0) {
                    best_values[simdgroup] = best;
                    best_rows[simdgroup] = pivot;
                }
                threadgroup_barrier(mem_flags::mem_threadgroup);
                value = lane < SIMDGROUPS ? best_values[lane] : -1.0f;
                row = lane < SIMDGROUPS ? best_rows[lane] : rows;
                best = simd_max(value);
                pivot = simd_min(value == best ? row : rows);
            }
            #pragma clang loop unroll(full)
            for (uint r = 0; r < ROWS; ++r) {
                const uint i = own + r * threads;
                if (i == pivot) {
                    pivot_origin = origin[r];
                    #pragma clang loop unroll(full)
                    for (uint j = 0; j < SIZE; ++j) {
                        pivot_row[j] = held[r][j];
                    }
                }
                if (i == k) {
                    other_origin = origin[r];
                    #pragma clang loop unroll(full)
                    for (uint j = 0; j < SIZE; ++j) {
                        other_row[j] = held[r][j];
                    }
                }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            const float divisor = pivot_row[k];
            #pragma clang loop unroll(full)
            for (uint r = 0; r < ROWS; ++r) {
                const uint i = own + r * threads;
                if (i == k || i == pivot) {
                    // Row k last: it may be the pivot itself.
                    origin[r] = i == k ? pivot_origin : other_origin;
                    #pragma clang loop unroll(full)
                    for (uint j = 0; j < SIZE; ++j) {
                        held[r][j] = i == k ? pivot_row[j] : other_row[j];
                    }
                }
                if (i > k) {
                    // As LAPACK: a column of zeros stays as it is.
                    if (divisor != 0.0f) {
                        held[r][k] /= divisor;
                    }
                    #pragma clang loop unroll(full)
                    for (uint j = k + 1; j < SIZE; ++j) {
                        held[r][j] -= held[r][k] * pivot_row[j];
                    }
                }
            }
            if (own == 0) {
                pivots[batch * steps + k] = static_cast<int>(pivot);
            }
            if (SIMDGROUPS == 1) {
                // With more, the next barrier is before the next pivot row.
                threadgroup_barrier(mem_flags::mem_threadgroup);
            }
        }
    }
    #pragma clang loop unroll(full)
    for (uint r = 0; r < ROWS; ++r) {
        const uint i = own + r * threads;
        if (i < rows) {
            permutation[batch * rows + i] = origin[r];
            #pragma clang loop unroll(full)
            for (uint j = 0; j < SIZE; ++j) {
                if (j < columns) {
                    factors[(batch * rows + i) * columns + j] = held[r][j];
                }
            }
        }
    }
    """,
)
