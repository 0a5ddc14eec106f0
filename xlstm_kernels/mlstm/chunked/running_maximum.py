"""The gradient in m, back along the maxima that it was taken of.

m_t = max(L_t + m_{t-1}, i_t) with L_t = log sigmoid(f_t): the gradient in m_t goes to the gate that
was the greater one, i_t where log i'_t = i_t - m_t is zero, otherwise f_t and m_{t-1}.
"""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.executors import NATIVE
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunked.chunks import in_sequence

_SIMD_WIDTH = 32
_MAX_SIMDGROUPS = 8


def maximum_gradient(cotangent: mx.array, admitted: mx.array, *, backend: str) -> mx.array:
    """The gradient in each m_t, of the cotangents of m_t and of all m made of it.

    g_t = cotangent_t + g_{t+1} where m_{t+1} was made of m_t, otherwise cotangent_t.

    Args:
        cotangent: of m_t as such, (B, NH, S), float32.
        admitted: log i', (B, NH, NC, L), float32.
        backend: as `executors.resolve` returned it.

    Returns:
        (B, NH, S), float32.
    """
    if backend == NATIVE:
        return _reference(cotangent, admitted)
    (gradient,) = KERNEL(cotangent, admitted, backend=backend)
    return gradient


def _reference(cotangent: mx.array, admitted: mx.array) -> mx.array:
    """By a scan that doubles its reach."""
    steps = cotangent.shape[-1]
    followed = in_sequence(admitted, steps)[..., 1:]
    last = mx.zeros((*cotangent.shape[:-1], 1), dtype=mx.bool_)
    linked = mx.concatenate([followed != mx.zeros_like(followed), last], axis=-1)
    sums, reach = cotangent, 1
    while reach < steps:
        sums = sums + mx.where(linked, _earlier(sums, reach), mx.zeros_like(sums))
        linked = mx.logical_and(linked, _earlier(linked, reach))
        reach += reach
    return sums


def _earlier(array: mx.array, steps: int) -> mx.array:
    """Return `array` as many steps earlier, with zeros at the end."""
    behind = mx.zeros((*array.shape[:-1], steps), dtype=array.dtype)
    return mx.concatenate([array[..., steps:], behind], axis=-1)


# --- Metal -------------------------------------------------------------------------------------


def _launch(cotangent: mx.array, _admitted: mx.array) -> Launch:
    """A threadgroup for each sequence of a head."""
    batch, heads, steps = cotangent.shape
    simdgroups = min(-(-steps // _SIMD_WIDTH), _MAX_SIMDGROUPS)
    threads = simdgroups * _SIMD_WIDTH
    return Launch(
        grid=(batch * heads * threads, 1, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=(cotangent.shape,),
        output_dtypes=(mx.float32,),
        template=(("SIMDGROUPS", simdgroups),),
    )


KERNEL = Kernel(
    name="xlstm_mlstm_maximum_gradient",
    inputs=("cotangent", "admitted"),
    outputs=("gradient",),
    launch=_launch,
    body="""
    // cotangent, gradient: (B, NH, S); admitted: (B, NH, NC, L); contiguous.
    // From the last step to the first, a block of steps at a time, a thread a step. A thread's sum
    // is that of its step and of those after it that it is linked with; `open` says that the link
    // reaches across the first of them.
    threadgroup float block_sums[SIMDGROUPS];
    threadgroup bool block_open[SIMDGROUPS];
    const uint steps = cotangent_shape[2];
    const size_t sequence = threadgroup_position_in_grid.x;
    const auto given = cotangent + sequence * steps;
    const auto gates = admitted + sequence * admitted_shape[2] * admitted_shape[3];
    const uint lane = thread_index_in_simdgroup;
    const uint simdgroup = simdgroup_index_in_threadgroup;
    float after = 0.0f;  // the gradient of the step after the block
    for (uint done = 0; done < steps; done += 32 * SIMDGROUPS) {
        const uint place = done + thread_index_in_threadgroup;
        const uint step = steps - 1 - metal::min(place, steps - 1);
        float sum = place < steps ? given[step] : 0.0f;
        bool open = place > 0 && place < steps && gates[step + 1] != 0.0f;
        for (uint distance = 1; distance < 32; distance *= 2) {
            const float later_sum = simd_shuffle_up(sum, distance);
            const bool later_open = simd_shuffle_up(open, distance);
            if (lane >= distance && open) {
                sum += later_sum;
                open = later_open;
            }
        }
        if (lane == 31) {
            block_sums[simdgroup] = sum;
            block_open[simdgroup] = open;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint other = 0; other < SIMDGROUPS; ++other) {
            if (other == simdgroup && open) {
                sum += after;
            }
            after = block_open[other] ? block_sums[other] + after : block_sums[other];
        }
        if (place < steps) {
            gradient[sequence * steps + step] = sum;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    """,
)
