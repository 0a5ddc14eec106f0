"""KERNEL-BOUNDS-001 of inputs: reads past the last element in launches of known size."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

PROGRAM = """
def launch(x: mx.array):
    kernel = mx.fast.metal_kernel(
        name="k", input_names=["x"], output_names=["y"],
        source="uint i = thread_position_in_grid.x; {body}",
    )
    return kernel(
        inputs=[x], grid=({threads}, 1, 1), threadgroup=(256, 1, 1),
        output_shapes=[(1000,)], output_dtypes=[mx.float32],
    )

launch(mx.ones({shape}))
"""


@pytest.mark.parametrize(
    ("body", "shape", "threads", "reported"),
    [
        ("y[i] = x[i] + x[i + 1];", "(1000,)", 1000, True),
        ("y[i] = x[i * 2];", "(10, 100)", 1000, True),
        ("float4 v = ((const device float4*)x)[i]; y[i] = v.x;", "(1000,)", 1000, True),
    ],
)
def test_reads_of_inputs(body: str, shape: str, threads: int | str, reported: bool) -> None:
    program = PROGRAM.format(body=body, shape=shape, threads=threads)
    assert codes(f"n = unknown()\n{program}", "KERNEL-BOUNDS") == ["KERNEL-BOUNDS-001"] * reported
