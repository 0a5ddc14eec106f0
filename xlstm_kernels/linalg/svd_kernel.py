"""The singular value decomposition in Metal: one-sided Jacobi, a threadgroup for each matrix.

Rotations of pairs of columns make all columns of a matrix orthogonal (Hestenes 1958; Golub and Van
Loan, Matrix Computations, section 8.6.3). Their norms are the singular values, the columns divided
by them the left singular vectors, and the product of the rotations is V. A simdgroup takes a pair
of columns at a time, and its lanes take the rows. Columns are not interchanged, as de Rijk does in
sequential sweeps: in the order of a tournament this needs twice the sweeps.

The matrix is in threadgroup memory, and so are the rotations where both fit.
"""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.linalg.jacobi import ROTATIONS

#: The most rows of which the kernel completes a basis. One threadgroup would take seconds for more.
MOST_COMPLETED = 512

# Numbers that the arrays in threadgroup memory hold: few classes, since each is compiled anew.
_HELD = (512, 2048, 4096, 7936)
_MOST_SIMDGROUPS = 16
# Quadratic convergence ends earlier; graded matrices of condition 1e6 take up to 25 sweeps.
_SWEEPS = 60


def fits(columns: int, rows: int, *, full: bool) -> bool:
    """Return True if the kernel takes matrices of so many columns, at most `rows`, and rows."""
    return rows * columns <= _HELD[-1] and not (full and rows > MOST_COMPLETED)


def kernel_for(columns: int, rows: int, *, vectors: bool) -> Kernel:
    """Return the kernel for matrices that `fits`, with `vectors` or for singular values alone."""
    squares = columns * columns if vectors else 0
    return _kernel(held_right=rows * columns + squares <= _HELD[-1], vectors=vectors)


_VECTORS = """
    // Rotates x and y, columns of the matrix, and u and v, columns of the product of the rotations.
    template <typename Column, typename Right>
    inline bool xlstm_orthogonalize(
        Column x, Column y, uint rows, Right u, Right v, uint columns, uint lane) {
        float xx = 0.0f;
        float xy = 0.0f;
        float yy = 0.0f;
        for (uint row = lane; row < rows; row += 32) {
            xx = metal::fma(x[row], x[row], xx);
            xy = metal::fma(x[row], y[row], xy);
            yy = metal::fma(y[row], y[row], yy);
        }
        xx = simd_sum(xx);
        xy = simd_sum(xy);
        yy = simd_sum(yy);
        const float scale = metal::precise::sqrt(xx) * metal::precise::sqrt(yy);
        // Of a column below 1e-15 nothing is left but rounding errors. Two are orthogonal if the
        // cosine of their angle is 2 epsilon.
        if (metal::min(xx, yy) <= 1e-30f || metal::abs(xy) <= 2.4e-7f * scale) {
            return false;
        }
        const float2 rotation = xlstm_rotation(xx, xy, yy);
        for (uint row = lane; row < rows; row += 32) {
            const float2 rotated = xlstm_rotated(x[row], y[row], rotation);
            x[row] = rotated.x;
            y[row] = rotated.y;
        }
        for (uint row = lane; row < columns; row += 32) {
            const float2 rotated = xlstm_rotated(u[row], v[row], rotation);
            u[row] = rotated.x;
            v[row] = rotated.y;
        }
        return true;
    }
"""


