"""Triangular systems of equations.

Kernels solve matrices of up to 64 rows in one launch, one threadgroup for a matrix and up to 64
columns of b: the matrix is in threadgroup memory, a column of x in the registers of a thread.
Larger matrices are halved (Golub and Van Loan, Matrix Computations, 4th edition, section 3.1.4),
with MLX's products between the halves. MLX operations multiply by inverses of blocks of up to 64
rows, as `mx.linalg.solve_triangular` does by that of the whole matrix.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import mlx.core as mx

from xlstm_kernels.differentiation import Arrays, Operation, decomposition
from xlstm_kernels.executors import StreamLike, resolve
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.linalg.arguments import broadcast_system, in_float32
from xlstm_kernels.linalg.arithmetic import multiply

Solver: TypeAlias = "Callable[[mx.array], mx.array]"

BLOCK = 64  # the most rows of a matrix in one kernel
_SMALLEST_BLOCK = 8
_TRANSPOSED = {0: False, "N": False, 1: True, "T": True, 2: True, "C": True}


@in_float32
def solve_triangular(
    a: mx.array,
    b: mx.array,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    *,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array:
    """Solve a x = b, or a^T x = b, for a triangular `a`: `scipy.linalg.solve_triangular`.

    Differentiable any number of times. The gradient in `a` is that of the triangle that is read.

    Args:
        a: (..., N, N) float32. The other triangle is not read.
        b: (N,) or (..., N, K) float32. Batch axes broadcast.
        trans: 0 or "N" for a x = b; 1, "T", 2 or "C" for a^T x = b.
        lower: `a` is lower triangular, and not upper.
        unit_diagonal: the diagonal is taken as ones, and not read.
        backend: "metal", "cuda", "native" (MLX operations; `mx.vmap` needs it), or None to choose.

    Returns:
        x (N,) or (..., N, K) float32. NaN for a matrix with a zero on its diagonal, for which
        SciPy raises, and in a column of `b` where the matrix or the column is not finite.

    Raises:
        TypeError: for another dtype.
        LinAlgError: for matrices that are not square.
        ValueError: for shapes that do not fit, another `trans`, an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    system = broadcast_system("solve_triangular", a, b)
    if trans not in _TRANSPOSED:
        raise ValueError(f"solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    transposed = _TRANSPOSED[trans]
    operation = triangular_operation(
        resolve(backend), bool(lower) is not transposed, bool(unit_diagonal)
    )
    if not system.b.size:
        return mx.zeros(system.shape)
    triangles = mx.swapaxes(system.a, -1, -2) if transposed else system.a
    x: mx.array = operation(triangles, system.b)
    return x.reshape(system.shape)


@functools.cache
def triangular_operation(backend: str, lower: bool, unit: bool = False) -> Operation:
    """The operation a (B, N, N), b (B, N, K) -> x (B, N, K) on one backend."""

    def launch(a: mx.array, b: mx.array) -> mx.array:
        def leaf(a: mx.array) -> Solver:
            return lambda b: _KERNEL(a, b, backend=backend, lower=lower, unit=unit)[0]

        x = substitution(a, lower=lower, leaf=leaf, rows=BLOCK)(b)
        return _finite_columns(x) if a.shape[-1] > BLOCK else x

    def native(a: mx.array, b: mx.array) -> mx.array:
        # Under mx.vmap, MLX 0.32.4 inverts both triangles.
        part = mx.tril(a, -int(unit)) if lower else mx.triu(a, int(unit))
        whole = part + (mx.eye(a.shape[-1]) if unit else zero_or_nan(a))
        return _finite_columns(by_inverses(whole, lower=lower)(b))

    def gradient(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        """Giles, Collected matrix derivative results, 2008, section 2.3: the inverse transposed."""
        transposed = mx.swapaxes(primals[0], -1, -2)
        in_b = triangular_operation(backend, not lower, unit)(transposed, cotangents[0])
        in_a = mx.negative(multiply(in_b, mx.swapaxes(outputs[0], -1, -2)))
        offset = int(unit)
        return mx.tril(in_a, -offset) if lower else mx.triu(in_a, offset), in_b

    return decomposition("solve_triangular", backend, launch, native, gradient)


def substitution(
    a: mx.array, *, lower: bool, leaf: Callable[[mx.array], Solver], rows: int
) -> Solver:
    """The solution of a triangular system, of b: by halves, of at most `rows` rows by `leaf`."""
    size = a.shape[-1]
    if size <= rows:
        return leaf(a)
    half = math.ceil(math.ceil(size / rows) / 2) * rows
    top, bottom = slice(None, half), slice(half, None)
    first, second = (top, bottom) if lower else (bottom, top)
    solve_first, solve_second = (
        substitution(a[..., part, part], lower=lower, leaf=leaf, rows=rows)
        for part in (first, second)
    )

    def solve(b: mx.array) -> mx.array:
        x_first = solve_first(b[..., first, :])
        known = multiply(a[..., second, first], x_first)
        x_second = solve_second(b[..., second, :] - known)
        return mx.concatenate([x_first, x_second] if lower else [x_second, x_first], axis=-2)

    return solve


def by_inverses(a: mx.array, *, lower: bool) -> Solver:
    """The solution, of b, by inverses on the CPU, for a diagonal without zeros.

    The other triangle is zero.
    """

    def leaf(a: mx.array) -> Solver:
        inverse = mx.linalg.tri_inv(a, upper=not lower, stream=mx.cpu)
        return lambda b: mx.matmul(inverse, b, stream=mx.cpu)

    return substitution(a, lower=lower, leaf=leaf, rows=BLOCK)


def zero_or_nan(a: mx.array) -> mx.array:
    """Zeros (..., 1, 1), NaN where the diagonal of a (..., N, N) has a zero or is not finite."""
    diagonal = a.flatten(-2)[..., :: a.shape[-1] + 1]
    return mx.sum((diagonal - diagonal) / diagonal, axis=-1, keepdims=True)[..., None]


def _finite_columns(x: mx.array) -> mx.array:
    """The columns that are finite, and others of NaN."""
    return x + mx.sum(x - x, axis=-2, keepdims=True)


# --- Metal -------------------------------------------------------------------------------------


def block_size(rows: int) -> int:
    """The power of two, at least 8 and at least `rows`, that kernels are compiled for."""
    return max(_SMALLEST_BLOCK, 1 << (rows - 1).bit_length())


def _launch(a: mx.array, b: mx.array, *, lower: bool, unit: bool) -> Launch:
    batch, rows, columns = b.shape
    threads = 32 if columns <= 32 else 64
    return Launch(
        grid=(batch * threads, math.ceil(columns / threads), 1),
        threadgroup=(threads, 1, 1),
        output_shapes=(b.shape,),
        output_dtypes=(mx.float32,),
        template=(("SIZE", block_size(rows)), ("LOWER", lower), ("UNIT", unit)),
    )


_KERNEL = Kernel(
    name="xlstm_solve_triangular",
    inputs=("a", "b"),
    outputs=("x",),
    launch=_launch,
    contiguous_inputs=False,
    body="""
    // a: (batch, rows, rows), b: (batch, rows, columns), of any strides; x like b, contiguous.
    // Column k of a is at k * PITCH; the odd pitch keeps its writes in different banks.
    constexpr uint PITCH = SIZE + 1;
    // The steps are a loop, and registers are indexed by constants within it: a loop over the steps
    // unrolled takes many seconds to compile. A step leaves out the chunks of finished rows.
    constexpr uint CHUNK = SIZE < 16 ? SIZE : 16;
    threadgroup float factor[SIZE * PITCH];
    const uint rows = b_shape[1];
    const uint columns = b_shape[2];
    const int64_t batch = threadgroup_position_in_grid.x;
    const uint own = thread_position_in_threadgroup.x;
    const uint threads = threads_per_threadgroup.x;
    const uint column = threadgroup_position_in_grid.y * threads + own;
    // Counted from the end, the rows and columns of an upper triangular matrix are of a lower one.
    const uint last = rows - 1;
    for (uint i = 0; i < SIZE; ++i) {
        const int64_t row = LOWER ? i : last - i;
        for (uint k = own; k <= metal::min(i, last); k += threads) {
            const int64_t element = batch * a_strides[0]
                + row * a_strides[1] + static_cast<int64_t>(LOWER ? k : last - k) * a_strides[2];
            factor[k * PITCH + i] = i < rows ? a[element] : 0.0f;
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (column < columns) {
        const int64_t right = batch * b_strides[0] + column * b_strides[2];
        // What is left of the column, and what its roundings took away.
        float rest[SIZE];
        float lost[SIZE];
        #pragma clang loop unroll(full)
        for (uint i = 0; i < SIZE; ++i) {
            const int64_t row = LOWER ? i : last - i;
            lost[i] = 0.0f;
            rest[i] = i < rows ? b[right + row * b_strides[1]] : 0.0f;
        }
        bool failed = false;
        #pragma unroll 1
        for (uint k = 0; k < rows; ++k) {
            float value = 0.0f;
            #pragma clang loop unroll(full)
            for (uint chunk = 0; chunk < SIZE; chunk += CHUNK) {
                if (k / CHUNK == chunk / CHUNK) {
                    #pragma clang loop unroll(full)
                    for (uint i = chunk; i < chunk + CHUNK; ++i) {
                        value = i == k ? rest[i] + lost[i] : value;
                    }
                }
            }
            if (!UNIT) {
                const float pivot = factor[k * PITCH + k];
                failed = failed || pivot == 0.0f || metal::isinf(pivot);
                value /= pivot;
            }
            failed = failed || !metal::isfinite(value);
            #pragma clang loop unroll(full)
            for (uint chunk = 0; chunk < SIZE; chunk += CHUNK) {
                if (k < chunk + CHUNK) {
                    #pragma clang loop unroll(full)
                    for (uint i = chunk; i < chunk + CHUNK; ++i) {
                        if (i > k) {
                            const float other = factor[k * PITCH + i];
                            const float left = metal::fma(-value, other, rest[i]);
                            lost[i] += metal::fma(-value, other, rest[i] - left);
                            rest[i] = left;
                        } else if (i == k) {
                            rest[i] = value;
                        }
                    }
                }
            }
        }
        #pragma clang loop unroll(full)
        for (uint i = 0; i < SIZE; ++i) {
            if (i < rows) {
                const int64_t row = LOWER ? i : last - i;
                x[(batch * rows + row) * columns + column] = failed ? NAN : rest[i];
            }
        }
    }
    """,
)
