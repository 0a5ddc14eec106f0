"""What Metal refuses to load, the simulator refuses to run."""

from __future__ import annotations

import mlx.core as mx
import pytest

from embercoach.simulator import SimulatorError, activate


def run(size: int) -> mx.array:
    kernel = mx.fast.metal_kernel(
        name=f"holding_{size}",
        input_names=["x"],
        output_names=["y"],
        source=f"""
            threadgroup float tile[{size}];
            threadgroup float sum[2];
            const uint i = thread_index_in_threadgroup;
            tile[i] = x[i];
            sum[i % 2] = 0.0f;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            y[i] = tile[31 - i] + sum[0];
        """,
    )
    (result,) = kernel(
        inputs=[mx.arange(32, dtype=mx.float32)],
        grid=(32, 1, 1),
        threadgroup=(32, 1, 1),
        output_shapes=[(32,)],
        output_dtypes=[mx.float32],
    )
    return result


def test_threadgroup_memory_has_an_end() -> None:
    with activate():
        assert run(8190).tolist() == list(range(31, -1, -1))
        refusal = r"32,772 bytes of .* limit of 32,768 \(tile: 32,764, sum: 8\)\."
        with pytest.raises(SimulatorError, match=refusal):
            mx.eval(run(8191))
