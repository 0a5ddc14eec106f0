"""One-sided Jacobi by blocks, for matrices beyond the kernels of `eigh` and `svd`.

Rotations make all rows of a matrix orthogonal (Hestenes 1958), by pairs of blocks of 16 rows, in
the order of a tournament (Bečka, Okša and Vajteršic 2002): a threadgroup takes a pair. It computes
the products of its 32 rows, diagonalizes them by one sweep of Jacobi, and applies the product of
these rotations to the rows. A round of the tournament is one launch. A launch does nothing for a
matrix of which the sweep before rotated nothing much: no host waits for that.
"""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.linalg.arithmetic import replayed
from xlstm_kernels.linalg.jacobi import ROTATIONS

_BLOCK = 16
_THREADS = 512
# Random matrices of 256 to 1,024 rows take 9 to 13.
_SWEEPS = 16
#: Cosines of rows that the last sweep rotates at most: a few times those of rounding errors.
_LAST = "2e-6f"
_NEGLIGIBLE = "1e-7f"  # a smaller cosine is one of rounding errors


def orthogonal_rows(matrices: mx.array, *, width: int, backend: str) -> mx.array:
    """Rotate the rows of matrices (B, N, L) until their first `width` elements are orthogonal.

    The largest numbers are near 1. The other elements of a row are rotated with the first ones.
    """
    rows = matrices.shape[1]
    blocks = 2 * math.ceil(rows / (2 * _BLOCK))
    padded = mx.pad(matrices, [(0, 0), (0, blocks * _BLOCK - rows), (0, 0)])
    numbers = (mx.array(number, dtype=mx.int32) for number in (width, *range(blocks - 1)))
    rotated: mx.array = replayed(_by_sweeps, backend)(padded, *numbers)
    return rotated[:, :rows]


