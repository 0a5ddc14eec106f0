"""A softmax over rows with a data race, which a test on one machine can miss.

    embercoach simulate -- python examples/softmax_race.py

Each threadgroup computes a row: first the largest value, then the sum of the exponentials. Both use
the same two elements of threadgroup memory, with a barrier after each write. The barrier before the
second write is missing: one simdgroup may write its sum before the other reads the maxima. Whether
the result is correct depends on the order in which the simdgroups run.
"""

from __future__ import annotations

import mlx.core as mx

_SOFTMAX = mx.fast.metal_kernel(
    name="row_softmax",
    input_names=["x"],
    output_names=["y"],
    source="""
        threadgroup float shared[2];
        uint t = thread_position_in_threadgroup.x;
        uint size = x_shape[1];
        uint start = threadgroup_position_in_grid.y * size;
        bool first = thread_index_in_simdgroup == 0;

        float best = -INFINITY;
        for (uint i = t; i < size; i += 64) best = metal::max(best, x[start + i]);
        best = simd_max(best);
        if (first) shared[simdgroup_index_in_threadgroup] = best;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        best = metal::max(shared[0], shared[1]);

        float total = 0.0f;
        for (uint i = t; i < size; i += 64) total += metal::exp(x[start + i] - best);
        total = simd_sum(total);
        if (first) shared[simdgroup_index_in_threadgroup] = total;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        total = shared[0] + shared[1];

        for (uint i = t; i < size; i += 64) y[start + i] = metal::exp(x[start + i] - best) / total;
    """,
)


def row_softmax(x: mx.array) -> mx.array:
    """Compute the softmax of each row of a float32 matrix."""
    (y,) = _SOFTMAX(
        inputs=[x],
        grid=(64, x.shape[0], 1),
        threadgroup=(64, 1, 1),
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
    )
    return y


def main() -> None:
    """Compare with MLX's own softmax."""
    x = mx.random.normal((4, 200))
    difference = mx.max(mx.abs(row_softmax(x) - mx.softmax(x, axis=-1)))
    print("correct" if mx.all(difference < 1e-6) else "incorrect")


if __name__ == "__main__":
    main()
