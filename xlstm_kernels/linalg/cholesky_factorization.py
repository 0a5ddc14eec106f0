"""Cholesky factors.

A kernel factors matrices of up to 32 rows in one launch: a thread has a row, and small matrices
share a threadgroup. Larger matrices take a launch for each 32 columns (Golub and Van Loan, Matrix
Computations, 4th edition, algorithm 4.2.4). A threadgroup updates 64 x 32 elements: it eliminates
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
from xlstm_kernels.linalg.triangular import block_size, triangular_operation


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
        factor: mx.array = replayed(_by_steps, backend)(a)
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


def _by_steps(a: mx.array, backend: str) -> mx.array:
    for step in range(math.ceil(a.shape[-1] / _TILE)):
        (a,) = _STEP(a, mx.array(step, dtype=mx.int32), backend=backend)
    return a


# --- Metal -------------------------------------------------------------------------------------


_TILE = 32
_HEIGHT = 64  # rows of the tile that a threadgroup updates in a step
_TOGETHER = 64  # rows of the small matrices of a threadgroup
_STEP_THREADS = 2 * _TILE + _HEIGHT


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
    // the diagonal are the first SIZE. False where columns are NaN, from a failed pivot on. The
    // steps are a loop: unrolled, they would spend most of their time fetching instructions.
    template <uint SIZE, uint THREADS, uint PITCH>
    METAL_FUNC bool xlstm_eliminate(
        threadgroup float* row, uint i, uint columns,
        threadgroup float* inverses, threadgroup float* factors) {
        // Products to be subtracted from columns k, k + 1, ...: the last ones, and from those after
        // the next MOST also earlier ones. Sums of sums have smaller roundings than differences.
        constexpr uint MOST = 8;
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
                    } else {
                        totals[j - MOST] = total;
                    }
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
        return metal::isfinite(inverse);
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
    threadgroup float inverses[TOGETHER][2];
    threadgroup float factors[TOGETHER][2 * SIZE];
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
    const bool definite = xlstm_eliminate<SIZE, SIZE, PITCH>(
        matrix + own, own, rows, inverses[place], factors[place]);
    if (present) {
        for (uint i = 0; i < rows; ++i) {
            const float value = own <= i ? matrix[own * PITCH + i] : 0.0f;
            factor[(batch * rows + i) * rows + own] = definite ? value : NAN;
        }
    }
    """,
)


def _launch_step(a: mx.array, _step: mx.array) -> Launch:
    batch, rows, _ = a.shape
    tiles = math.ceil(rows / _HEIGHT) * math.ceil(rows / _TILE)
    return Launch.of_groups(batch * tiles, _STEP_THREADS, a.shape, TILE=_TILE, HEIGHT=_HEIGHT)


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
    constexpr uint THREADS = 2 * TILE + HEIGHT;
    constexpr int SHARE = HEIGHT * 32 / THREADS;
    constexpr uint MOST = 8;
    constexpr uint PITCH = THREADS + 4;  // four rows are read at once
    threadgroup float inverses[2];
    threadgroup float factors[2 * TILE];
    // By columns: the rows of the diagonal, those of this tile's columns, those of its rows.
    threadgroup float panel[TILE * PITCH];
    const uint rows = a_shape[1];
    const uint across = (rows + TILE - 1) / TILE;
    const uint tiles = (rows + HEIGHT - 1) / HEIGHT * across;
    const uint thread_index = thread_position_in_threadgroup.x;
    const uint lane = thread_index % 32;
    const uint simdgroup = thread_index / 32;
    const uint tile = threadgroup_position_in_grid.x % tiles;
    const int64_t batch = threadgroup_position_in_grid.x / tiles;
    const uint first_row = tile / across * HEIGHT;
    const uint first_column = tile % across * TILE;
    const uint start = static_cast<uint>(step) * TILE;
    const auto matrix = a + batch * a_strides[0];
    // A thread has SHARE elements of a column of the tile, which are on their way meanwhile.
    const int64_t top = first_row + simdgroup * SHARE;
    const int64_t column = first_column + lane;
    const int present = column < rows ? rows - top : 0;
    auto from = matrix + top * a_strides[1] + column * a_strides[2];
    float values[SHARE];
    float sums[SHARE] = {};
    #pragma clang loop unroll(full)
    for (int s = 0; s < SHARE; ++s) {
        values[s] = s < present ? *from : 0.0f;
        from += a_strides[1];
    }
    bool definite = true;
    if (start + TILE >= rows || (start <= first_column && first_column < first_row + HEIGHT)) {
        const int64_t origin = simdgroup == 0 ? start
            : simdgroup == 1 ? first_column : first_row + (simdgroup - 2) * TILE;
        const int count = start + lane < rows ? rows - origin : 0;
        auto source = matrix + origin * a_strides[1] + (start + lane) * a_strides[2];
        #pragma clang loop unroll(full)
        for (int r = 0; r < TILE; ++r) {
            panel[lane * PITCH + simdgroup * TILE + r] = r < count ? *source : 0.0f;
            source += a_strides[1];
        }
        definite = xlstm_eliminate<TILE, THREADS, PITCH>(
            panel + thread_index, thread_index, rows - start, inverses, factors);
        const threadgroup float* own = panel + 2 * TILE + simdgroup * SHARE;
        if (start == first_column) {
            #pragma clang loop unroll(full)
            for (int s = 0; s < SHARE; ++s) {
                values[s] = own[lane * PITCH + s];
            }
        }
        #pragma unroll 1
        for (uint first = 0; first < TILE && start < first_column; first += MOST) {
            float parts[SHARE] = {};
            for (uint k = first; k < first + MOST; ++k) {
                const float other = panel[k * PITCH + TILE + lane];
                #pragma clang loop unroll(full)
                for (int s = 0; s < SHARE; ++s) {
                    parts[s] = metal::fma(own[k * PITCH + s], other, parts[s]);
                }
            }
            #pragma clang loop unroll(full)
            for (int s = 0; s < SHARE; ++s) {
                sums[s] += parts[s];
            }
        }
    }
    const auto to = left + (batch * rows + top) * rows + column;
    #pragma clang loop unroll(full)
    for (int s = 0; s < SHARE; ++s) {
        if (s < present) {
            const float value = column <= top + s ? values[s] - sums[s] : 0.0f;
            to[s * rows] = definite ? value : NAN;
        }
    }
    """,
)
