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
    // The steps are a loop, and registers are indexed by constants within it: a loop over the steps
    // unrolled takes many seconds to compile. A step leaves out the chunks of finished columns.
    constexpr uint CHUNK = SIZE < 16 ? SIZE : 16;
    threadgroup float best_values[SIMDGROUPS];
    threadgroup uint best_places[SIMDGROUPS];
    threadgroup float pivot_row[2][SIZE];  // in turns: of this step and of the next
    const uint rows = a_shape[1];
    const uint columns = a_shape[2];
    const uint steps = metal::min(rows, columns);
    const int64_t batch = threadgroup_position_in_grid.x;
    const uint own = thread_position_in_threadgroup.x;
    const uint threads = threads_per_threadgroup.x;
    const uint lane = thread_index_in_simdgroup;
    const uint simdgroup = own / 32;
    // A row stays with its thread: an exchange is one of their places in the result.
    float held[ROWS][SIZE];
    uint place[ROWS];
    #pragma clang loop unroll(full)
    for (uint r = 0; r < ROWS; ++r) {
        const uint i = own + r * threads;
        place[r] = i;
        #pragma clang loop unroll(full)
        for (uint j = 0; j < SIZE; ++j) {
            const bool present = i < rows && j < columns;
            held[r][j] = present
                ? a[batch * a_strides[0] + i * a_strides[1] + j * a_strides[2]] : 0.0f;
        }
    }
    #pragma unroll 1
    for (uint k = 0; k < steps; ++k) {
        float element[ROWS];
        #pragma clang loop unroll(full)
        for (uint r = 0; r < ROWS; ++r) {
            element[r] = 0.0f;
            #pragma clang loop unroll(full)
            for (uint chunk = 0; chunk < SIZE; chunk += CHUNK) {
                if (k / CHUNK == chunk / CHUNK) {
                    #pragma clang loop unroll(full)
                    for (uint j = chunk; j < chunk + CHUNK; ++j) {
                        element[r] = j == k ? held[r][j] : element[r];
                    }
                }
            }
        }
        // The greatest element of the column; among equal ones the first.
        float value = -1.0f;
        uint first = k;
        #pragma clang loop unroll(full)
        for (uint r = 0; r < ROWS; ++r) {
            const float size = metal::abs(element[r]);
            const bool better = size > value || (size == value && place[r] < first);
            if (place[r] >= k && place[r] < rows && better) {
                value = size;
                first = place[r];
            }
        }
        float best = simd_max(value);
        uint pivot = simd_min(value == best ? first : rows);
        if (SIMDGROUPS > 1) {
            if (lane == 0) {
                best_values[simdgroup] = best;
                best_places[simdgroup] = pivot;
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            value = lane < SIMDGROUPS ? best_values[lane] : -1.0f;
            first = lane < SIMDGROUPS ? best_places[lane] : rows;
            best = simd_max(value);
            pivot = simd_min(value == best ? first : rows);
        }
        #pragma clang loop unroll(full)
        for (uint r = 0; r < ROWS; ++r) {
            if (place[r] == pivot) {
                place[r] = k;
                #pragma clang loop unroll(full)
                for (uint j = 0; j < SIZE; ++j) {
                    pivot_row[k % 2][j] = held[r][j];
                }
            } else if (place[r] == k) {
                place[r] = pivot;
            }
        }
        if (SIMDGROUPS > 1) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
        } else {
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
        const float divisor = pivot_row[k % 2][k];
        #pragma clang loop unroll(full)
        for (uint r = 0; r < ROWS; ++r) {
            if (place[r] > k) {
                // As LAPACK: a column of zeros stays as it is.
                const float factor = divisor == 0.0f ? element[r] : element[r] / divisor;
                #pragma clang loop unroll(full)
                for (uint chunk = 0; chunk < SIZE; chunk += CHUNK) {
                    if (k < chunk + CHUNK) {
                        #pragma clang loop unroll(full)
                        for (uint j = chunk; j < chunk + CHUNK; ++j) {
                            if (j > k) {
                                held[r][j] -= factor * pivot_row[k % 2][j];
                            } else if (j == k) {
                                held[r][j] = factor;
                            }
                        }
                    }
                }
            }
        }
        if (own == 0) {
            pivots[batch * steps + k] = static_cast<int>(pivot);
        }
    }
    #pragma clang loop unroll(full)
    for (uint r = 0; r < ROWS; ++r) {
        const uint i = own + r * threads;
        if (i < rows) {
            permutation[batch * rows + place[r]] = i;
            #pragma clang loop unroll(full)
            for (uint j = 0; j < SIZE; ++j) {
                if (j < columns) {
                    factors[(batch * rows + place[r]) * columns + j] = held[r][j];
                }
            }
        }
    }
    """,
)
