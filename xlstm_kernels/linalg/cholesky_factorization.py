"""Cholesky factors.

A kernel factors matrices of up to 32 rows in one launch: a thread has a row, and small matrices
share a threadgroup. Larger matrices take a launch for each 64 columns (Golub and Van Loan, Matrix
Computations, 4th edition, algorithm 4.2.4). A threadgroup updates 64 x 64 elements: it eliminates
the rows that it needs itself, which takes less time than a launch between the two parts.
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
from xlstm_kernels.linalg.triangular import block_size, triangular_operation, zero_or_nan


@in_float32
def cholesky(
    a: mx.array, /, *, upper: bool = False, backend: str | None = None, stream: StreamLike = None
) -> mx.array:
    """Factor positive definite matrices: `numpy.linalg.cholesky`.

    Differentiable any number of times. The gradient is symmetric, that of `a` as a symmetric
    matrix. Errors are those of `lu`, and a LinAlgError for matrices that are not square.

    Args:
        a: (..., N, N) float32, symmetric. Only the lower triangle is read, with `upper` only the
            upper one.
        upper: return U with a = U^T U, and not L with a = L L^T.
        backend: `"metal"`, `"cuda"`, `"native"` (`mx.linalg.cholesky` on the CPU), or None for
            kernels where they can run. Inside `mx.vmap` it must be `"native"`.

    Returns:
        (..., N, N) float32, zero in the other triangle. All NaN for a matrix that is not positive
        definite, for which NumPy raises.
    """
    require_matrices("cholesky", "a", a, square=True)
    if not a.size:
        return mx.zeros_like(a)
    flat = flat_batch(mx.swapaxes(a, -1, -2) if upper else a)
    factor: mx.array = _cholesky(resolve(backend))(flat).reshape(a.shape)
    return mx.swapaxes(factor, -1, -2) if upper else factor


@functools.cache
def _cholesky(backend: str) -> Operation:
    """The operation a (B, N, N) -> L (B, N, N) on one backend."""

    def launch(a: mx.array) -> mx.array:
        if a.shape[-1] <= _TILE:
            return _KERNEL(a, backend=backend)[0]
        factor: mx.array = replayed(_by_steps, backend)(a)
        return factor

    def native(a: mx.array) -> mx.array:
        # A pivot that is not positive remains on the diagonal: its root is not, or is zero.
        factor = mx.linalg.cholesky(a, stream=mx.cpu)
        return factor + zero_or_nan(mx.sqrt(factor))

    def gradient(_: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        """Murray, Differentiation of the Cholesky decomposition, 2016, equations 9 and 10."""
        transposed = mx.swapaxes(outputs[0], -1, -2)
        product = multiply(transposed, mx.tril(cotangents[0]))
        solve = triangular_operation(backend, lower=False)
        left = solve(transposed, mx.tril(product) + mx.tril(product, -1))
        whole = mx.swapaxes(solve(transposed, mx.swapaxes(left, -1, -2)), -1, -2)
        return (mx.array(0.25, dtype=whole.dtype) * (whole + mx.swapaxes(whole, -1, -2)),)

    return decomposition("cholesky", backend, launch, native, gradient)


def _by_steps(a: mx.array, backend: str) -> mx.array:
    for step in range(math.ceil(a.shape[-1] / _PANEL)):
        (a,) = _STEP(a, mx.array(step, dtype=mx.int32), backend=backend)
    return a


# --- Metal -------------------------------------------------------------------------------------


_TILE = 32
_PANEL = 2 * _TILE  # columns of a step, rows and columns that a threadgroup updates
_TOGETHER = 64  # rows of the small matrices of a threadgroup


def _launch(a: mx.array) -> Launch:
    batch, rows, _ = a.shape
    size = block_size(rows)
    groups = math.ceil(batch * size / _TOGETHER)
    return Launch.of_groups(groups, _TOGETHER, a.shape, SIZE=size, TOGETHER=_TOGETHER // size)


_ELIMINATE = """
    // Rounded once, by Newton's method. NaN for a pivot that is not positive.
    inline float xlstm_inverse_root(float pivot) {
        const float root = metal::fast::rsqrt(pivot);
        const float product = pivot * root;
        const float lost = metal::fma(pivot, root, -product);
        const float error = metal::fma(-lost, root, metal::fma(-product, root, 1.0f));
        return pivot > 0.0f ? metal::fma(0.5f * error, root, root) : NAN;
    }
    // Factor up to SIZE columns. A thread has a row, with PITCH between its elements; the rows of
    // the diagonal are the first SIZE. Zero, or NaN where columns are, from a failed pivot on. The
    // steps are a loop: unrolled, they would spend most of their time fetching instructions.
    template <uint SIZE, uint THREADS, uint PITCH>
    METAL_FUNC float xlstm_eliminate(
        threadgroup float* row, uint i, uint columns, threadgroup float* factors) {
        // Products to be subtracted from columns k, k + 1, ...: the last ones, and from those after
        // the next MOST also earlier ones. Sums of sums have smaller roundings than differences.
        constexpr uint MOST = 8;
        threadgroup float* inverses = factors + 2 * SIZE;
        float sums[SIZE] = {};
        float totals[SIZE] = {};
        float inverse = 0.0f;
        xlstm_matrix_barrier<THREADS>();
        if (i == 0) {
            inverses[0] = xlstm_inverse_root(row[0]);
        }
        xlstm_matrix_barrier<THREADS>();
        #pragma unroll 1
        for (uint k = 0; k < metal::min(columns, SIZE); ++k) {
            if (k > 0 && k % MOST == 0) {
                #pragma clang loop unroll(full)
                for (uint j = 0; j < SIZE; ++j) {
                    const float total = totals[j] + sums[j];
                    if (j < MOST) {
                        row[(k + j) * PITCH] -= total;
                    }
                    totals[(j + SIZE - MOST) % SIZE] = total;
                    sums[j] = 0.0f;
                }
            }
            // Inverses and columns go in turns: a thread may read those of one step while another
            // writes the next step's.
            inverse = inverses[k % 2];
            const float diagonal = i < SIZE ? row[i * PITCH] : 0.0f;
            const float value = (row[k * PITCH] - sums[0]) * inverse;
            row[k * PITCH] = value;
            threadgroup float* column = factors + k % 2 * SIZE;
            if (i < SIZE) {
                column[(i - k - 1) % SIZE] = value;
            }
            // The next pivot is from its own row alone, so that a step needs one barrier.
            if (i == k + 1) {
                const float before = i % MOST == 0 ? totals[0] : 0.0f;
                const float total = before + metal::fma(value, value, sums[1]);
                inverses[i % 2] = xlstm_inverse_root(diagonal - total);
            }
            xlstm_matrix_barrier<THREADS>();
            // Beyond the last column this computes numbers that nothing reads.
            #pragma clang loop unroll(full)
            for (uint j = 1; j < SIZE; ++j) {
                sums[j - 1] = metal::fma(value, column[j - 1], sums[j]);
            }
        }
        return metal::isfinite(inverse) ? 0.0f : NAN;
    }
    // Subtract the products of SIZE rows and a row, with PITCH between the elements of each.
    template <uint SIZE, uint PITCH>
    METAL_FUNC void xlstm_subtract_products(
        const threadgroup float* rows, const threadgroup float* row, thread float* values) {
        float sums[SIZE] = {};
        float parts[SIZE] = {};
        #pragma unroll 8
        for (uint k = 0; k < SIZE; ++k) {
            #pragma clang loop unroll(full)
            for (uint s = 0; s < SIZE; ++s) {
                parts[s] = metal::fma(rows[k * PITCH + s], row[k * PITCH], parts[s]);
                if (k % 8 == 7) {
                    sums[s] += parts[s];
                    parts[s] = 0.0f;
                }
            }
        }
        #pragma clang loop unroll(full)
        for (uint s = 0; s < SIZE; ++s) {
            values[s] -= sums[s];
        }
    }
