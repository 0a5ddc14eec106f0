"""Cholesky factors.

A kernel factors matrices of up to 32 rows in one launch: a thread has a row in its registers, and
small matrices share a threadgroup. Larger matrices take a launch for each 32 columns (Golub and Van
Loan, Matrix Computations, 4th edition, algorithm 4.2.4). A threadgroup updates 32 x 32 elements: it
eliminates the rows that it needs itself, which takes less time than a launch between the two parts.
"""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels.differentiation import Arrays, Operation, decomposition
from xlstm_kernels.executors import StreamLike, resolve
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.linalg.arguments import flat_batch, in_float32, require_matrices
from xlstm_kernels.linalg.arithmetic import multiply, replayed
from xlstm_kernels.linalg.householder import MATRIX_BARRIER
from xlstm_kernels.linalg.triangular import block_size, triangular_operation


@in_float32
def cholesky(
    a: mx.array, /, *, upper: bool = False, backend: str | None = None, stream: StreamLike = None
) -> mx.array:
    """Factor positive definite matrices: `numpy.linalg.cholesky`.

    Differentiable any number of times. The gradient is symmetric, that of `a` as a symmetric
    matrix.

    Args:
        a: (..., N, N) float32, symmetric. Only the lower triangle is read, with `upper` only the
            upper one.
        upper: return U with a = U^T U, and not L with a = L L^T.
        backend: `"metal"`, `"cuda"`, `"native"` (`mx.linalg.cholesky` on the CPU), or None for
            kernels where they can run. Inside `mx.vmap` it must be `"native"`.

    Returns:
        (..., N, N) float32, zero in the other triangle. All NaN for a matrix that is not positive
        definite, for which NumPy raises.

    Raises:
        TypeError: for another dtype.
        LinAlgError: for matrices that are not square.
        ValueError, RuntimeError: for a backend that is unknown, or cannot run here.
    """
    require_matrices("cholesky", "a", a, square=True)
    operation = _cholesky(resolve(backend))
    if not a.size:
        return mx.zeros_like(a)
    flat = flat_batch(mx.swapaxes(a, -1, -2) if upper else a)
    factor: mx.array = operation(flat).reshape(a.shape)
    return mx.swapaxes(factor, -1, -2) if upper else factor