def _body(*, held_right: bool, vectors: bool) -> str:
    right = "held + rows * columns" if held_right else "work_right + base_right"
    return f"""
    // vectors: (batch, columns, rows) of any strides: the columns of each matrix.
    // left: (batch, LEFT, rows), values: (batch, columns), right: (batch, columns, columns): the
    // singular vectors, one to a row, and the values, descending.
    threadgroup float held[HELD];
    threadgroup float norms[{math.isqrt(_HELD[-1])}];
    threadgroup float partial[{_MOST_SIMDGROUPS}];
    const uint columns = vectors_shape[1];
    const uint rows = vectors_shape[2];
    const uint threads = threads_per_threadgroup.x;
    const uint simdgroups = threads / 32;
    const uint index = thread_position_in_threadgroup.x;
    const uint simdgroup = index / 32;
    const uint lane = thread_index_in_simdgroup;
    const int64_t batch = threadgroup_position_in_grid.x;
    const int64_t base_right = batch * columns * columns;
    const auto matrix = vectors + batch * vectors_strides[0];
    const auto w = held;
    const auto v = {right if vectors else "w"};
    const uint width = {"columns" if vectors else "0"};

    float largest = 0.0f;
    for (uint column = simdgroup; column < columns; column += simdgroups) {{
        const auto numbers = matrix + column * vectors_strides[1];
        for (uint row = lane; row < rows; row += 32) {{
            const float number = numbers[row * vectors_strides[2]];
            // Of what is not finite infinity: a NaN has no magnitude.
            largest = metal::max(
                largest, metal::isfinite(number) ? metal::abs(number) : INFINITY);
        }}
    }}
    largest = xlstm_group_max(largest, partial, simdgroup, simdgroups, lane);
    const bool whole = metal::isfinite(largest);
    const float power = xlstm_power_of_two(largest);
    for (uint column = simdgroup; column < columns; column += simdgroups) {{
        const auto numbers = matrix + column * vectors_strides[1];
        for (uint row = lane; row < rows; row += 32) {{
            const float number = numbers[row * vectors_strides[2]];
            w[column * rows + row] = whole ? number / power : 0.0f;
        }}
        for (uint row = lane; row < width; row += 32) {{
            v[column * width + row] = row == column ? 1.0f : 0.0f;
        }}
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);

    const uint circle = columns - 1 + columns % 2;
    for (uint sweep = 0; sweep < {_SWEEPS}; ++sweep) {{
        bool rotated = false;
        for (uint round = 0; round < circle; ++round) {{
            for (uint pair = simdgroup; pair <= circle / 2; pair += simdgroups) {{
                const uint2 of = xlstm_pair(round, pair, circle);
                if (of.y < columns) {{
                    rotated = xlstm_orthogonalize(w + of.x * rows, w + of.y * rows, rows,
                        v + of.x * width, v + of.y * width, width, lane) || rotated;
                }}
            }}
            threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        }}
        if (xlstm_group_max(
                rotated ? 1.0f : 0.0f, partial, simdgroup, simdgroups, lane) == 0.0f) {{
            break;
        }}
    }}

    for (uint column = simdgroup; column < columns; column += simdgroups) {{
        float square = 0.0f;
        for (uint row = lane; row < rows; row += 32) {{
            const float number = w[column * rows + row];
            square = metal::fma(number, number, square);
        }}
        square = simd_sum(square);
        if (lane == 0) {{
            norms[column] = metal::precise::sqrt(square);
        }}
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint rank = 0;
    for (uint column = 0; column < columns; ++column) {{
        rank += norms[column] > 1e-15f ? 1 : 0;
    }}
    for (uint column = simdgroup; column < columns; column += simdgroups) {{
        const float norm = norms[column];
        uint place = 0;
        for (uint other = 0; other < columns; ++other) {{
            const bool before = norms[other] > norm || (norms[other] == norm && other < column);
            place += before ? 1 : 0;
        }}
        if (lane == 0) {{
            values[batch * columns + place] = whole ? norm * power : NAN;
        }}
{_WRITTEN if vectors else ""}
    }}
{_COMPLETED if vectors else ""}
"""


_WRITTEN = """
        const auto row_left = left + (batch * LEFT + place) * rows;
        const auto row_right = right + base_right + place * columns;
        for (uint row = lane; row < rows && place < rank; row += 32) {
            row_left[row] = w[column * rows + row] / norm;
        }
        for (uint row = lane; row < columns; row += 32) {
            row_right[row] = whole ? v[column * columns + row] : NAN;
        }
"""

