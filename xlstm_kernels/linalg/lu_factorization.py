"""LU factors with partial pivoting.

A kernel factors panels of up to 64 columns in one launch for a batch: a matrix has a threadgroup,
and a thread has rows in its registers, which exchange pivot rows through threadgroup memory.
Wider matrices go by blocks of columns (Golub and Van Loan, Matrix Computations, 4th edition,
section 3.4.5): the kernel, a permutation of rows, a triangular system, MLX's product.
"""

from __future__ import annotations

import functools
import math
from typing import TypeAlias

import mlx.core as mx

from xlstm_kernels.differentiation import Arrays, Operation, decomposition
from xlstm_kernels.executors import StreamLike, resolve
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.linalg.arguments import flat_batch, in_float32, require_matrices
from xlstm_kernels.linalg.arithmetic import multiply, unmapped
from xlstm_kernels.linalg.householder import MATRIX_BARRIER
from xlstm_kernels.linalg.triangular import BLOCK, block_size, triangular_operation

Factors: TypeAlias = tuple[mx.array, mx.array, mx.array]


@in_float32
def lu(
    a: mx.array,
    permute_l: bool = False,
    p_indices: bool = False,
    *,
    backend: str | None = None,
    stream: StreamLike = None,
) -> tuple[mx.array, ...]:
    """Factor matrices as a = P L U: `scipy.linalg.lu`.

    Differentiable any number of times in L and U, where the leading square of L and U has an
    inverse. These are SciPy's conventions, and not those of `mx.linalg.lu`, as SciPy has a matrix P
    by default, and can return P L.

    Args:
        a: (..., M, N) float32.
        permute_l: return P L and U.
        p_indices: return P as indices (..., M) int32, so that a = L[p] U.
        backend: `"metal"`, `"cuda"`, `"native"` (`mx.linalg.lu` on the CPU), or None for kernels
            where they can run. Neither works in `mx.vmap`: MLX cannot map its LU factors.

    Returns:
        P (..., M, M), L (..., M, K), U (..., K, N), K = min(M, N). L has ones on its diagonal and
        no element greater than one. A singular matrix has zeros on U's diagonal, as in SciPy.

    Raises:
        TypeError: for another dtype.
        LinAlgError: for fewer than two axes.
        ValueError, RuntimeError: for a backend that is unknown, or cannot run here.
    """
    compact, permutation, _ = _factored("lu", a, backend)
    *batch, rows, columns = a.shape
    least = min(rows, columns)
    upper = mx.triu(compact[..., :least, :]).reshape((*batch, least, columns))
    lower = unit_lower(compact[..., :least])
    places = inverse_permutation(permutation)
    if permute_l:
        lower = take_rows(lower, places)
    lower = lower.reshape((*batch, rows, least))
    if permute_l:
        return lower, upper
    if p_indices:
        return places.reshape((*batch, rows)), lower, upper
    numbers = mx.arange(rows, dtype=mx.int32)
    matrix = (places[..., None] == numbers).astype(mx.float32)
    return matrix.reshape((*batch, rows, rows)), lower, upper


@in_float32
def lu_factor(
    a: mx.array, *, backend: str | None = None, stream: StreamLike = None
) -> tuple[mx.array, mx.array]:
    """Factor matrices in LAPACK's compact form: `scipy.linalg.lu_factor`.

    Arguments and errors are those of `lu`, for matrices (..., M, N).

    Returns:
        lu (..., M, N), U and below its diagonal L without its ones; piv (..., min(M, N)) int32: in
        step i, row i was exchanged with row piv[i].
    """
    compact, _, pivots = _factored("lu_factor", a, backend)
    return compact.reshape(a.shape), pivots.reshape((*a.shape[:-2], pivots.shape[-1]))


def _factored(operator: str, a: mx.array, backend: str | None) -> Factors:
    flat = flat_batch(require_matrices(operator, "a", a))
    operation = lu_operation(resolve(backend))
    if flat.size:
        factors: Factors = operation(flat)
        return factors
    batch, rows, columns = flat.shape
    numbers = mx.broadcast_to(mx.arange(rows, dtype=mx.int32), (batch, rows))
    return flat, numbers, mx.zeros((batch, min(rows, columns)), dtype=mx.int32)


