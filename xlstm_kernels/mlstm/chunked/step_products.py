"""Products of the steps of a chunk, each with the steps before it: q k^T, or dh v^T.

They cancel in the sums of the normaliser and of the gates' gradients, so that they are not rounded
to halves. MLX rounds a product of halves to them, and a kernel that does not reads half the bytes
of one whose operands are widened before.
"""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import PACKS
from xlstm_kernels.products import Products

_TILE = 64  # rows and columns of a threadgroup
_SIMDGROUPS = 4
_HALVES = (mx.bfloat16, mx.float16)


def step_products(rows: mx.array, columns: mx.array, wide: Products, *, backend: str) -> mx.array:
    """Multiply rows of steps t with columns of earlier steps s: (B, NH, NC, L, L) float32, t first.

    Args:
        rows: (B, NH, NC, L, D), as they lie.
        columns: likewise.
        wide: how MLX multiplies them where no kernel does.
        backend: as `executors.resolve` returned it.

    Returns:
        The products. By kernels, those beyond the diagonal, and beyond the tile that it crosses,
        have no value.
    """
    if backend == executors.NATIVE or rows.dtype not in _HALVES:
        return wide.operand(rows) @ wide.operand(columns).transposed
    (products,) = STEP_PRODUCTS(rows, columns, backend=backend)
    return products


# --- Metal -------------------------------------------------------------------------------------

# A threadgroup takes a tile that the diagonal crosses or one below it, each simdgroup a quarter.


