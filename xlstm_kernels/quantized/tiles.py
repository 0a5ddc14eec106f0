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
# Up to so many columns of y (rows of W), how many tiles of 8 x 8 products a simdgroup has, and in
# how many parts the simdgroups of a threadgroup share the groups. Threadgroups are few, or small.
_SHARES = ((4095, 2, 16), (8191, 4, 16), (math.inf, 4, 8))


def fit(x: mx.array, w: mx.array) -> bool:
    """Return whether the kernel takes these: Metal has a tiny matrix in constant memory."""
    return x.dtype in _DTYPES and x.size > x.shape[-1] and w.size >= _CONSTANT_BELOW


def _launch(
    x: mx.array, w: mx.array, scales: mx.array, _biases: mx.array, *, group_size: int, bits: int
) -> Launch:
    rows, outputs = x.size // x.shape[-1], w.shape[0]
    products, parts = next(share[1:] for share in _SHARES if outputs <= share[0])
    count = products // math.ceil(rows / 8)
    simdgroups = min(parts, scales.shape[1])
    return Launch.of_groups(
        math.ceil(outputs / (8 * count)),
        32 * simdgroups,
        (*x.shape[:-1], outputs),
        dtype=x.dtype,
        T=x.dtype,
        ROWS=rows,
        TILES=count,
        SIMDGROUPS=simdgroups,
        GROUP_SIZE=group_size,
        BITS=bits,
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
    // The part of a group of weights that a lane has.
    template <uint WORDS>
    struct xlstm_weights {
        xlstm_words<uint, WORDS> packed;
        float scale, bias;
    };
    // Of two halves as they are in memory.
    template <typename T>
    inline simdgroup_matrix<T, 8, 8> xlstm_tile(uint pair) {
        simdgroup_matrix<T, 8, 8> tile;
        tile.thread_elements()[0] = as_type<T>(static_cast<ushort>(pair));
        tile.thread_elements()[1] = as_type<T>(static_cast<ushort>(pair >> 16));
        return tile;
    }
"""

_LOAD_WEIGHTS = """{
            xlstm_fetch<WHOLE, WORDS>(weights[i] + following * 4 * WORDS),
            static_cast<float>(scales[sources[i] + following]),
            static_cast<float>(biases[sources[i] + following])};"""

# Of a lane's four elements of k in two neighbouring columns, the row of a tile decides which: those
# that a shift brings to its place. Weights are loaded one round ahead.
_SUM_GROUPS = f"""
    xlstm_weights<WORDS> next[TILES];
    uint following = metal::min(part, groups - 1);
    #pragma clang loop unroll(full)
    for (uint i = 0; i < TILES; ++i) {{
        next[i] = {_LOAD_WEIGHTS}
    }}
    for (uint group = part; group < groups; group += SIMDGROUPS) {{
        xlstm_words<T, HALF> given[ROW_TILES][2][WORDS];
        #pragma clang loop unroll(full)
        for (uint m = 0; m < ROW_TILES * 2; ++m) {{
            #pragma clang loop unroll(full)
            for (uint word = 0; word < WORDS; ++word) {{
                given[m / 2][m % 2][word] =
                    xlstm_fetch<WHOLE, HALF>(rows[m] + group * GROUP_SIZE + word * FIELDS);
            }}
        }}
        following = metal::min(group + SIMDGROUPS, groups - 1);
        xlstm_weights<WORDS> own[TILES];
        #pragma clang loop unroll(full)
        for (uint i = 0; i < TILES; ++i) {{
            own[i] = next[i];
            next[i] = {_LOAD_WEIGHTS}
        }}
        simdgroup_barrier(mem_flags::mem_none);  // No load is moved across.
        simdgroup_matrix<float, 8, 8> products[TILES][ROW_TILES], totals[ROW_TILES];
        #pragma clang loop unroll(full)
        for (uint m = 0; m < ROW_TILES; ++m) {{
            totals[m] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
            #pragma clang loop unroll(full)
            for (uint i = 0; i < TILES; ++i) {{
                products[i][m] = totals[m];
            }}
        }}
        #pragma clang loop unroll(full)
        for (uint k = 0; k < WORDS * HALF; ++k) {{
            const uint word = k / HALF, field = k % HALF;
            simdgroup_matrix<T, 8, 8> right[ROW_TILES];
            #pragma clang loop unroll(full)
            for (uint m = 0; m < ROW_TILES; ++m) {{
                const uint a = given[m][0][word].at[field / 2];
                const uint b = given[m][1][word].at[field / 2];
                right[m] = xlstm_tile<T>(field % 2 == 0 ? (a & 0xffff) | (b << 16)
                                                        : (a >> 16) | (b & 0xffff0000));
                simdgroup_multiply_accumulate(totals[m], ones, right[m], totals[m]);
            }}
            #pragma clang loop unroll(full)
            for (uint from = field * BITS; from < (field + 1) * BITS; from += 4) {{
                const uint first = from % BITS == 0 ? sixteen : sixteen + FOUR_BINADES;
                #pragma clang loop unroll(full)
                for (uint i = 0; i < TILES; ++i) {{
                    const uint source = own[i].packed.at[word];
                    const uint moved = from < TO ? source << (TO - from) : source >> (from - TO);
                    const auto left = xlstm_tile<T>((moved & (0x000f000f << TO)) | first);
                    #pragma clang loop unroll(full)
                    for (uint m = 0; m < ROW_TILES; ++m) {{
                        simdgroup_multiply_accumulate(
                            products[i][m], left, right[m], products[i][m]);
                    }}
                }}
            }}
        }}
        #pragma clang loop unroll(full)
        for (uint i = 0; i < TILES; ++i) {{
            const float offset = own[i].bias - (BITS == 4 ? 16 : 272) * own[i].scale;
            #pragma clang loop unroll(full)
            for (uint m = 0; m < ROW_TILES * 2; ++m) {{
                const float product = products[i][m / 2].thread_elements()[m % 2];
                const float total = totals[m / 2].thread_elements()[m % 2];
                sums[i][m] = metal::fma(
                    own[i].scale, product, metal::fma(offset, total, sums[i][m]));
            }}
        }}
    }}"""

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
    float sums[TILES][ROW_TILES * 2] = {{}};
    if (xlstm_aligned<WORDS>(w) && xlstm_aligned<HALF>(x)) {{
        constexpr bool WHOLE = true;{_SUM_GROUPS}
    }} else {{
        constexpr bool WHOLE = false;{_SUM_GROUPS}
    }}
    threadgroup float parts[SIMDGROUPS][TILES * ROW_TILES * 2][32];
    #pragma clang loop unroll(full)
    for (uint i = 0; i < TILES * ROW_TILES * 2; ++i) {{
        parts[part][i][lane] = sums[i / (ROW_TILES * 2)][i % (ROW_TILES * 2)];
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