@functools.cache
def _cholesky(backend: str) -> Operation:
    """The operation a (B, N, N) -> L (B, N, N) on one backend."""

    def launch(a: mx.array) -> mx.array:
        if a.shape[-1] <= _TILE:
            return _KERNEL(a, backend=backend)[0]
        steps = range(math.ceil(a.shape[-1] / _TILE))
        numbers = (mx.array(step, dtype=mx.int32) for step in steps)
        factor: mx.array = replayed(_by_steps, backend)(a, *numbers)
        return factor

    def native(a: mx.array) -> mx.array:
        return _nan_where_failed(mx.linalg.cholesky(a, stream=mx.cpu))

    def gradient(_: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        """Murray, Differentiation of the Cholesky decomposition, 2016, equations 9 and 10."""
        transposed = mx.swapaxes(outputs[0], -1, -2)
        product = multiply(transposed, mx.tril(cotangents[0]))
        solve = triangular_operation(backend, lower=False)
        left = solve(transposed, mx.tril(product) + mx.tril(product, -1))
        whole = mx.swapaxes(solve(transposed, mx.swapaxes(left, -1, -2)), -1, -2)
        return (mx.array(0.25, dtype=whole.dtype) * (whole + mx.swapaxes(whole, -1, -2)),)

    return decomposition("cholesky", backend, launch, native, gradient)


def _nan_where_failed(factor: mx.array) -> mx.array:
    """A pivot that is not positive remains on the diagonal."""
    diagonal = mx.diagonal(factor, axis1=-2, axis2=-1)
    definite = mx.all(diagonal > mx.zeros_like(diagonal), axis=-1)
    nan = mx.full(factor.shape, mx.nan, dtype=factor.dtype)
    return mx.where(definite[..., None, None], factor, nan)


def _by_steps(a: mx.array, *steps: mx.array, backend: str) -> mx.array:
    left = lost = a
    for step in steps:
        left, lost = _STEP(left, lost, step, backend=backend)
    return left


# --- Metal -------------------------------------------------------------------------------------


_TILE = 32
_TOGETHER = 64  # rows of the small matrices of a threadgroup
_STEP_THREADS = 128


def _launch(a: mx.array) -> Launch:
    batch, rows, _ = a.shape
    size = block_size(rows)
    together = _TOGETHER // size
    return Launch(
        grid=(math.ceil(batch / together) * size, together, 1),
        threadgroup=(size, together, 1),
        output_shapes=(a.shape,),
        output_dtypes=(mx.float32,),
        template=(("SIZE", size), ("TOGETHER", together)),
    )


_ELIMINATE = (
    MATRIX_BARRIER
    + """
    // What a thread has of its row: what is left of the first SIZE columns, and what its roundings
    // took away: in each of many steps, which add up to several times the error that is due to the
    // rounding of the factor alone.
    template <uint SIZE>
    struct xlstm_row {
        float left[SIZE];
        float lost[SIZE];
        bool definite;
    };
    // Factor the first `columns` of SIZE columns. Threads below SIZE have the rows of the diagonal.
    template <uint SIZE, uint THREADS>
    METAL_FUNC void xlstm_eliminate(
        thread xlstm_row<SIZE>& row, uint i, uint columns,
        threadgroup float* pivots, threadgroup float* factors) {
        row.definite = true;
        float diagonal = 0.0f;
        float diagonal_lost = 0.0f;
        #pragma clang loop unroll(full)
        for (uint j = 0; j < SIZE; ++j) {
            diagonal = j == i ? row.left[j] : diagonal;
            diagonal_lost = j == i ? row.lost[j] : diagonal_lost;
        }
        if (i == 0) {
            pivots[0] = diagonal + diagonal_lost;
        }
        xlstm_matrix_barrier<THREADS>();
        #pragma clang loop unroll(full)
        for (uint k = 0; k < SIZE; ++k) {
            if (k >= columns) {
                continue;
            }
            // Pivots and columns go in turns: a thread may read those of one step while another
            // writes the next step's.
            const float pivot = pivots[k % 2];
            row.definite = row.definite && pivot > 0.0f;
            const float value = (row.left[k] + row.lost[k]) / metal::precise::sqrt(pivot);
            row.left[k] = value;
            threadgroup float* column = factors + k % 2 * SIZE;
            if (i < SIZE) {
                column[i] = value;
            }
            // The next pivot is from its own row alone, so that a step needs one barrier.
            const float rest = metal::fma(-value, value, diagonal);
            diagonal_lost += metal::fma(-value, value, diagonal - rest);
            diagonal = rest;
            if (i == k + 1 && i < SIZE) {
                pivots[i % 2] = diagonal + diagonal_lost;
            }
            xlstm_matrix_barrier<THREADS>();
            // Above the diagonal this computes numbers that nothing reads.
            #pragma clang loop unroll(full)
            for (uint j = 0; j < SIZE; ++j) {
                if (j > k) {
                    const float left = metal::fma(-value, column[j], row.left[j]);
                    row.lost[j] += metal::fma(-value, column[j], row.left[j] - left);
                    row.left[j] = left;
                }
            }
        }
    }
"""
)

_KERNEL = Kernel(
    name="xlstm_cholesky",
    inputs=("a",),
    outputs=("factor",),
    launch=_launch,
    contiguous_inputs=False,
    header=_ELIMINATE,
    body="""
    // a: (batch, rows, rows), of any strides; factor: the same, contiguous.
    threadgroup float pivots[TOGETHER][2];
    threadgroup float factors[TOGETHER][2 * SIZE];
    const uint rows = a_shape[1];
    const uint i = thread_position_in_threadgroup.x;
    const uint place = thread_position_in_threadgroup.y;
    const uint batches = a_shape[0];
    const uint wanted = threadgroup_position_in_grid.x * TOGETHER + place;
    // All threads stay for the barriers; those without a matrix have no rows.
    const bool present = wanted < batches && i < rows;
    const int64_t batch = metal::min(wanted, batches - 1);
    xlstm_row<SIZE> row;
    #pragma clang loop unroll(full)
    for (uint j = 0; j < SIZE; ++j) {
        const bool read = present && j <= i;
        row.left[j] = read ? a[batch * a_strides[0] + i * a_strides[1] + j * a_strides[2]] : 0.0f;
        row.lost[j] = 0.0f;
    }
    xlstm_eliminate<SIZE, SIZE>(row, i, rows, pivots[place], factors[place]);
    if (present) {
        #pragma clang loop unroll(full)
        for (uint j = 0; j < SIZE; ++j) {
            if (j < rows) {
                const float value = j <= i ? row.left[j] : 0.0f;
                factor[(batch * rows + i) * rows + j] = row.definite ? value : NAN;
            }
        }
    }
    """,
)


def _launch_step(a: mx.array, *_others: mx.array) -> Launch:
    batch, rows, _ = a.shape
    tiles = math.ceil(rows / _TILE)
    return Launch.of_groups(batch * tiles * tiles, _STEP_THREADS, a.shape, a.shape)


_STEP = Kernel(
    name="xlstm_cholesky_step",
    inputs=("a", "a_lost", "step"),
    outputs=("left", "left_lost"),
    launch=_launch_step,
    contiguous_inputs=False,
    header=_ELIMINATE,
    body=f"""
    // a, a_lost: (batch, rows, rows), of any strides: finished columns, and what is left of the
    // others; left, left_lost: the same after one more step, contiguous; step: 0-d.
    constexpr uint TILE = {_TILE};
    constexpr uint THREADS = {_STEP_THREADS};
    threadgroup float pivots[2];
    threadgroup float factors[2 * TILE];
    threadgroup float own[2 * TILE][TILE + 1];  // rows of this tile, then those of its columns
    const uint rows = a_shape[1];
    const uint tiles = (rows + TILE - 1) / TILE;
    const uint thread_index = thread_position_in_threadgroup.x;
    const uint tile = threadgroup_position_in_grid.x % (tiles * tiles);
    const int64_t batch = threadgroup_position_in_grid.x / (tiles * tiles);
    const uint first_row = tile / tiles * TILE;
    const uint first_column = tile % tiles * TILE;
    const uint start = static_cast<uint>(step) * TILE;
    const bool last = start + TILE >= rows;
    const uint group = thread_index / TILE;
    const uint origin = group == 0 ? start : group == 1 ? first_row : first_column;
    const uint place = origin + thread_index % TILE;
    xlstm_row<TILE> row;
    #pragma clang loop unroll(full)
    for (uint j = 0; j < TILE; ++j) {{
        const uint column = start + j;
        const bool read = group < 3 && place < rows && column <= place;
        row.left[j] = read
            ? a[batch * a_strides[0] + place * a_strides[1] + column * a_strides[2]] : 0.0f;
        row.lost[j] = read && start > 0
            ? a_lost[batch * a_lost_strides[0] + place * a_lost_strides[1]
                + column * a_lost_strides[2]] : 0.0f;
    }}
    bool definite = true;
    if (last || (start <= first_column && first_column <= first_row)) {{
        xlstm_eliminate<TILE, THREADS>(
            row, thread_index, metal::min(rows - start, TILE), pivots, factors);
        definite = row.definite;
    }}
    if (group == 1 || group == 2) {{
        #pragma clang loop unroll(full)
        for (uint j = 0; j < TILE; ++j) {{
            own[thread_index - TILE][j] = definite ? row.left[j] : NAN;
        }}
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint c = thread_index % TILE;
    const uint column = first_column + c;
    for (uint r = thread_index / TILE; r < TILE; r += THREADS / TILE) {{
        const uint at_row = first_row + r;
        if (at_row >= rows || column >= rows) {{
            continue;
        }}
        const bool updated = start < first_column && column <= at_row;
        float value = column > at_row ? 0.0f : first_column == start ? own[r][c]
            : a[batch * a_strides[0] + at_row * a_strides[1] + column * a_strides[2]];
        float value_lost = updated && start > 0
            ? a_lost[batch * a_lost_strides[0] + at_row * a_lost_strides[1]
                + column * a_lost_strides[2]] : 0.0f;
        if (updated) {{
            #pragma clang loop unroll(full)
            for (uint k = 0; k < TILE; ++k) {{
                const float factor = own[r][k];
                const float other = own[TILE + c][k];
                const float rest = metal::fma(-factor, other, value);
                value_lost += metal::fma(-factor, other, value - rest);
                value = rest;
            }}
        }}
        const int64_t at = (batch * rows + at_row) * rows + column;
        left[at] = definite ? value : NAN;
        left_lost[at] = value_lost;
    }}
    """,
)
