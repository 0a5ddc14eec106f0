"""Rows of a chunk times a weight each, as what a chunk adds to the states is a product of them.

Forward, a key is weighted by what it is worth at the chunk's end; backward, a query by what the
state before the chunk is worth to it. With G, log i' of `gates.LogGates`,

    keys:     exp(log i'_s + G_L - G_s) k_s,        summed over the chunk: what n gains
    queries:  exp(G_t) q_t / sqrt(DK) / normaliser, summed by da_t: what dn gains

(Beck et al., "Tiled Flash Linear Attention", 2025, section 3).
"""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunked.chunks import weights_from_start, weights_to_end
from xlstm_kernels.mlstm.chunked.gates import LogGates
from xlstm_kernels.msl import PACKS, PAIRS


def weighted_keys(
    k: mx.array, gates: LogGates, dtype: mx.Dtype, *, backend: str
) -> tuple[mx.array, mx.array]:
    """Keys by their weight at the chunk's end, and their sum.

    Args:
        k: (B, NH, NC, L, DK), as it lies.
        gates: of the same steps.
        dtype: of the weighted keys.
        backend: as `executors.resolve` returned it.

    Returns:
        Keys (B, NH, NC, L, DK) in `dtype`, and sums (B, NH, NC, DK) float32.
    """
    if backend == executors.NATIVE:
        return _rows_and_sums(k, weights_to_end(gates), None, dtype)
    rows, sums = KEYS(k, *gates.exponents, backend=backend, dtype=dtype)
    return rows, sums


def weighted_queries(
    q: mx.array,
    gates: LogGates,
    inverse: mx.array,
    bias: mx.array,
    dtype: mx.Dtype,
    *,
    backend: str,
) -> tuple[mx.array, mx.array]:
    """Queries by the weight of the state that they read, over the normaliser; and sums by `bias`.

    Args:
        q: (B, NH, NC, L, DK), as it lies.
        gates: of the same steps.
        inverse: 1 / normaliser, (B, NH, NC, L) float32.
        bias: da, the gradient in the normaliser's sum, (B, NH, NC, L) float32.
        dtype: of the weighted queries.
        backend: as `executors.resolve` returned it.

    Returns:
        Queries (B, NH, NC, L, DK) in `dtype`, and sums (B, NH, NC, DK) float32.
    """
    if backend == executors.NATIVE:
        weights = weights_from_start(gates)
        weights = weights * mx.array(q.shape[-1] ** -0.5, dtype=weights.dtype)
        return _rows_and_sums(q, weights * inverse, weights * bias, dtype)
    rows, sums = QUERIES(q, gates.prefix, inverse, bias, backend=backend, dtype=dtype)
    return rows, sums


def _rows_and_sums(
    rows: mx.array, weights: mx.array, of_sum: mx.array | None, dtype: mx.Dtype
) -> tuple[mx.array, mx.array]:
    rows = rows.astype(mx.float32)
    weighted = rows * mx.expand_dims(weights, axis=-1)
    summed = mx.expand_dims(weights if of_sum is None else of_sum, axis=-2) @ rows
    return weighted.astype(dtype), mx.squeeze(summed, axis=-2)


# --- Metal -------------------------------------------------------------------------------------

# A threadgroup takes columns of a chunk, a thread a pack of them, of every GROUPS-th row.

_THREADS = 256
_FULL = 512  # threadgroups
_PACK_BYTES = 16


def _launch(rows: mx.array, *_others: mx.array, dtype: mx.Dtype) -> Launch:
    batch, heads, chunks, _, width = rows.shape
    pack = _PACK_BYTES // rows.dtype.size
    lanes = min(32, 1 << (math.ceil(width / pack) - 1).bit_length())
    columns = math.ceil(width / (lanes * pack)) * lanes
    few = batch * heads * chunks * columns // lanes < _FULL
    groups = (2 * _THREADS if few else _THREADS) // lanes
    return Launch(
        grid=(columns, chunks * groups, batch * heads),
        threadgroup=(lanes, groups, 1),
        output_shapes=(rows.shape, (batch, heads, chunks, width)),
        output_dtypes=(dtype, mx.float32),
        template=(("T", dtype), ("PACK", pack), ("LANES", lanes), ("GROUPS", groups)),
    )


