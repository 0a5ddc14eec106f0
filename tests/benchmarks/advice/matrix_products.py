"""Square matrix products of float32: variants of tiles, barriers and registers.

Sizes are multiples of 64, so that no variant checks bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from tests.benchmarks.advice.piece import kernel
from xlstm_kernels.kernel import Kernel, Launch

_BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
_PLACE = """
    const uint size = a_shape[0];
    const uint x = thread_position_in_threadgroup.x;
    const uint y = thread_position_in_threadgroup.y;
    const uint row = thread_position_in_grid.y;
    const uint column = thread_position_in_grid.x;
"""


def matrices(size: int) -> Sequence[mx.array]:
    """Two (size, size) matrices."""
    return [mx.random.normal((size, size)) for _ in range(2)]


def _launch(a: mx.array, _b: mx.array, *, columns: int = 16, rows: int = 16) -> Launch:
    template = (("COLUMNS", columns), ("ROWS", rows))
    size = a.shape[0]
    return Launch((size, size, 1), (columns, rows, 1), (a.shape,), (a.dtype,), template)


def _product(name: str, body: str) -> Kernel:
    return Kernel(f"advice_product_{name}", ("a", "b"), ("c",), body, _launch)


#: A thread computes an element; a step takes 16 columns of A and 16 rows of B.
TILED = _product(
    "tiled",
    f"""{_PLACE}
    threadgroup float a_tile[ROWS][16];
    threadgroup float b_tile[16][COLUMNS];
    const uint own = y * COLUMNS + x;
    const uint first_row = threadgroup_position_in_grid.y * ROWS;
    const uint first_column = threadgroup_position_in_grid.x * COLUMNS;
    float sum = 0.0f;
    for (uint start = 0; start < size; start += 16) {{
        for (uint place = own; place < ROWS * 16; place += ROWS * COLUMNS) {{
            a_tile[place / 16][place % 16] =
                a[(first_row + place / 16) * size + start + place % 16];
        }}
        for (uint place = own; place < COLUMNS * 16; place += ROWS * COLUMNS) {{
            b_tile[place / COLUMNS][place % COLUMNS] =
                b[(start + place / COLUMNS) * size + first_column + place % COLUMNS];
        }}
        {_BARRIER}
        for (uint k = 0; k < 16; ++k) sum = metal::fma(a_tile[y][k], b_tile[k][x], sum);
        {_BARRIER}
    }}
    c[row * size + column] = sum;
    """,
)

#: A thread loads both operands of each product.
DIRECT = _product(
    "direct",
    f"""{_PLACE}
    float sum = 0.0f;
    for (uint k = 0; k < size; ++k) sum = metal::fma(a[row * size + k], b[k * size + column], sum);
    c[row * size + column] = sum;
    """,
)

#: Threads may load the next tile while others still read this one: a data race.
ONE_BARRIER = _product(
    "one_barrier",
    f"""{_PLACE}
    threadgroup float a_tile[16][16];
    threadgroup float b_tile[16][16];
    float sum = 0.0f;
    for (uint start = 0; start < size; start += 16) {{
        a_tile[y][x] = a[row * size + start + x];
        b_tile[y][x] = b[(start + y) * size + column];
        {_BARRIER}
        for (uint k = 0; k < 16; ++k) sum = metal::fma(a_tile[y][k], b_tile[k][x], sum);
    }}
    c[row * size + column] = sum;
    """,
)

#: Steps alternate between two tiles.
DOUBLE_BUFFER = _product(
    "double_buffer",
    f"""{_PLACE}
    threadgroup float a_tile[2][16][16];
    threadgroup float b_tile[2][16][16];
    float sum = 0.0f;
    for (uint start = 0; start < size; start += 16) {{
        const uint turn = (start / 16) % 2;
        a_tile[turn][y][x] = a[row * size + start + x];
        b_tile[turn][y][x] = b[(start + y) * size + column];
        {_BARRIER}
        for (uint k = 0; k < 16; ++k) sum = metal::fma(a_tile[turn][y][k], b_tile[turn][k][x], sum);
    }}
    c[row * size + column] = sum;
    """,
)


def _registers_launch(a: mx.array, _b: mx.array) -> Launch:
    size = a.shape[0]
    return Launch((size // 4, size // 4, 1), (16, 16, 1), (a.shape,), (a.dtype,))


#: A threadgroup computes 64 x 64 elements, a thread 4 x 4 of them.
REGISTERS = kernel("advice_product_registers", "a b", "c", _registers_launch)(f"""
    threadgroup float a_tile[64][17];
    threadgroup float b_tile[16][64];
    const uint size = a_shape[0];
    const uint x = thread_position_in_threadgroup.x;
    const uint y = thread_position_in_threadgroup.y;
    const uint own = y * 16 + x;
    const uint first_row = threadgroup_position_in_grid.y * 64;
    const uint first_column = threadgroup_position_in_grid.x * 64;
    float sums[4][4] = {{}};
    for (uint start = 0; start < size; start += 16) {{
        for (uint place = own; place < 1024; place += 256) {{
            a_tile[place / 16][place % 16] =
                a[(first_row + place / 16) * size + start + place % 16];
            b_tile[place / 64][place % 64] =
                b[(start + place / 64) * size + first_column + place % 64];
        }}
        {_BARRIER}
        for (uint k = 0; k < 16; ++k) {{
            #pragma clang loop unroll(full)
            for (uint i = 0; i < 4; ++i) {{
                const float left = a_tile[y + 16 * i][k];
                #pragma clang loop unroll(full)
                for (uint j = 0; j < 4; ++j)
                    sums[i][j] = metal::fma(left, b_tile[k][x + 16 * j], sums[i][j]);
            }}
        }}
        {_BARRIER}
    }}
    #pragma clang loop unroll(full)
    for (uint i = 0; i < 4; ++i) {{
        #pragma clang loop unroll(full)
        for (uint j = 0; j < 4; ++j)
            c[(first_row + y + 16 * i) * size + first_column + x + 16 * j] = sums[i][j];
    }}
    """)
