"""Cholesky factors.

A kernel factors matrices of up to 64 rows in one launch: a thread has a row in its registers, and
small matrices share a threadgroup. Larger matrices go by blocks of 64 columns (Golub and Van Loan,
Matrix Computations, 4th edition, algorithm 4.2.4): the kernel, a triangular system, MLX's product.
"""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.differentiation import Arrays, Operation, on_backend
from xlstm_kernels.double_float.matrix_product import matrix_product
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.linalg.arguments import flat_batch, in_float32, require_square
from xlstm_kernels.linalg.arithmetic import multiply
from xlstm_kernels.linalg.householder import MATRIX_BARRIER
from xlstm_kernels.linalg.triangular import (
    BLOCK,
    block_size,
    solve_triangular_reference,
    triangular_operation,
)


@in_float32
def cholesky(a: mx.array, /, *, upper: bool = False, backend: str | None = None) -> mx.array:
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
        ValueError: for an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    require_square("cholesky", "a", a)
    operation = _cholesky(executors.resolve(backend))
    if not a.size:
        return mx.zeros_like(a)
    flat = flat_batch(mx.swapaxes(a, -1, -2) if upper else a)
    factor: mx.array = operation(flat).reshape(a.shape)
    return mx.swapaxes(factor, -1, -2) if upper else factor


def cholesky_reference(a: mx.array) -> mx.array:
    """`cholesky` of (..., N, N) in MLX operations that MLX differentiates, by halves."""
    return _nan_where_failed(_by_halves(a))


@functools.cache
def _cholesky(backend: str) -> Operation:
    """The operation a (B, N, N) -> L (B, N, N) on one backend."""

    def launch(a: mx.array) -> mx.array:
        return _by_blocks(a, backend) if a.shape[-1] > BLOCK else _factor(a, backend)

    def native(a: mx.array) -> mx.array:
        return _nan_where_failed(mx.linalg.cholesky(a, stream=mx.cpu))

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        """Murray, Differentiation of the Cholesky decomposition, 2016, equations 9 and 10."""
        factor = operation(*primals)
        transposed = mx.swapaxes(factor, -1, -2)
        inner = _half_diagonal(mx.tril(multiply(transposed, mx.tril(cotangents[0]))))
        solve = triangular_operation(backend, lower=False)
        left = solve(transposed, inner)
        whole = mx.swapaxes(solve(transposed, mx.swapaxes(left, -1, -2)), -1, -2)
        return (mx.array(0.5, dtype=whole.dtype) * (whole + mx.swapaxes(whole, -1, -2)),)

    operation = on_backend(
        backend, launch, native, gradient, operator="cholesky", tangents_of=cholesky_reference
    )
    return operation


def _half_diagonal(a: mx.array) -> mx.array:
    """The matrices with their diagonals halved."""
    half = mx.eye(a.shape[-1], dtype=a.dtype) * mx.array(0.5, dtype=a.dtype)
    return a * (mx.ones_like(half) - half)


def _nan_where_failed(factor: mx.array) -> mx.array:
    """A pivot that is not positive remains on the diagonal."""
    diagonal = mx.diagonal(factor, axis1=-2, axis2=-1)
    definite = mx.all(diagonal > mx.zeros_like(diagonal), axis=-1)
    nan = mx.full(factor.shape, mx.nan, dtype=factor.dtype)
    return mx.where(definite[..., None, None], factor, nan)


def _by_halves(a: mx.array) -> mx.array:
    size = a.shape[-1]
    if size == 1:
        return mx.sqrt(a)  # NaN or zero of a pivot that is not positive
    half = math.ceil(size / 2)
    corner = _by_halves(a[..., :half, :half])
    above = mx.swapaxes(a[..., half:, :half], -1, -2)
    above = solve_triangular_reference(corner, above, lower=True)
    below = mx.swapaxes(above, -1, -2)
    last = _by_halves(a[..., half:, half:] - multiply(below, above))
    return _assembled([mx.concatenate([corner, below], axis=-2), last])


def _by_blocks(a: mx.array, backend: str) -> mx.array:
    solve = triangular_operation(backend, lower=True)
    product = matrix_product(backend)
    columns, rest, lost = [], a, mx.zeros_like(a)
    while rest.shape[-1] > BLOCK:
        column = rest[..., :BLOCK] + lost[..., :BLOCK]
        corner = _factor(column[..., :BLOCK, :], backend)
        above = solve(corner, mx.swapaxes(column[..., BLOCK:, :], -1, -2))
        below = mx.swapaxes(above, -1, -2)
        columns.append(mx.concatenate([corner, below], axis=-2))
        # In float32, the roundings of these sums are most of the error of the factor.
        high, low = product(below, mx.zeros_like(below), above, mx.zeros_like(above))
        before = rest[..., BLOCK:, BLOCK:]
        rest = before - high
        lost = lost[..., BLOCK:, BLOCK:] + ((before - rest) - high) - low
    columns.append(_factor(rest + lost, backend))
    return _nan_where_failed(_assembled(columns))


