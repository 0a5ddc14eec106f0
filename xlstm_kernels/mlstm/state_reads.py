"""Gradients of queries and keys through the states: what is read of a state, weighted.

With C, n before the chunk, dC, dn the gradients in those after it, w_t = 1 / normaliser, da_t the
gradient in its sum, and G, log i' of `gates.LogGates`,

    dq_t gets exp(G_t) (w_t C dh_t + da_t n) / sqrt(DK)
    dk_s gets exp(log i'_s + G_L - G_s) (dC v_s + dn)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunks import weights_from_start, weights_to_end
from xlstm_kernels.msl import PAIRS

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.gates import LogGates

_ROWS = 8


def read_by_queries(
    read: mx.array,
    n: mx.array,
    gates: LogGates,
    inverse: mx.array,
    bias: mx.array,
    *,
    backend: str,
) -> mx.array:
    """What queries get, (B, NH, NC, L, DK) in the dtype of `read`.

    Args:
        read: dh C^T, (B, NH, NC, L, DK).
        n: (B, NH, NC, DK) float32.
        gates: of the steps.
        inverse: w, (B, NH, NC, L) float32.
        bias: da, likewise.
        backend: as `executors.resolve` returned it.
    """
    if backend == executors.NATIVE:
        root = mx.array(read.shape[-1] ** -0.5, dtype=mx.float32)
        weights = weights_from_start(gates) * root
        return _weighted(read, n, weights * inverse, weights * bias).astype(read.dtype)
    (gradients,) = _QUERIES(read, n, gates.prefix, inverse, bias, backend=backend)
    return gradients


def read_by_keys(
    read: mx.array, n: mx.array, k: mx.array, gates: LogGates, *, backend: str
) -> tuple[mx.array, mx.array]:
    """What keys get, (B, NH, NC, L, DK) in the dtype of `read`, and its dot products with them.

    Args:
        read: v dC^T, (B, NH, NC, L, DK).
        n: dn, (B, NH, NC, DK) float32.
        k: (B, NH, NC, L, DK), as it lies.
        gates: of the steps.
        backend: as `executors.resolve` returned it.
    """
    if backend == executors.NATIVE:
        weights = weights_to_end(gates)
        gradients = _weighted(read, n, weights, weights)
        dots = mx.sum(gradients * k.astype(mx.float32), axis=-1)
        return gradients.astype(read.dtype), dots
    gated = (gates.prefix, gates.prefix_rest, gates.admitted)
    gradients, dots = _KEYS(read, n, k, *gated, backend=backend)
    return gradients, dots


def _weighted(read: mx.array, n: mx.array, of_read: mx.array, of_n: mx.array) -> mx.array:
    weighted = read.astype(mx.float32) * mx.expand_dims(of_read, axis=-1)
    return weighted + mx.expand_dims(of_n, axis=-1) * mx.expand_dims(n, axis=-2)


# --- Metal -------------------------------------------------------------------------------------

# A simdgroup takes a step, a lane every 32nd column.


def _launch_queries(read: mx.array, *_others: mx.array) -> Launch:
    batch, heads, chunks, steps, _ = read.shape
    return Launch(
        grid=(32, -(-steps // _ROWS) * _ROWS, batch * heads * chunks),
        threadgroup=(32, _ROWS, 1),
        output_shapes=(read.shape,),
        output_dtypes=(read.dtype,),
        template=(("T", read.dtype),),
    )


def _launch_keys(read: mx.array, *_others: mx.array) -> Launch:
    launch = _launch_queries(read)
    return Launch(
        launch.grid,
        launch.threadgroup,
        (read.shape, read.shape[:4]),
        (read.dtype, mx.float32),
        launch.template,
    )


_QUERIES = Kernel(
    name="xlstm_mlstm_read_by_queries",
    inputs=("read", "n_states", "prefix", "inverse", "bias"),
    outputs=("gradients",),
    launch=_launch_queries,
    body="""
    // read, gradients (B, NH, NC, L, DK), n_states (B, NH, NC, DK), all others (B, NH, NC, L).
    const uint steps = read_shape[3];
    const uint width = read_shape[4];
    const uint row = thread_position_in_grid.y;
    const size_t place = threadgroup_position_in_grid.z;
    if (row >= steps) {
        return;
    }
    const size_t step = place * steps + row;
    const float decay =
        metal::precise::rsqrt(static_cast<float>(width)) * metal::precise::exp(prefix[step]);
    const float of_read = decay * inverse[step];
    const float of_n = decay * bias[step];
    for (uint key = thread_position_in_grid.x; key < width; key += 32) {
        const float value = static_cast<float>(read[step * width + key]);
        const float n = n_states[place * width + key];
        gradients[step * width + key] = static_cast<T>(of_read * value + of_n * n);
    }
    """,
)

_KEYS = Kernel(
    name="xlstm_mlstm_read_by_keys",
    inputs=("read", "n_states", "keys", "prefix", "prefix_rest", "admitted"),
    outputs=("gradients", "dots"),
    launch=_launch_keys,
    contiguous_inputs=False,
    header=PAIRS,
    body="""
    // keys (B, NH, NC, L, DK): strided; all others contiguous: read, gradients (B, NH, NC, L, DK),
    // n_states (B, NH, NC, DK), dots and all others (B, NH, NC, L).
    const uint lane = thread_index_in_simdgroup;
    const uint heads = keys_shape[1];
    const uint chunks = keys_shape[2];
    const uint steps = keys_shape[3];
    const uint width = keys_shape[4];
    const uint row = thread_position_in_grid.y;
    const size_t place = threadgroup_position_in_grid.z;
    if (row >= steps) {
        return;
    }
    const auto source = keys + place / chunks / heads * keys_strides[0]
        + place / chunks % heads * keys_strides[1] + place % chunks * keys_strides[2]
        + row * keys_strides[3];
    const size_t step = place * steps + row;
    const size_t last = place * steps + steps - 1;
    const float2 total = float2(prefix[last], prefix_rest[last]);
    const float2 here = float2(prefix[step], prefix_rest[step]);
    const float weight =
        metal::precise::exp(admitted[step] + xlstm_pair_difference(total, here));
    float dot = 0.0f;
    for (uint key = lane; key < width; key += 32) {
        const float value = static_cast<float>(read[step * width + key]);
        const float gradient = weight * (value + n_states[place * width + key]);
        gradients[step * width + key] = static_cast<T>(gradient);
        dot += gradient * static_cast<float>(source[key * keys_strides[4]]);
    }
    dot = simd_sum(dot);
    if (lane == 0) {
        dots[step] = dot;
    }
    """,
)