# Gram and Schmidt's, twice, of the unit vector that is farthest from the vectors so far: of its
# squared length 1 / rows is left at least, so that twice is enough (Kahan; Parlett, section 6.9).
_COMPLETED = """
    const auto basis = left + batch * LEFT * rows;
    for (uint place = whole ? rank : LEFT; place < LEFT; ++place) {
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        float farthest = -1.0f;
        uint start = 0;
        for (uint row = index; row < rows; row += threads) {
            float distance = 1.0f;
            for (uint k = 0; k < place; ++k) {
                distance -= basis[k * rows + row] * basis[k * rows + row];
            }
            start = distance > farthest ? row : start;
            farthest = metal::max(farthest, distance);
        }
        const float best = xlstm_group_max(farthest, partial, simdgroup, simdgroups, lane);
        // Of several rows as far as that, the last one.
        start = uint(xlstm_group_max(
            farthest == best ? float(start) : 0.0f, partial, simdgroup, simdgroups, lane));
        for (uint row = index; row < rows; row += threads) {
            basis[place * rows + row] = row == start ? 1.0f : 0.0f;
        }
        for (uint time = 0; time < 2; ++time) {
            threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
            for (uint k = simdgroup; k < place; k += simdgroups) {
                float product = 0.0f;
                for (uint row = lane; row < rows; row += 32) {
                    product = metal::fma(
                        basis[k * rows + row], basis[place * rows + row], product);
                }
                product = simd_sum(product);
                if (lane == 0) {
                    held[k] = product;
                }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
            for (uint row = index; row < rows; row += threads) {
                float number = basis[place * rows + row];
                for (uint k = 0; k < place; ++k) {
                    number = metal::fma(-held[k], basis[k * rows + row], number);
                }
                basis[place * rows + row] = number;
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        // Each simdgroup adds up all of the squares: that needs one barrier.
        float square = 0.0f;
        for (uint row = lane; row < rows; row += 32) {
            square = metal::fma(basis[place * rows + row], basis[place * rows + row], square);
        }
        square = simd_sum(square);
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        for (uint row = index; row < rows; row += threads) {
            basis[place * rows + row] /= metal::precise::sqrt(square);
        }
    }
    for (uint at = index; at < LEFT * rows && !whole; at += threads) {
        basis[at] = NAN;
    }
"""


@functools.cache
def _kernel(*, held_right: bool, vectors: bool) -> Kernel:
    work = ("work_right",) if vectors and not held_right else ()
    flags = ("right" if held_right else "", "vectors" if vectors else "")
    return Kernel(
        name="_".join(("xlstm_svd", *filter(None, flags))),
        inputs=("vectors",),
        outputs=("values", *(("left", "right") if vectors else ()), *work),
        body=_body(held_right=held_right, vectors=vectors),
        launch=functools.partial(_launch, held_right=held_right, vectors=vectors),
        header=ROTATIONS + _VECTORS,
        contiguous_inputs=False,
    )


def _launch(matrices: mx.array, *, held_right: bool, vectors: bool, full: bool = False) -> Launch:
    batch, columns, rows = matrices.shape
    threads = 32 * min(max(-(-columns // 2), 1), _MOST_SIMDGROUPS)
    if not vectors:
        return Launch.of_groups(batch, threads, (batch, columns), HELD=_held(rows * columns))
    square = (batch, columns, columns)
    count = rows if full else columns
    shapes = [(batch, columns), (batch, count, rows), square, *[square] * (not held_right)]
    # Gram and Schmidt's coefficients use the memory of the matrix.
    needed = max(columns * (rows + columns * held_right), count)
    return Launch.of_groups(batch, threads, *shapes, HELD=_held(needed), LEFT=count)


def _held(numbers: int) -> int:
    return next(size for size in _HELD if numbers <= size)