def _factor(a: mx.array, backend: str) -> mx.array:
    (factor,) = _KERNEL(a, backend=backend)
    return factor


def _assembled(columns: list[mx.array]) -> mx.array:
    """A lower triangular matrix of block columns, each from its diagonal on."""
    rows = columns[0].shape[-2]
    batch = [(0, 0)] * (columns[0].ndim - 2)
    padded = [mx.pad(c, [*batch, (rows - c.shape[-2], 0), (0, 0)]) for c in columns]
    return mx.concatenate(padded, axis=-1)


# --- Metal -------------------------------------------------------------------------------------


def _launch(a: mx.array) -> Launch:
    batch, rows, _ = a.shape
    size = block_size(rows)
    together = BLOCK // size
    return Launch(
        grid=(math.ceil(batch / together) * size, together, 1),
        threadgroup=(size, together, 1),
        output_shapes=(a.shape,),
        output_dtypes=(mx.float32,),
        template=(("SIZE", size), ("TOGETHER", together)),
    )


_KERNEL = Kernel(
    name="xlstm_cholesky",
    inputs=("a",),
    outputs=("factor",),
    launch=_launch,
    contiguous_inputs=False,
    header=MATRIX_BARRIER,
    body="""
    // a: (batch, rows, rows), of any strides; factor: the same, contiguous.
    // The steps are a loop, and registers are indexed by constants within it: a loop over the steps
    // unrolled takes many seconds to compile. A step leaves out the chunks of finished columns.
    constexpr uint CHUNK = SIZE < 16 ? SIZE : 16;
    // In turns: a thread may read one's while another writes the next step's.
    threadgroup float shared_pivot[2][TOGETHER];
    threadgroup float shared_column[2][TOGETHER][SIZE];
    const uint rows = a_shape[1];
    const uint i = thread_position_in_threadgroup.x;
    const uint place = thread_position_in_threadgroup.y;
    const uint batches = a_shape[0];
    const uint wanted = threadgroup_position_in_grid.x * TOGETHER + place;
    // All threads stay for the barriers; those without a matrix have no rows.
    const bool present = wanted < batches && i < rows;
    const int64_t batch = metal::min(wanted, batches - 1);
    // What is left of the row, and what its roundings took away: in each of many steps, which add
    // up to several times the error that is due to the rounding of the factor alone.
    float row[SIZE];
    float lost[SIZE];
    float diagonal = 0.0f;
    float diagonal_lost = 0.0f;
    #pragma clang loop unroll(full)
    for (uint j = 0; j < SIZE; ++j) {
        const bool read = present && j <= i;
        row[j] = read ? a[batch * a_strides[0] + i * a_strides[1] + j * a_strides[2]] : 0.0f;
        lost[j] = 0.0f;
        diagonal = j == i ? row[j] : diagonal;
    }
    if (i == 0) {
        shared_pivot[0][place] = diagonal;
    }
    xlstm_matrix_barrier<SIZE>();
    bool definite = true;
    #pragma unroll 1
    for (uint k = 0; k < rows; ++k) {
        const float pivot = shared_pivot[k % 2][place];
        definite = definite && pivot > 0.0f;
        float value = 0.0f;
        #pragma clang loop unroll(full)
        for (uint chunk = 0; chunk < SIZE; chunk += CHUNK) {
            if (k / CHUNK == chunk / CHUNK) {
                #pragma clang loop unroll(full)
                for (uint j = chunk; j < chunk + CHUNK; ++j) {
                    value = j == k ? row[j] + lost[j] : value;
                }
            }
        }
        value /= metal::precise::sqrt(pivot);
        shared_column[k % 2][place][i] = value;
        // The next pivot is from its own row alone, so that a step needs one barrier.
        const float rest = metal::fma(-value, value, diagonal);
        diagonal_lost += metal::fma(-value, value, diagonal - rest);
        diagonal = rest;
        if (i == k + 1) {
            shared_pivot[i % 2][place] = diagonal + diagonal_lost;
        }
        xlstm_matrix_barrier<SIZE>();
        // Above the diagonal this computes numbers that nothing reads.
        #pragma clang loop unroll(full)
        for (uint chunk = 0; chunk < SIZE; chunk += CHUNK) {
            if (k < chunk + CHUNK) {
                #pragma clang loop unroll(full)
                for (uint j = chunk; j < chunk + CHUNK; ++j) {
                    const float other = shared_column[k % 2][place][j];
                    const float left = metal::fma(-value, other, row[j]);
                    if (j > k) {
                        lost[j] += metal::fma(-value, other, row[j] - left);
                        row[j] = left;
                    } else if (j == k) {
                        row[j] = value;
                    }
                }
            }
        }
    }
    if (present) {
        #pragma clang loop unroll(full)
        for (uint j = 0; j < SIZE; ++j) {
            if (j < rows) {
                const float value = j <= i ? row[j] : 0.0f;
                factor[(batch * rows + i) * rows + j] = definite ? value : NAN;
            }
        }
    }
    """,
)
