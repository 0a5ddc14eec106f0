"""Products of up to 16 rows in halves with a quantized matrix, on the GPU's matrix units.

The sum over a group of k is scale (sum x (16 + q)) + (bias - 16 scale) (sum x): both sums are
products of tiles of 8 x 8 whose factors have at most 11 bits, and so exact. 16 + q is a half or a
bfloat whose highest bits of mantissa are those of q as they are in memory. Numbers q of 8 bits go
as 16 + the low four bits, and 256 + 16 times the high ones.
"""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import PACKS

_DTYPES = (mx.float16, mx.bfloat16)
_CONSTANT_BELOW = 8
_TILES = 2  # of 8 columns of y, rows of W, of a simdgroup
_SIMDGROUPS = 8  # at most, of a threadgroup: each takes a part of the groups
_GROUPS = 2  # that a simdgroup loads together


def fit(x: mx.array, w: mx.array) -> bool:
    """Whether the kernel is for these; Metal has fewer than 8 numbers in constant memory."""
    return x.dtype in _DTYPES and x.size > x.shape[-1] and w.size >= _CONSTANT_BELOW


def _launch(
    x: mx.array, w: mx.array, scales: mx.array, _biases: mx.array, *, group_size: int, bits: int
) -> Launch:
    rows, outputs = x.size // x.shape[-1], w.shape[0]
    simdgroups = min(_SIMDGROUPS, math.ceil(scales.shape[1] / _GROUPS))
    threads = 32 * simdgroups
    return Launch(
        grid=(math.ceil(outputs / (8 * _TILES)) * threads, 1, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=((*x.shape[:-1], outputs),),
        output_dtypes=(x.dtype,),
        template=(
            ("T", x.dtype),
            ("ROWS", rows),
            ("TILES", _TILES),
            ("SIMDGROUPS", simdgroups),
            ("GROUPS", _GROUPS),
            ("GROUP_SIZE", group_size),
            ("BITS", bits),
        ),
    )


_HEADER = """
    // The row of a lane's two elements of a simdgroup_matrix, and the column of the first.
    inline uint2 xlstm_tile_place(uint lane) {
    #if defined(EMBER_ARCHITECTURE) && !defined(EMBER_APPLE_TILES)
        return uint2(lane / 4, lane % 4 * 2);
    #else
        return uint2((lane / 4 & 4) + lane / 2 % 4, (lane / 4 & 2) * 2 + lane % 2 * 2);
    #endif
    }
    template <bool WHOLE, uint COUNT, typename T>
    inline xlstm_words<T, COUNT> xlstm_fetch(const device T* from) {
        if (WHOLE) {
            return *reinterpret_cast<const device xlstm_words<T, COUNT>*>(from);
        }
        xlstm_words<T, COUNT> words;
        #pragma clang loop unroll(full)
        for (uint k = 0; k < COUNT; ++k) {
            words.put(k, from[k]);
        }
        return words;
    }
    // Of two halves as they are in memory.
    template <typename T>
    inline simdgroup_matrix<T, 8, 8> xlstm_tile(uint pair) {
        simdgroup_matrix<T, 8, 8> tile;
        tile.thread_elements()[0] = as_type<T>(static_cast<ushort>(pair));
        tile.thread_elements()[1] = as_type<T>(static_cast<ushort>(pair >> 16));
        return tile;
    }
"""

# Groups are read together, so that many loads are under way. Of a lane's four elements of k in two
# neighbouring columns, the row of a tile decides which: those that a shift brings to its place.
_SUM_GROUPS = """
    for (uint begin = part * GROUPS; begin < groups; begin += SIMDGROUPS * GROUPS) {
        xlstm_words<uint, WORDS> packed[GROUPS][TILES];
        xlstm_words<T, HALF> given[GROUPS][ROW_TILES][2][WORDS];
        float scale[GROUPS][TILES], bias[GROUPS][TILES];
        #pragma clang loop unroll(full)
        for (uint g = 0; g < GROUPS; ++g) {
            const uint group = metal::min(begin + g, groups - 1);
            #pragma clang loop unroll(full)
            for (uint i = 0; i < TILES; ++i) {
                packed[g][i] = xlstm_fetch<WHOLE, WORDS>(weights[i] + group * 4 * WORDS);
                scale[g][i] = static_cast<float>(scales[sources[i] + group]);
                bias[g][i] = static_cast<float>(biases[sources[i] + group]);
            }
            #pragma clang loop unroll(full)
            for (uint m = 0; m < ROW_TILES * 2; ++m) {
                #pragma clang loop unroll(full)
                for (uint word = 0; word < WORDS; ++word) {
                    given[g][m / 2][m % 2][word] = xlstm_fetch<WHOLE, HALF>(
                        rows[m] + group * GROUP_SIZE + word * FIELDS);
                }
            }
        }
        #pragma clang loop unroll(full)
        for (uint g = 0; g < GROUPS; ++g) {
            if (begin + g < groups) {
                simdgroup_matrix<float, 8, 8> products[TILES][ROW_TILES], totals[ROW_TILES];
                #pragma clang loop unroll(full)
                for (uint m = 0; m < ROW_TILES; ++m) {
                    totals[m] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
                    #pragma clang loop unroll(full)
                    for (uint i = 0; i < TILES; ++i) {
                        products[i][m] = totals[m];
                    }
                }
                #pragma clang loop unroll(full)
                for (uint k = 0; k < WORDS * HALF; ++k) {
                    const uint word = k / HALF, field = k % HALF;
                    simdgroup_matrix<T, 8, 8> right[ROW_TILES];
                    #pragma clang loop unroll(full)
                    for (uint m = 0; m < ROW_TILES; ++m) {
                        const uint a = given[g][m][0][word].at[field / 2];
                        const uint b = given[g][m][1][word].at[field / 2];
                        right[m] = xlstm_tile<T>(field % 2 == 0 ? (a & 0xffff) | (b << 16)
                                                                : (a >> 16) | (b & 0xffff0000));
                        simdgroup_multiply_accumulate(totals[m], ones, right[m], totals[m]);
                    }
                    #pragma clang loop unroll(full)
                    for (uint from = field * BITS; from < (field + 1) * BITS; from += 4) {
                        const uint first = from % BITS == 0 ? sixteen : sixteen + FOUR_BINADES;
                        #pragma clang loop unroll(full)
                        for (uint i = 0; i < TILES; ++i) {
                            const uint source = packed[g][i].at[word];
                            const uint moved =
                                from < TO ? source << (TO - from) : source >> (from - TO);
                            const auto left = xlstm_tile<T>((moved & (0x000f000f << TO)) | first);
                            #pragma clang loop unroll(full)
                            for (uint m = 0; m < ROW_TILES; ++m) {
                                simdgroup_multiply_accumulate(
                                    products[i][m], left, right[m], products[i][m]);
                            }
                        }
                    }
                }
                #pragma clang loop unroll(full)
                for (uint i = 0; i < TILES; ++i) {
                    const float offset = bias[g][i] - (BITS == 4 ? 16 : 272) * scale[g][i];
                    #pragma clang loop unroll(full)
                    for (uint m = 0; m < ROW_TILES; ++m) {
                        #pragma clang loop unroll(full)
                        for (uint j = 0; j < 2; ++j) {
                            const float product = products[i][m].thread_elements()[j];
                            const float total = totals[m].thread_elements()[j];
                            sums[i][m][j] = metal::fma(scale[g][i], product,
                                metal::fma(offset, total, sums[i][m][j]));
                        }
                    }
                }
            }
        }
    }"""

KERNEL = Kernel(
    name="xlstm_quantized_tiles",
    inputs=("x", "w", "scales", "biases"),
    outputs=("product",),
    launch=_launch,
    header=PACKS + _HEADER,
    body=f"""
    // x: ROWS of `inner`; w: (outputs, words); scales, biases: (outputs, groups); product: ROWS of
    // `outputs`; all contiguous. Of each group a lane takes WORDS words of a row of w.
    constexpr uint FIELDS = 32 / BITS;
    constexpr uint HALF = FIELDS / 2;  // fields whose partner is in the upper half of the word
    constexpr uint WORDS = GROUP_SIZE / 4 / FIELDS;
    constexpr uint ROW_TILES = (ROWS + 7) / 8;
    constexpr uint MANTISSA = is_same_v<T, half> ? 10 : 7;
    constexpr uint TO = MANTISSA - 4;
    constexpr uint FOUR_BINADES = 0x00040004 << MANTISSA;
    const uint words = w_shape[1];
    const uint outputs = w_shape[0];
    const uint groups = scales_shape[1];
    const uint inner = groups * GROUP_SIZE;
    const uint lane = thread_index_in_simdgroup;
    const uint part = simdgroup_index_in_threadgroup;
    const uint corner = threadgroup_position_in_grid.x * 8 * TILES;
    const uint row = xlstm_tile_place(lane).x;
    const uint column = xlstm_tile_place(lane).y;
    // Not known to the compiler, so that one instruction masks and adds it.
    const uint sixteen = (is_same_v<T, half> ? 0x4c004c00 : 0x41804180) + (words >> 31);
    const auto ones = xlstm_tile<T>(sixteen - FOUR_BINADES);
    const device uint* weights[TILES];
    size_t sources[TILES];
    #pragma clang loop unroll(full)
    for (uint i = 0; i < TILES; ++i) {{
        const size_t output = metal::min(corner + i * 8 + row, outputs - 1);
        weights[i] = w + output * words + column / 2 * WORDS;
        sources[i] = output * groups;
    }}
    const device T* rows[ROW_TILES * 2];
    #pragma clang loop unroll(full)
    for (uint m = 0; m < ROW_TILES * 2; ++m) {{
        const uint at = metal::min(m / 2 * 8 + column + m % 2, uint(ROWS - 1));
        rows[m] = x + static_cast<size_t>(at) * inner
            + row / 2 * (GROUP_SIZE / 4) + row % 2 * HALF;
    }}
    float2 sums[TILES][ROW_TILES] = {{}};
    if (xlstm_aligned<WORDS>(w) && xlstm_aligned<HALF>(x)) {{
        constexpr bool WHOLE = true;{_SUM_GROUPS}
    }} else {{
        constexpr bool WHOLE = false;{_SUM_GROUPS}
    }}
    threadgroup float parts[SIMDGROUPS][TILES * ROW_TILES * 2][32];
    #pragma clang loop unroll(full)
    for (uint i = 0; i < TILES * ROW_TILES * 2; ++i) {{
        parts[part][i][lane] = sums[i / 2 / ROW_TILES][i / 2 % ROW_TILES][i % 2];
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = part; i < TILES * ROW_TILES * 2; i += SIMDGROUPS) {{
        float total = 0.0f;
        for (uint other = 0; other < SIMDGROUPS; ++other) {{
            total += parts[other][i][lane];
        }}
        const uint output = corner + i / 2 / ROW_TILES * 8 + row;
        const uint at = i / 2 % ROW_TILES * 8 + column + i % 2;
        if (at < ROWS && output < outputs) {{
            product[static_cast<size_t>(at) * outputs + output] = static_cast<T>(total);
        }}
    }}
    """,
)
