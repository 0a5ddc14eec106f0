"""Gradients of queries and keys through the states: what is read of a state, weighted.

With C, n before the chunk, dC, dn the gradients in those after it, w_t = 1 / normaliser, da_t the
gradient in its sum, and G, log i' of `gates.LogGates`,

    dq_t gets exp(G_t) (w_t C dh_t + da_t n) / sqrt(DK)
    dk_s gets exp(log i'_s + G_L - G_s) (dC v_s + dn)

The dot products of queries and keys with what they get are the gradients in those exponents.
"""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunked.chunks import lane_pack, weights_from_start, weights_to_end
from xlstm_kernels.mlstm.chunked.gates import LogGates
from xlstm_kernels.msl import PACKS, PAIRS

_ROWS = 8
_EACH = 4  # steps of a simdgroup


def read_by_queries(
    read: mx.array,
    n: mx.array,
    q: mx.array,
    gates: LogGates,
    inverse: mx.array,
    bias: mx.array,
    *,
    backend: str,
) -> tuple[mx.array, mx.array]:
    """The gradients that queries get, (B, NH, NC, L, DK), and their dot products with the queries.

    Args:
        read: dh C^T, (B, NH, NC, L, DK).
        n: (B, NH, NC, DK) float32.
        q: (B, NH, NC, L, DK), as it lies.
        gates: of the steps.
        inverse: w, (B, NH, NC, L) float32.
        bias: da, likewise.
        backend: as `executors.resolve` returned it.
    """
    if backend == executors.NATIVE:
        weights = weights_from_start(gates)
        weights = weights * mx.array(read.shape[-1] ** -0.5, dtype=weights.dtype)
        return _weighted(read, n, q, weights * inverse, weights * bias)
    gradients, dots = QUERIES(read, n, q, gates.prefix, inverse, bias, backend=backend)
    return gradients, dots


def read_by_keys(
    read: mx.array, n: mx.array, k: mx.array, gates: LogGates, *, backend: str
) -> tuple[mx.array, mx.array]:
    """The gradients that keys get, (B, NH, NC, L, DK), and their dot products with the keys.

    Args:
        read: v dC^T, (B, NH, NC, L, DK).
        n: dn, (B, NH, NC, DK) float32.
        k: (B, NH, NC, L, DK), as it lies.
        gates: of the steps.
        backend: as `executors.resolve` returned it.
    """
    if backend == executors.NATIVE:
        weights = weights_to_end(gates)
        return _weighted(read, n, k, weights, weights)
    gradients, dots = KEYS(read, n, k, *gates.exponents, backend=backend)
    return gradients, dots


def _weighted(
    read: mx.array, n: mx.array, rows: mx.array, of_read: mx.array, of_n: mx.array
) -> tuple[mx.array, mx.array]:
    weighted = read.astype(mx.float32) * mx.expand_dims(of_read, axis=-1)
    weighted = weighted + mx.expand_dims(of_n, axis=-1) * mx.expand_dims(n, axis=-2)
    return weighted.astype(read.dtype), mx.sum(weighted * rows.astype(mx.float32), axis=-1)


# --- Metal -------------------------------------------------------------------------------------

# A simdgroup takes some steps, a lane packs of all of them, so that n is read once.


def _launch(read: mx.array, *_others: mx.array) -> Launch:
    batch, heads, chunks, steps, width = read.shape
    return Launch(
        grid=(32, math.ceil(steps / (_ROWS * _EACH)) * _ROWS, batch * heads * chunks),
        threadgroup=(32, _ROWS, 1),
        output_shapes=(read.shape, read.shape[:4]),
        output_dtypes=(read.dtype, mx.float32),
        template=(("PACK", min(8, lane_pack(width))), ("EACH", _EACH)),
    )


_QUERY_WEIGHTS = """
            const float root = metal::precise::rsqrt(static_cast<float>(width));
            const float decay = root * metal::precise::exp(prefix[step]);
            of_read[i] = decay * inverse[step];
            of_n[i] = decay * bias[step];"""
_KEY_WEIGHTS = """
            const size_t last = place * steps + steps - 1;
            const float2 total = float2(prefix[last], prefix_rest[last]);
            const float2 here = float2(prefix[step], prefix_rest[step]);
            of_read[i] = xlstm_pair_exp(float2(admitted[step], admitted_rest[step]),
                float2(xlstm_pair_difference(total, here), 0.0f));
            of_n[i] = of_read[i];"""


def _kernel(name: str, inputs: tuple[str, ...], weights: str) -> Kernel:
    return Kernel(
        name=name,
        inputs=("read", "n_states", "rows", *inputs),
        outputs=("gradients", "dots"),
        launch=_launch,
        contiguous_inputs=False,
        header=PAIRS + PACKS,
        body=f"""
    // rows (B, NH, NC, L, DK): strided; all others contiguous: read, gradients (B, NH, NC, L, DK),
    // n_states (B, NH, NC, DK), dots and all others (B, NH, NC, L).
    const uint lane = thread_index_in_simdgroup;
    const uint heads = rows_shape[1];
    const uint chunks = rows_shape[2];
    const uint steps = rows_shape[3];
    const uint width = rows_shape[4];
    const uint row = thread_position_in_grid.y * EACH;
    const size_t place = threadgroup_position_in_grid.z;
    if (row >= steps) {{
        return;
    }}
    const uint present = metal::min(steps - row, uint(EACH));
    const auto source = rows + place / chunks / heads * rows_strides[0]
        + place / chunks % heads * rows_strides[1] + place % chunks * rows_strides[2]
        + row * rows_strides[3];
    const size_t first = place * steps + row;
    float of_read[EACH];
    float of_n[EACH];
    float dot[EACH] = {{}};
    #pragma clang loop unroll(full)
    for (uint i = 0; i < EACH; ++i) {{
        if (i < present) {{
            const size_t step = first + i;{weights}
        }}
    }}
    for (uint column = lane * PACK; column < width; column += 32 * PACK) {{
        const uint left = metal::min(width - column, uint(PACK));
        const auto n = xlstm_load<PACK>(n_states + place * width + column, 1, left);
        const auto reads = xlstm_read_packs<EACH, PACK>(
            read + first * width + column, width, 1, present, left);
        const auto owns = xlstm_read_packs<EACH, PACK>(source + column * rows_strides[4],
            rows_strides[3], rows_strides[4], present, left);
        #pragma clang loop unroll(full)
        for (uint i = 0; i < EACH; ++i) {{
            if (i < present) {{
                xlstm_pack<float, PACK> values;
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    values.at[k] = of_read[i] * reads.number(i, k) + of_n[i] * n.at[k];
                    dot[i] += values.at[k] * owns.number(i, k);
                }}
                xlstm_store(gradients + (first + i) * width + column, values, left);
            }}
        }}
    }}
    #pragma clang loop unroll(full)
    for (uint i = 0; i < EACH; ++i) {{
        const float whole = simd_sum(dot[i]);
        if (lane == 0 && i < present) {{
            dots[first + i] = whole;
        }}
    }}
    """,
    )


QUERIES = _kernel("xlstm_mlstm_read_by_queries", ("prefix", "inverse", "bias"), _QUERY_WEIGHTS)
KEYS = _kernel(
    "xlstm_mlstm_read_by_keys",
    ("prefix", "prefix_rest", "admitted", "admitted_rest"),
    _KEY_WEIGHTS,
)