_KEY_WEIGHTS = """
                const float2 here = float2(prefix[step], prefix_rest[step]);
                const float weight = xlstm_pair_exp(float2(admitted[step], admitted_rest[step]),
                    float2(xlstm_pair_difference(total, here), 0.0f));
                const float sum_weight = weight;"""
_QUERY_WEIGHTS = """
                const float read = root * metal::precise::exp(prefix[step]);
                const float weight = read * inverse[step];
                const float sum_weight = read * bias[step];"""


def _kernel(name: str, inputs: tuple[str, ...], beginning: str, weights: str) -> Kernel:
    return Kernel(
        name=name,
        inputs=inputs,
        outputs=("weighted", "sums"),
        launch=_launch,
        contiguous_inputs=False,
        header=PAIRS + PACKS,
        body=f"""
    // rows (B, NH, NC, L, D): strided; what belongs to steps (B, NH, NC, L): contiguous;
    // weighted (B, NH, NC, L, D), sums (B, NH, NC, D).
    constexpr uint ROWS = 4;  // under way together
    threadgroup float part[GROUPS * LANES * PACK];
    const uint lane = thread_position_in_threadgroup.x;
    const uint group = thread_position_in_threadgroup.y;
    const uint heads = rows_shape[1];
    const uint chunks = rows_shape[2];
    const uint steps = rows_shape[3];
    const uint width = rows_shape[4];
    const uint column = thread_position_in_grid.x * PACK;
    const uint left = column < width ? metal::min(width - column, uint(PACK)) : 0;
    const uint chunk = threadgroup_position_in_grid.y;
    const uint sequence = threadgroup_position_in_grid.z;
    const auto source = rows + (sequence / heads) * rows_strides[0]
        + (sequence % heads) * rows_strides[1] + chunk * rows_strides[2]
        + column * rows_strides[4];
    const size_t place = static_cast<size_t>(sequence) * chunks + chunk;
    const size_t first = place * steps;
    {beginning}
    xlstm_pack<float, PACK> sum = {{}};
    if (left > 0) {{
        for (uint begin = group; begin < steps; begin += ROWS * GROUPS) {{
            const uint present = (steps - begin + GROUPS - 1) / GROUPS;
            const auto packs = xlstm_read_packs<ROWS, PACK>(source + begin * rows_strides[3],
                GROUPS * rows_strides[3], rows_strides[4], present, left);
            // Of constant length, so that the packs stay in registers.
            #pragma clang loop unroll(full)
            for (uint i = 0; i < ROWS; ++i) {{
                if (i < present) {{
                    const size_t step = first + begin + i * GROUPS;{weights}
                    xlstm_pack<float, PACK> values;
                    #pragma clang loop unroll(full)
                    for (uint k = 0; k < PACK; ++k) {{
                        const float value = packs.number(i, k);
                        sum.at[k] += sum_weight * value;
                        values.at[k] = weight * value;
                    }}
                    xlstm_store(weighted + step * width + column, values, left);
                }}
            }}
        }}
    }}
    for (uint k = 0; k < PACK; ++k) {{
        part[(group * LANES + lane) * PACK + k] = sum.at[k];
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint member = group * LANES + lane;
    for (uint own = member; own < LANES * PACK; own += GROUPS * LANES) {{
        const uint at = threadgroup_position_in_grid.x * LANES * PACK + own;
        if (at < width) {{
            float total_of_column = 0.0f;
            for (uint other = 0; other < GROUPS; ++other) {{
                total_of_column += part[other * LANES * PACK + own];
            }}
            sums[place * width + at] = total_of_column;
        }}
    }}
    """,
    )


KEYS = _kernel(
    "xlstm_mlstm_weighted_keys",
    ("rows", "prefix", "prefix_rest", "admitted", "admitted_rest"),
    "const float2 total = float2(prefix[first + steps - 1], prefix_rest[first + steps - 1]);",
    _KEY_WEIGHTS,
)
QUERIES = _kernel(
    "xlstm_mlstm_weighted_queries",
    ("rows", "prefix", "inverse", "bias"),
    "const float root = metal::precise::rsqrt(static_cast<float>(width));",
    _QUERY_WEIGHTS,
)
