"""QR by Householder reflections: a kernel for batches of matrices that fit threadgroup memory.

One launch factors the batch. A matrix lies in threadgroup memory, and has a power of two of
threads: each takes every SLICES-th row of a column, so that neighbouring lanes add up a column's
dot product by shuffles. Of matrices that need fewer than 32 threads, a SIMD group takes several.

A step computes one reflection H = I - tau v v' and applies it to the columns after it. The column
that it comes from is left as it is until all steps are done, so that a step needs one barrier.
`blocked_qr` factors larger matrices.
"""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch

_SIMD_WIDTH = 32
_ROWS_OF_A_THREAD = 16
_MATRIX_THREADS = 512
_THREADS = 128  # of a threadgroup that has several matrices
_MEMORY = 7680  # floats of a matrix: 30 of the 32 KB that every Metal device has


def _layout(rows: int, width: int) -> tuple[int, int, int]:
    """Columns at once, slices, and stride of a matrix of `rows` by `width` elements.

    A matrix's threads take that many columns at once, and slices share a column: powers of two. The
    stride is from one row to the next in threadgroup memory, without bank conflicts.
    """
    columns = _power_of_two(width)
    slices = min(_power_of_two(math.ceil(rows / _ROWS_OF_A_THREAD)), _SIMD_WIDTH)
    if max(rows, columns) <= _SIMD_WIDTH:
        slices = min(slices, _SIMD_WIDTH // columns)
    banks = _SIMD_WIDTH // slices
    stride = width | 1 if slices == 1 else width + (banks - width) % (2 * banks)
    return min(columns, _MATRIX_THREADS // slices), slices, stride


def fits(rows: int, columns: int, q_columns: int) -> bool:
    """Return True if the kernel takes matrices of this shape, with so many columns of Q."""
    width = max(columns, q_columns)
    return rows * width <= _MEMORY and rows * _layout(rows, width)[2] <= _MEMORY


def small_qr(
    matrices: mx.array, *, q_columns: int, r_rows: int, backend: str
) -> tuple[mx.array, ...]:
    """Factor matrices (B, M, N) that `fits`: Q (B, M, q_columns) and R (B, r_rows, N).

    There is no Q of 0 columns; otherwise it has min(M, N), or M. R has min(M, N) rows, or M.
    """
    kernel = _kernel(with_q=q_columns > 0)
    return kernel(matrices, backend=backend, q_columns=q_columns, r_rows=r_rows)


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


def _launch(matrices: mx.array, *, q_columns: int, r_rows: int) -> Launch:
    batch, rows, columns = matrices.shape
    at_once, slices, stride = _layout(rows, max(columns, q_columns))
    threads = at_once * slices
    places = max(min(_THREADS // threads, _MEMORY // (rows * stride + 4 * rows)), 1)
    places = max(1 << (places.bit_length() - 1), _SIMD_WIDTH // threads)
    q_shape = ((batch, rows, q_columns),) if q_columns else ()
    return Launch.of_groups(
        math.ceil(batch / places),
        places * threads,
        *q_shape,
        (batch, r_rows, columns),
        ROWS=rows,
        COLUMNS=columns,
        FACTORS=min(rows, columns),
        Q_COLUMNS=q_columns,
        R_ROWS=r_rows,
        AT_ONCE=at_once,
        SLICES=slices,
        STRIDE=stride,
        PLACES=places,
    )


REFLECTION = """
    // A Householder reflection as LAPACK's slarfg makes it: H = I - tau v v' maps (alpha, x) to
    // (beta, 0); v is 1 and x * scale * inverse. If x is zero, H is the identity.
    struct xlstm_reflection {
        float beta;
        float tau;
        float scale;
        float inverse;
    };
    // A power of two that brings `largest` to at most 2, so that squares neither overflow nor
    // vanish. What is beyond 2^126 stays below 4, zero stays zero.
    inline float xlstm_power_scale(float largest) {
        const uint exponent = metal::clamp(as_type<uint>(largest) >> 23, 1u, 253u);
        return as_type<float>((254u - exponent) << 23);
    }
    // squares: the sum of the squares of x * scale; tail: the greatest magnitude in x.
    inline xlstm_reflection xlstm_reflect(float alpha, float squares, float tail, float scale) {
        xlstm_reflection h = {alpha, 0.0f, scale, 0.0f};
        // A NaN has no magnitude in tail, but makes squares NaN.
        if (tail != 0.0f || squares != 0.0f) {
            const float head = alpha * scale;
            const float norm = -metal::copysign(metal::precise::sqrt(head * head + squares), head);
            h.beta = norm / scale;
            h.tau = (norm - head) / norm;
            h.inverse = 1.0f / (head - norm);
        }
        return h;
    }
"""

MATRIX_BARRIER = """
    // Of the threads of a matrix: up to 32 of them are in one SIMD group.
    template <uint THREADS>
    inline void xlstm_matrix_barrier() {
        if (THREADS <= 32) {
            simdgroup_barrier(mem_flags::mem_threadgroup);
        } else {
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
    }
"""

_SLICES = """
    // Over the SLICES neighbouring lanes of a column.
    template <uint SLICES>
    inline float xlstm_slice_sum(float value) {
        #pragma clang loop unroll(full)
        for (uint distance = 1; distance < SLICES; distance *= 2) {
            value += simd_shuffle_xor(value, distance);
        }
        return value;
    }
    template <uint SLICES>
    inline float xlstm_slice_max(float value) {
        #pragma clang loop unroll(full)
        for (uint distance = 1; distance < SLICES; distance *= 2) {
            value = metal::max(value, simd_shuffle_xor(value, distance));
        }
        return value;
    }
"""

_FACTOR = """
    // matrices: (batch, ROWS, COLUMNS), contiguous; q: (batch, ROWS, Q_COLUMNS); r: (batch,
    // R_ROWS, COLUMNS).
    constexpr uint THREADS = AT_ONCE * SLICES;
    threadgroup float memory[PLACES][ROWS * STRIDE];
    threadgroup float tails[PLACES][2];
    threadgroup float taus[PLACES][FACTORS];
    threadgroup float betas[PLACES][FACTORS];
    threadgroup float scales[PLACES][FACTORS];
    threadgroup float inverses[PLACES][FACTORS];
    const uint place = thread_position_in_threadgroup.x / THREADS;
    const uint own = thread_position_in_threadgroup.x % THREADS;
    const uint slice = own % SLICES;
    const uint first = own / SLICES;
    const uint batch = matrices_shape[0];
    const uint wanted = threadgroup_position_in_grid.x * PLACES + place;
    const bool present = wanted < batch;
    // All threads stay for the barriers: those without a matrix factor the last one once more.
    const int64_t matrix = present ? wanted : batch - 1;
    threadgroup float* a = memory[place];

    for (uint at = own; at < uint(ROWS) * COLUMNS; at += THREADS) {
        a[at / COLUMNS * STRIDE + at % COLUMNS] = matrices[matrix * ROWS * COLUMNS + at];
    }
    xlstm_matrix_barrier<THREADS>();
    float largest = 0.0f;
    for (uint i = slice; i < ROWS; i += SLICES) {
        largest = metal::max(largest, i > 0 ? metal::abs(a[i * STRIDE]) : 0.0f);
    }
    largest = xlstm_slice_max<SLICES>(largest);
    if (own == 0) {
        tails[place][0] = largest;
    }
    xlstm_matrix_barrier<THREADS>();

    for (uint k = 0; k < FACTORS; ++k) {
        const float alpha = a[k * STRIDE + k];
        const float tail = tails[place][k % 2];
        const float scale = xlstm_power_scale(metal::max(tail, metal::abs(alpha)));
        // The first row from k on that is this thread's.
        const uint row = k + (slice + SLICES - k % SLICES) % SLICES;
        const bool has_head = row == k;
        for (uint base = k / AT_ONCE * AT_ONCE; base < COLUMNS; base += AT_ONCE) {
            const uint j = base + first;
            const bool moves = j > k && j < COLUMNS;
            const uint column = moves ? j : k;
            float squares = 0.0f;
            float along = 0.0f;
            for (uint i = has_head ? row + SLICES : row; i < ROWS; i += SLICES) {
                const float x = a[i * STRIDE + k] * scale;
                squares += x * x;
                along += x * a[i * STRIDE + column];
            }
            float head = has_head ? a[k * STRIDE + column] : 0.0f;
            squares = xlstm_slice_sum<SLICES>(squares);
            along = xlstm_slice_sum<SLICES>(along);
            const float whole_head = xlstm_slice_sum<SLICES>(head);
            const xlstm_reflection h = xlstm_reflect(alpha, squares, tail, scale);
            const float weight = h.tau * (whole_head + along * h.inverse);
            largest = 0.0f;
            if (moves) {
                if (has_head) {
                    a[k * STRIDE + j] = head - weight;
                }
                for (uint i = has_head ? row + SLICES : row; i < ROWS; i += SLICES) {
                    const float x = a[i * STRIDE + k] * scale;
                    const float left = a[i * STRIDE + j] - weight * h.inverse * x;
                    a[i * STRIDE + j] = left;
                    largest = metal::max(largest, i > k + 1 ? metal::abs(left) : 0.0f);
                }
            }
            largest = xlstm_slice_max<SLICES>(largest);
            if (slice == 0 && j == k + 1) {
                tails[place][(k + 1) % 2] = largest;
            }
            if (slice == 0 && j == k) {
                taus[place][k] = h.tau;
                betas[place][k] = h.beta;
                scales[place][k] = h.scale;
                inverses[place][k] = h.inverse;
            }
        }
        xlstm_matrix_barrier<THREADS>();
    }

    for (uint at = own; present && at < uint(R_ROWS) * COLUMNS; at += THREADS) {
        const uint i = at / COLUMNS;
        const uint j = at % COLUMNS;
        const float above = i < j ? a[i * STRIDE + j] : 0.0f;
        r[matrix * R_ROWS * COLUMNS + at] = i == j ? betas[place][j] : above;
    }
"""

_FORM_Q = """
    xlstm_matrix_barrier<THREADS>();
    // Below the diagonal of its column, v; the columns that no reflection made, of the identity.
    for (uint j = first; j < Q_COLUMNS; j += AT_ONCE) {
        for (uint i = slice; i < ROWS; i += SLICES) {
            if (j >= FACTORS) {
                a[i * STRIDE + j] = i == j ? 1.0f : 0.0f;
            } else if (i > j) {
                a[i * STRIDE + j] = a[i * STRIDE + j] * scales[place][j] * inverses[place][j];
            }
        }
    }
    xlstm_matrix_barrier<THREADS>();
    // Q = H_0 (H_1 (... I)): column k + 1 becomes that of its own reflection, when the others no
    // longer need its v, and row k of the columns after k is zero until H_k.
    for (uint k = FACTORS; k-- > 0;) {
        const float tau = taus[place][k];
        const uint row = k + 1 + (slice + SLICES - (k + 1) % SLICES) % SLICES;
        for (uint base = (k + 1) / AT_ONCE * AT_ONCE; base < Q_COLUMNS; base += AT_ONCE) {
            const uint j = base + first;
            const bool moves = j > k && j < Q_COLUMNS;
            if (moves && j == k + 1 && j < FACTORS) {
                const float other = taus[place][j];
                for (uint i = row; i < ROWS; i += SLICES) {
                    const float v = i == j ? 1.0f : a[i * STRIDE + j];
                    a[i * STRIDE + j] = (i == j ? 1.0f : 0.0f) - other * v;
                }
            }
            float along = 0.0f;
            for (uint i = row; moves && i < ROWS; i += SLICES) {
                along += a[i * STRIDE + k] * a[i * STRIDE + j];
            }
            const float weight = tau * xlstm_slice_sum<SLICES>(along);
            if (moves) {
                if (slice == k % SLICES) {
                    a[k * STRIDE + j] = -weight;
                }
                for (uint i = row; i < ROWS; i += SLICES) {
                    a[i * STRIDE + j] -= weight * a[i * STRIDE + k];
                }
            }
        }
        xlstm_matrix_barrier<THREADS>();
    }
    if (first == 0) {
        for (uint i = slice; i < ROWS; i += SLICES) {
            const float v = i == 0 ? 1.0f : a[i * STRIDE];
            a[i * STRIDE] = (i == 0 ? 1.0f : 0.0f) - taus[place][0] * v;
        }
    }
    xlstm_matrix_barrier<THREADS>();
    for (uint at = own; present && at < uint(ROWS) * Q_COLUMNS; at += THREADS) {
        q[matrix * ROWS * Q_COLUMNS + at] = a[at / Q_COLUMNS * STRIDE + at % Q_COLUMNS];
    }
"""


@functools.cache
def _kernel(*, with_q: bool) -> Kernel:
    return Kernel(
        name="xlstm_small_qr" if with_q else "xlstm_small_qr_r",
        inputs=("matrices",),
        outputs=("q", "r") if with_q else ("r",),
        launch=_launch,
        header=REFLECTION + MATRIX_BARRIER + _SLICES,
        body=_FACTOR + (_FORM_Q if with_q else ""),
    )