def _by_sweeps(rotated: mx.array, width: mx.array, *rounds: mx.array, backend: str) -> mx.array:
    busy = mx.ones((rotated.shape[0], rotated.shape[1] // (2 * _BLOCK)))
    for _ in range(_SWEEPS):
        before = busy
        for number in rounds:
            rotated, busy = _KERNEL(rotated, before, busy, number, width, backend=backend)
    return rotated


def _launch(matrices: mx.array, before: mx.array, *_others: mx.array) -> Launch:
    return Launch.of_groups(before.size, _THREADS, matrices.shape, before.shape)


_KERNEL = Kernel(
    name="xlstm_block_jacobi",
    inputs=("matrices", "before", "busy", "round", "width"),
    outputs=("rotated", "rotated_busy"),
    launch=_launch,
    header=ROTATIONS,
    body=f"""
    // matrices, rotated: (batch, rows, length); before, busy, rotated_busy: (batch, pairs), 1 for a
    // pair of blocks that the sweep before, or this one so far, rotated by more than rounding
    // errors; round, width: 0-d.
    constexpr uint BLOCK = {_BLOCK};
    constexpr uint SIDE = 2 * BLOCK;
    constexpr uint TILE = 8;
    constexpr uint TILES = SIDE / TILE;
    threadgroup float gram[SIDE][SIDE + 1];
    threadgroup float turn[SIDE][SIDE + 1];  // a column for each row after the rotations
    threadgroup float4 factors[SIDE][SIDE / 4];
    threadgroup float2 rotations[BLOCK];
    threadgroup float moved[BLOCK];
    const uint length = matrices_shape[2];
    const uint pairs = before_shape[1];
    const uint own = thread_position_in_threadgroup.x;
    const uint lane = thread_index_in_simdgroup;
    const uint part = simdgroup_index_in_threadgroup;
    const uint place = threadgroup_position_in_grid.x;
    const int64_t matrix = place / pairs;
    const uint2 blocks = xlstm_pair(round, place % pairs, 2 * pairs - 1);
    const int64_t base = matrix * pairs * SIDE * length;
    const auto given = matrices + base;
    const auto result = rotated + base;
    const uint upper = blocks.x * BLOCK;
    const uint lower = blocks.y * BLOCK - BLOCK;  // of the rows from BLOCK on

    float any = 0.0f;
    for (uint pair = lane; pair < pairs; pair += 32) {{
        any = metal::max(any, before[matrix * pairs + pair]);
    }}
    const bool finished = simd_max(any) == 0.0f;
    if (!finished) {{
        const uint first = part / TILES * TILE;
        const uint second = part % TILES * TILE;
        if (first <= second) {{
            float sums[TILE][TILE] = {{}};
            for (uint i = lane; i < static_cast<uint>(width); i += 32) {{
                float x[TILE];
                float y[TILE];
                #pragma clang loop unroll(full)
                for (uint k = 0; k < TILE; ++k) {{
                    const uint row = first + k;
                    const uint other = second + k;
                    x[k] = given[(row + (row < BLOCK ? upper : lower)) * length + i];
                    y[k] = given[(other + (other < BLOCK ? upper : lower)) * length + i];
                }}
                #pragma clang loop unroll(full)
                for (uint k = 0; k < TILE; ++k) {{
                    #pragma clang loop unroll(full)
                    for (uint l = 0; l < TILE; ++l) {{
                        sums[k][l] = metal::fma(x[k], y[l], sums[k][l]);
                    }}
                }}
            }}
            #pragma clang loop unroll(full)
            for (uint k = 0; k < TILE; ++k) {{
                #pragma clang loop unroll(full)
                for (uint l = 0; l < TILE; ++l) {{
                    const float sum = simd_sum(sums[k][l]);
                    if (lane == 0) {{
                        gram[first + k][second + l] = sum;
                        if (first != second) {{
                            gram[second + l][first + k] = sum;
                        }}
                    }}
                }}
            }}
        }}
        for (uint at = own; at < SIDE * SIDE; at += {_THREADS}) {{
            turn[at / SIDE][at % SIDE] = at / SIDE == at % SIDE ? 1.0f : 0.0f;
        }}
        if (own < BLOCK) {{
            moved[own] = 0.0f;
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint step = 0; step + 1 < SIDE; ++step) {{
            if (own < BLOCK) {{
                const uint2 of = xlstm_pair(step, own, SIDE - 1);
                const float xx = gram[of.x][of.x];
                const float yy = gram[of.y][of.y];
                const float xy = gram[of.x][of.y];
                const float size = metal::precise::sqrt(xx) * metal::precise::sqrt(yy);
                rotations[own] = metal::abs(xy) > {_NEGLIGIBLE} * size
                    ? xlstm_rotation(xx, xy, yy) : float2(0.0f, 0.0f);
                moved[own] = metal::abs(xy) > {_LAST} * size ? 1.0f : moved[own];
            }}
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (own < BLOCK * BLOCK) {{
                const uint2 of = xlstm_pair(step, own / BLOCK, SIDE - 1);
                const uint2 at = xlstm_pair(step, own % BLOCK, SIDE - 1);
                xlstm_rotate_block(
                    gram[of.x], gram[of.y], at, rotations[own / BLOCK], rotations[own % BLOCK],
                    of.x == at.x);
            }} else {{
                for (uint at = own - BLOCK * BLOCK; at < BLOCK * SIDE; at += BLOCK * BLOCK) {{
                    const uint2 of = xlstm_pair(step, at / SIDE, SIDE - 1);
                    const uint row = at % SIDE;
                    const float2 turned = xlstm_rotated(
                        turn[of.x][row], turn[of.y][row], rotations[at / SIDE]);
                    turn[of.x][row] = turned.x;
                    turn[of.y][row] = turned.y;
                }}
            }}
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }}
        if (own < SIDE * SIDE / 4) {{
            const threadgroup float* four = &turn[own / (SIDE / 4)][own % (SIDE / 4) * 4];
            factors[own / (SIDE / 4)][own % (SIDE / 4)] =
                float4(four[0], four[1], four[2], four[3]);
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }}
    for (uint i = own; i < length; i += {_THREADS}) {{
        float4 x[SIDE / 4];
        #pragma clang loop unroll(full)
        for (uint k = 0; k < SIDE / 4; ++k) {{
            const auto rows = given + (4 * k + (4 * k < BLOCK ? upper : lower)) * length + i;
            x[k] = float4(rows[0], rows[length], rows[2 * length], rows[3 * length]);
        }}
        for (uint row = 0; row < SIDE; ++row) {{
            const uint at = (row + (row < BLOCK ? upper : lower)) * length + i;
            float4 sums = float4(0.0f);
            #pragma clang loop unroll(full)
            for (uint k = 0; k < SIDE / 4; ++k) {{
                sums = metal::fma(finished ? float4(0.0f) : factors[row][k], x[k], sums);
            }}
            result[at] = finished ? given[at] : (sums.x + sums.y) + (sums.z + sums.w);
        }}
    }}
    if (part == 0) {{
        const float rounds = round > 0 ? busy[place] : 0.0f;
        const float most = simd_max(!finished && lane < BLOCK ? moved[lane] : 0.0f);
        if (lane == 0) {{
            rotated_busy[place] = finished ? 0.0f : metal::max(most, rounds);
        }}
    }}
    """,
)