def _launch(rows: mx.array, _columns: mx.array) -> Launch:
    batch, heads, chunks, steps, _ = rows.shape
    along = math.ceil(steps / _TILE)
    return Launch(
        grid=(32, _SIMDGROUPS * chunks * along * (along + 1) // 2, batch * heads),
        threadgroup=(32, _SIMDGROUPS, 1),
        output_shapes=((*rows.shape[:4], steps),),
        output_dtypes=(mx.float32,),
        template=(("T", rows.dtype), ("TILE", _TILE)),
    )


STEP_PRODUCTS = Kernel(
    name="xlstm_mlstm_step_products",
    inputs=("rows", "columns"),
    outputs=("products",),
    launch=_launch,
    contiguous_inputs=False,
    resident_threadgroups=2,
    header="#include <metal_simdgroup_matrix>" + PACKS,
    body="""
    // rows, columns (B, NH, NC, L, D): strided; products (B, NH, NC, L, L).
    constexpr uint DEPTH = 64;  // elements of a row that are in threadgroup memory
    constexpr uint PITCH = DEPTH + 8;  // so that eight rows lie in different banks
    constexpr uint PACK = 8;
    constexpr uint LANES = DEPTH / PACK;  // of a row
    constexpr uint ROWS = 128 / LANES;  // that are loaded at once
    constexpr uint LOADS = TILE / ROWS;
    threadgroup xlstm_pack<T, PACK> shared[2 * TILE * PITCH / PACK];
    threadgroup float edge[4 * 64];
    threadgroup T* row_tile = reinterpret_cast<threadgroup T*>(shared);
    threadgroup T* column_tile = row_tile + TILE * PITCH;
    const uint lane = thread_index_in_simdgroup;
    const uint simdgroup = simdgroup_index_in_threadgroup;
    const uint member = simdgroup * 32 + lane;
    const uint heads = rows_shape[1];
    const uint chunks = rows_shape[2];
    const uint steps = rows_shape[3];
    const uint width = rows_shape[4];
    const uint tiles_down = (steps + TILE - 1) / TILE;
    const uint tiles = tiles_down * (tiles_down + 1) / 2;
    const uint chunk = threadgroup_position_in_grid.y / tiles;
    const uint sequence = threadgroup_position_in_grid.z;
    uint tile_along = threadgroup_position_in_grid.y % tiles;
    uint tile_down = 0;
    while (tile_along > tile_down) {
        tile_down += 1;
        tile_along -= tile_down;
    }
    const uint first_row = tile_down * TILE;
    const uint first_column = tile_along * TILE;
    // The packs that this thread loads: of every ROWS-th row, and of every ROWS-th column.
    const uint own = member / LANES;
    const uint part = member % LANES * PACK;
    const auto row_source = rows + (sequence / heads) * rows_strides[0]
        + (sequence % heads) * rows_strides[1] + chunk * rows_strides[2]
        + (first_row + own) * rows_strides[3] + part * rows_strides[4];
    const auto column_source = columns + (sequence / heads) * columns_strides[0]
        + (sequence % heads) * columns_strides[1] + chunk * columns_strides[2]
        + (first_column + own) * columns_strides[3] + part * columns_strides[4];
    const uint rows_left =
        first_row + own < steps ? (steps - first_row - own + ROWS - 1) / ROWS : 0;
    const uint columns_left =
        first_column + own < steps ? (steps - first_column - own + ROWS - 1) / ROWS : 0;
    const uint top = simdgroup / 2 * 32;
    const uint side = simdgroup % 2 * 32;
    simdgroup_matrix<float, 8, 8> sums[4][4];
    #pragma clang loop unroll(full)
    for (uint i = 0; i < 4; ++i) {
        #pragma clang loop unroll(full)
        for (uint j = 0; j < 4; ++j) {
            sums[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        }
    }
    // The next elements are under way while those in threadgroup memory are multiplied.
    xlstm_packs<T, LOADS, PACK> of_rows;
    xlstm_packs<T, LOADS, PACK> of_columns;
    for (uint begin = 0; begin < width + DEPTH; begin += DEPTH) {
        if (begin > 0) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
            #pragma clang loop unroll(full)
            for (uint i = 0; i < LOADS; ++i) {
                const uint place = (own + i * ROWS) * PITCH + part;
                *reinterpret_cast<threadgroup xlstm_words<T, PACK>*>(row_tile + place) =
                    of_rows.at[i];
                *reinterpret_cast<threadgroup xlstm_words<T, PACK>*>(column_tile + place) =
                    of_columns.at[i];
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (begin < width) {
            const uint left = begin + part < width ? metal::min(width - begin - part, PACK) : 0;
            of_rows = xlstm_read_packs<LOADS, PACK>(row_source + begin * rows_strides[4],
                ROWS * rows_strides[3], rows_strides[4], left > 0 ? rows_left : 0, left);
            of_columns = xlstm_read_packs<LOADS, PACK>(column_source + begin * columns_strides[4],
                ROWS * columns_strides[3], columns_strides[4], left > 0 ? columns_left : 0, left);
        }
        if (begin > 0) {
            #pragma clang loop unroll(full)
            for (uint k = 0; k < DEPTH; k += 8) {
                simdgroup_matrix<T, 8, 8> a[4];
                simdgroup_matrix<T, 8, 8> b[4];
                #pragma clang loop unroll(full)
                for (uint i = 0; i < 4; ++i) {
                    simdgroup_load(a[i], row_tile + (top + 8 * i) * PITCH + k, PITCH);
                    simdgroup_load(
                        b[i], column_tile + (side + 8 * i) * PITCH + k, PITCH, ulong2(0), true);
                }
                #pragma clang loop unroll(full)
                for (uint i = 0; i < 4; ++i) {
                    #pragma clang loop unroll(full)
                    for (uint j = 0; j < 4; ++j) {
                        simdgroup_multiply_accumulate(sums[i][j], a[i], b[j], sums[i][j]);
                    }
                }
            }
        }
    }
    device float* target = products
        + (static_cast<size_t>(sequence) * chunks + chunk) * steps * steps;
    #pragma clang loop unroll(full)
    for (uint i = 0; i < 4; ++i) {
        #pragma clang loop unroll(full)
        for (uint j = 0; j < 4; ++j) {
            const uint row = first_row + top + 8 * i;
            const uint column = first_column + side + 8 * j;
            if (row + 8 <= steps && column + 8 <= steps) {
                simdgroup_store(sums[i][j], target + row * steps + column, steps);
            } else if (row < steps && column < steps) {
                simdgroup_store(sums[i][j], edge + simdgroup * 64, 8);
                simdgroup_barrier(mem_flags::mem_threadgroup);
                for (uint at = lane; at < 64; at += 32) {
                    if (row + at / 8 < steps && column + at % 8 < steps) {
                        target[(row + at / 8) * steps + column + at % 8] =
                            edge[simdgroup * 64 + at];
                    }
                }
                simdgroup_barrier(mem_flags::mem_threadgroup);
            }
        }
    }
    """,
)