"""

_KERNEL = Kernel(
    name="xlstm_cholesky",
    inputs=("a",),
    outputs=("factor",),
    launch=_launch,
    contiguous_inputs=False,
    header=MATRIX_BARRIER + _ELIMINATE,
    body="""
    // a: (batch, rows, rows), of any strides; factor: the same, contiguous.
    constexpr uint PITCH = TOGETHER * SIZE + 1;  // odd: elements of a row are in different banks
    threadgroup float factors[TOGETHER][2 * SIZE + 4];
    threadgroup float columns[SIZE * PITCH];
    const uint rows = a_shape[1];
    const uint own = thread_position_in_threadgroup.x % SIZE;
    const uint place = thread_position_in_threadgroup.x / SIZE;
    const int64_t batch = threadgroup_position_in_grid.x * TOGETHER + place;
    // All threads stay for the barriers; those without a matrix have zeros.
    const bool present = batch < a_shape[0] && own < rows;
    const auto from = a + batch * a_strides[0] + own * a_strides[2];
    threadgroup float* matrix = columns + place * SIZE;
    for (uint i = 0; i < SIZE; ++i) {
        matrix[own * PITCH + i] = present && own <= i && i < rows ? from[i * a_strides[1]] : 0.0f;
    }
    const float undefined = xlstm_eliminate<SIZE, SIZE, PITCH>(
        matrix + own, own, rows, factors[place]);
    if (present) {
        for (uint i = 0; i < rows; ++i) {
            const float value = own <= i ? matrix[own * PITCH + i] : 0.0f;
            factor[(batch * rows + i) * rows + own] = value + undefined;
        }
    }
    """,
)


def _launch_step(a: mx.array, _step: mx.array) -> Launch:
    groups = a.shape[0] * math.ceil(a.shape[1] / _PANEL) ** 2
    return Launch.of_groups(groups, 3 * _PANEL, a.shape, TILE=_TILE, SIDE=_PANEL)


_STEP = Kernel(
    name="xlstm_cholesky_step",
    inputs=("a", "step"),
    outputs=("left",),
    launch=_launch_step,
    contiguous_inputs=False,
    header=MATRIX_BARRIER + _ELIMINATE,
    body="""
    // a: (batch, rows, rows), of any strides: finished columns, and what is left of the others;
    // left: the same after one more step, contiguous; step: 0-d.
    constexpr uint PITCH = 3 * SIDE + 4;  // four rows are read at once
    threadgroup float factors[2 * TILE + 4];
    // By columns: the rows of the diagonal, those of this tile's columns, those of its rows.
    threadgroup float panel[TILE * PITCH];
    const uint rows = a_shape[1];
    const uint across = (rows + SIDE - 1) / SIDE;
    const uint group = threadgroup_position_in_grid.x;
    const uint first_row = group / across % across * SIDE;
    const uint first_column = group % across * SIDE;
    const uint start = static_cast<uint>(step) * SIDE;
    const int64_t batch = group / (across * across);
    const auto matrix = a + batch * a_strides[0];
    const uint lane = thread_index_in_simdgroup;
    const uint simdgroup = simdgroup_index_in_threadgroup;
    threadgroup float* own = panel + simdgroup * TILE;
    // Four SIMD groups have a quarter of the tile each, and their threads a column of it.
    const uint right = simdgroup % 2 * TILE;
    const uint below = simdgroup / 2 * TILE;
    const int64_t top = first_row + below;
    const int64_t column = first_column + right + lane;
    const int present = simdgroup < 4 && column < rows ? rows - top : 0;
    auto from = matrix + top * a_strides[1] + column * a_strides[2];
    float values[TILE];
    #pragma clang loop unroll(full)
    for (int s = 0; s < TILE; ++s) {
        values[s] = s < present ? *from : 0.0f;
        from += a_strides[1];
    }
    float undefined = 0.0f;
    const bool works = start + SIDE >= rows || (start <= first_column && first_column <= first_row);
    #pragma unroll 1
    for (uint begin = start; works && begin < metal::min(start + SIDE, rows); begin += TILE) {
        float rest[TILE] = {};
        if (begin > start) {
            xlstm_subtract_products<TILE, PITCH>(own, panel + TILE + lane, rest);
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        const uint origin = right + (below == 0 ? start : below == TILE ? first_column : first_row);
        const int count = begin + lane < rows ? rows - origin : 0;
        auto source = matrix + origin * a_strides[1] + (begin + lane) * a_strides[2];
        #pragma clang loop unroll(full)
        for (int r = 0; r < TILE; ++r) {
            own[lane * PITCH + r] = rest[r] + (r < count ? *source : 0.0f);
            source += a_strides[1];
        }
        // The rows of the first columns' diagonal are before those of the next ones'.
        undefined = xlstm_eliminate<TILE, 3 * SIDE, PITCH>(
            own + lane, simdgroup * TILE + lane + start - begin, rows - begin, factors);
        const threadgroup float* left_rows = panel + 2 * SIDE + below;
        if (present > 0 && begin == first_column + right) {
            #pragma clang loop unroll(full)
            for (uint s = 0; s < TILE; ++s) {
                values[s] = left_rows[lane * PITCH + s];
            }
        } else if (present > 0 && start < first_column) {
            xlstm_subtract_products<TILE, PITCH>(left_rows, panel + SIDE + right + lane, values);
        }
    }
    const auto to = left + (batch * rows + top) * rows + column;
    #pragma clang loop unroll(full)
    for (int s = 0; s < TILE; ++s) {
        if (s < present) {
            to[s * rows] = (column <= top + s ? values[s] : 0.0f) + undefined;
        }
    }
    """,
)