@functools.cache
def lu_operation(backend: str) -> Operation:
    """The operation a (B, M, N) -> compact factors, permutation (B, M), pivots on one backend.

    Row i of the factors is from row `permutation[i]` of a.
    """

    def gradient(_: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        """Giles, 2008, of A = P L U, and of the rows or columns beyond the leading square.

        With A = P [L1; L2] [U1 U2] and bars for cotangents, that of L1 U1 is L1^-T M U1^-T, M =
        tril(L1^T bar(L1) - bar(U2) U2^T, -1) + triu(bar(U1) U1^T - L2^T bar(L2)).
        """
        compact, permutation, _pivots = outputs
        rows, columns = compact.shape[-2:]
        k = min(rows, columns)
        square, bar = compact[..., :k, :k], cotangents[0]
        lower, upper = unit_lower(square), mx.triu(square)
        bar_square, below, right = bar[..., :k, :k], bar[..., k:, :k], bar[..., :k, k:]
        of_lower = multiply(_transposed(lower), mx.tril(bar_square, -1))
        of_upper = multiply(mx.triu(bar_square), _transposed(upper))
        of_lower = of_lower - multiply(right, _transposed(compact[..., :k, k:]))
        of_upper = of_upper - multiply(_transposed(compact[..., k:, :k]), below)
        middle = mx.tril(of_lower, -1) + mx.triu(of_upper)
        # From the left by the inverse of L1^T, from the right by that of U1^T.
        by_lower = triangular_operation(backend, lower=False, unit=True)
        by_upper = triangular_operation(backend, lower=False)
        wide = by_lower(_transposed(lower), mx.concatenate([middle, right], axis=-1))
        tall = mx.concatenate([wide[..., :k], below], axis=-2)
        in_columns = _transposed(by_upper(upper, _transposed(tall)))
        if columns > k:
            in_columns = mx.concatenate([in_columns, wide[..., k:]], axis=-1)
        return (take_rows(in_columns, inverse_permutation(permutation)),)

    launch = functools.partial(_by_blocks, backend=backend)
    return decomposition("lu", backend, launch, _native, gradient)


def unit_lower(compact: mx.array) -> mx.array:
    """L (..., M, K) of the first columns of compact factors."""
    rows, columns = compact.shape[-2:]
    return mx.tril(compact, -1) + mx.eye(rows, columns, dtype=compact.dtype)


def take_rows(a: mx.array, rows: mx.array) -> mx.array:
    """The rows (..., M) of matrices (..., M, N), in this order."""
    return mx.take_along_axis(a, mx.stop_gradient(rows)[..., None], axis=-2)


def inverse_permutation(permutation: mx.array) -> mx.array:
    """The places (..., M) int32 of the numbers from 0 to M - 1."""
    return mx.argsort(permutation, axis=-1).astype(mx.int32)


def _transposed(a: mx.array) -> mx.array:
    return mx.swapaxes(a, -1, -2)


def _by_blocks(a: mx.array, backend: str) -> Factors:
    """Factor the first columns, then what is left of the others: right-looking."""
    rows, columns = a.shape[-2:]
    width = _panel_columns(rows, columns)
    panel, permutation, pivots = _KERNEL(a[..., :width], backend=backend)
    if columns <= width:
        return panel, permutation, pivots
    right = take_rows(a[..., width:], permutation)
    solve = triangular_operation(backend, lower=True, unit=True)
    above = solve(panel[..., :width, :], right[..., :width, :])
    if rows <= width:
        return mx.concatenate([panel, above], axis=-1), permutation, pivots
    below = panel[..., width:, :]
    rest = right[..., width:, :] - multiply(below, above)
    factors, order, later = _by_blocks(rest, backend)
    left = mx.concatenate([panel[..., :width, :], take_rows(below, order)], axis=-2)
    kept = mx.concatenate([above, factors], axis=-2)
    moved = mx.take_along_axis(permutation[..., width:], order, axis=-1)
    offset = mx.array(width, dtype=mx.int32)
    return (
        mx.concatenate([left, kept], axis=-1),
        mx.concatenate([permutation[..., :width], moved], axis=-1),
        mx.concatenate([pivots, later + offset], axis=-1),
    )


def _native(a: mx.array) -> Factors:
    a = unmapped("lu")(a)
    places, lower, upper = mx.linalg.lu(a, stream=mx.cpu)
    # Not its compact factors: MLX 0.32.4 corrupts memory where they are read and pivots are not.
    _, pivots = mx.linalg.lu_factor(a, stream=mx.cpu)
    _, rows, columns = a.shape
    below = mx.pad(mx.tril(lower, -1), [(0, 0), (0, 0), (0, max(columns - rows, 0))])
    compact = below + mx.pad(upper, [(0, 0), (0, max(rows - columns, 0)), (0, 0)])
    return compact, inverse_permutation(places), pivots.astype(mx.int32)


# --- Metal -------------------------------------------------------------------------------------


_MAX_THREADS = 1024
_TALL_COLUMNS = 32  # of panels with a row for each of up to 1,024 threads
_LEAST_COLUMNS = 8


def _panel_columns(rows: int, columns: int) -> int:
    """The columns of a panel: so many that its rows fit the registers."""
    if rows <= BLOCK:
        return min(columns, BLOCK)
    per_thread = math.ceil(rows / _MAX_THREADS)
    return min(columns, max(_TALL_COLUMNS >> (per_thread - 1).bit_length(), _LEAST_COLUMNS))


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
    header=MATRIX_BARRIER,
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
        xlstm_matrix_barrier<SIMDGROUPS * 32>();
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
