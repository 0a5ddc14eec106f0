"""The eigendecomposition of symmetric matrices in Metal: Jacobi, a threadgroup for each matrix.

A rotation of two rows and the same columns makes their element zero (Golub and Van Loan, Matrix
Computations, section 8.5). In a round of a tournament half as many rotations as rows are
independent: first a thread computes each, then blocks of 2 x 2 numbers, one for each two of them,
are rotated at once. The product of the rotations has the eigenvectors.

The matrix is in threadgroup memory, and so are the eigenvectors where both fit.
"""

from __future__ import annotations

import functools

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.linalg.jacobi import ROTATIONS

#: The most rows that the kernel takes: those of a matrix that fits threadgroup memory.
MOST_ROWS = 88

# Numbers that the arrays in threadgroup memory hold: few classes, since each is compiled anew.
_HELD = (512, 2048, 4096, 7744)
_MOST_THREADS = 512
# Quadratic convergence ends earlier, after 6 to 12.
_SWEEPS = 60


def kernel_for(rows: int, *, vectors: bool) -> Kernel:
    """Return the kernel for 1 to `MOST_ROWS` rows, with `vectors` or for eigenvalues alone."""
    numbers = _even(rows) ** 2
    held_vectors = numbers + (rows * rows if vectors else 0) <= _HELD[-1]
    return _kernel(held_vectors=held_vectors, vectors=vectors)


def _even(rows: int) -> int:
    return rows + rows % 2


def _body(*, held_vectors: bool, vectors: bool) -> str:
    product = "held + side * side" if held_vectors else "work_vectors + base"
    return f"""
    // matrices: (batch, rows, rows) of any strides; the lower triangle counts.
    // values: (batch, rows), ascending; vectors: (batch, rows, rows), an eigenvector to a row.
    threadgroup float held[HELD];
    threadgroup float2 rotations[{MOST_ROWS // 2}];
    threadgroup float partial[{_MOST_THREADS // 32}];
    const uint rows = matrices_shape[1];
    const uint pairs = (rows + 1) / 2;
    const uint side = 2 * pairs;  // an odd number of rows has a zero one more
    const uint threads = threads_per_threadgroup.x;
    const uint index = thread_position_in_threadgroup.x;
    const uint simdgroups = threads / 32;
    const uint simdgroup = index / 32;
    const uint lane = thread_index_in_simdgroup;
    const uint first = index / WIDTH;
    const uint step = threads / WIDTH;
    const uint own = index % WIDTH;
    const int64_t batch = threadgroup_position_in_grid.x;
    const int64_t base = batch * rows * rows;
    const auto given = matrices + batch * matrices_strides[0];
    const auto a = held;
    const auto v = {product if vectors else "a"};
    const uint width = {"rows" if vectors else "0"};

    float largest = 0.0f;
    for (uint row = first; row < rows; row += step) {{
        for (uint column = own; column <= row; column += WIDTH) {{
            const float number = given[row * matrices_strides[1] + column * matrices_strides[2]];
            // Of what is not finite infinity: a NaN has no magnitude.
            largest = metal::max(
                largest, metal::isfinite(number) ? metal::abs(number) : INFINITY);
        }}
    }}
    largest = xlstm_group_max(largest, partial, simdgroup, simdgroups, lane);
    const bool whole = metal::isfinite(largest);
    const float power = xlstm_power_of_two(largest);
    for (uint row = first; row < side; row += step) {{
        for (uint column = own; column < side; column += WIDTH) {{
            const uint low = metal::max(row, column);
            const uint high = metal::min(row, column);
            a[row * side + column] = whole && low < rows
                ? given[low * matrices_strides[1] + high * matrices_strides[2]] / power : 0.0f;
        }}
        for (uint column = own; column < width && row < width; column += WIDTH) {{
            v[row * width + column] = row == column ? 1.0f : 0.0f;
        }}
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);

    const uint circle = side - 1;
    for (uint sweep = 0; sweep < {_SWEEPS}; ++sweep) {{
        bool rotated = false;
        for (uint round = 0; round < circle; ++round) {{
            for (uint pair = index; pair < pairs; pair += threads) {{
                const uint2 of = xlstm_pair(round, pair, circle);
                const float element = a[of.x * side + of.y];
                // The largest number of the matrix is between 1 and 2.
                const bool turned = metal::abs(element) > {_NEGLIGIBLE};
                rotations[pair] = turned
                    ? xlstm_rotation(a[of.x * side + of.x], element, a[of.y * side + of.y])
                    : float2(0.0f, 0.0f);
                rotated = rotated || turned;
            }}
            threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
            for (uint pair = first; pair < pairs; pair += step) {{
                const uint2 of = xlstm_pair(round, pair, circle);
                const float2 rotation = rotations[pair];
                const auto upper = a + of.x * side;
                const auto lower = a + of.y * side;
                for (uint other = own; other < pairs; other += WIDTH) {{
                    const uint2 at = xlstm_pair(round, other, circle);
                    xlstm_rotate_block(
                        upper, lower, at, rotation, rotations[other], other == pair);
                }}
                for (uint row = own; row < width && rotation.x != 0.0f; row += WIDTH) {{
                    const float2 turned = xlstm_rotated(
                        v[of.x * width + row], v[of.y * width + row], rotation);
                    v[of.x * width + row] = turned.x;
                    v[of.y * width + row] = turned.y;
                }}
            }}
            threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        }}
        if (xlstm_group_max(
                rotated ? 1.0f : 0.0f, partial, simdgroup, simdgroups, lane) == 0.0f) {{
            break;
        }}
    }}

    for (uint row = first; row < rows; row += step) {{
        const float value = a[row * side + row];
        uint place = 0;
        for (uint other = 0; other < rows; ++other) {{
            const float number = a[other * side + other];
            place += number < value || (number == value && other < row) ? 1 : 0;
        }}
        if (own == 0) {{
            values[batch * rows + place] = whole ? value * power : NAN;
        }}
{_WRITTEN if vectors else ""}
    }}
"""


# Elements this small change no eigenvalue of a matrix of norm 1 by more than its rounding.
_NEGLIGIBLE = "1e-8f"

_WRITTEN = """
        for (uint column = own; column < rows; column += WIDTH) {
            vectors[base + place * rows + column] = whole ? v[row * rows + column] : NAN;
        }
"""


@functools.cache
def _kernel(*, held_vectors: bool, vectors: bool) -> Kernel:
    work = ("work_vectors",) if vectors and not held_vectors else ()
    flags = ("all" if held_vectors else "", "vectors" if vectors else "")
    return Kernel(
        name="_".join(("xlstm_eigh", *filter(None, flags))),
        inputs=("matrices",),
        outputs=("values", *(("vectors",) if vectors else ()), *work),
        body=_body(held_vectors=held_vectors, vectors=vectors),
        launch=functools.partial(_launch, held_vectors=held_vectors, vectors=vectors),
        header=ROTATIONS,
        contiguous_inputs=False,
    )


def _launch(matrices: mx.array, *, held_vectors: bool, vectors: bool) -> Launch:
    batch, rows, _ = matrices.shape
    side = _even(rows)
    numbers = side * side + (rows * rows if vectors and held_vectors else 0)
    shapes = [(batch, rows), *[(batch, rows, rows)] * (vectors * (2 - held_vectors))]
    width = min(1 << max(side // 2 - 1, 0).bit_length(), 32)
    threads = min(max(32 * -(-side // 2 * width // 32), 32), _MOST_THREADS)
    held = next(size for size in _HELD if numbers <= size)
    return Launch.of_groups(batch, threads, *shapes, HELD=held, WIDTH=width)
