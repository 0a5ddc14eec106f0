"""Barriers under conditions that are equal for all threads of a threadgroup."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

BODY = """
    uint tid = thread_position_in_threadgroup.x;
    uint row = threadgroup_position_in_grid.x * 32 + tid;
    for (uint t = 0; t < n[0]; ++t) {{
        uint base = t * 32;
        if ({condition}) continue;
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }}
    y[row] = 1;
"""
LAUNCH = """
k = mx.fast.metal_kernel(name="k", input_names=["n"], output_names=["y"], source=\"\"\"{body}\"\"\")
k(inputs=[mx.array([4, 1])], grid=(128, 1, 1), threadgroup=(32, 1, 1),
  output_shapes=[(128,)], output_dtypes=[mx.float32])
"""


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("base > row", []),
        ("n[1] && base > row", []),
        ("base > row || n[1]", []),
        ("row >= base + 32 && n[1]", []),
        ("n[1] && base + 1 > row", ["KERNEL-BARRIER-001"]),
        ("n[1] && base + 16 > row", ["KERNEL-BARRIER-001"]),
    ],
)
def test_condition_of_a_barrier(condition: str, expected: list[str]) -> None:
    program = LAUNCH.format(body=BODY.format(condition=condition))
    assert codes(program, "KERNEL-BARRIER-001") == expected


TILES = """
def make(size):
    bq, bkv = (64, 64) if size <= 64 else (16, 32)
    return mx.fast.metal_kernel(name="k", input_names=["n"], output_names=["y"],
        header=f"#define BQ {{bq}}\\n#define BKV {{bkv}}\\n", source=\"\"\"
    uint tid = thread_position_in_threadgroup.x;
    uint row = threadgroup_position_in_grid.x * BQ + tid;
    for (uint t = 0; t < n[0]; ++t) {{{{
        if ({condition}) continue;
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }}}}
    y[row] = 1;
\"\"\")


def run(size):
    return make(size)(inputs=[mx.array([4, 1])], grid=(128, 1, 1), threadgroup=(32, 1, 1),
                      output_shapes=[(128,)], output_dtypes=[mx.float32])
"""


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("t * BKV > row", []),
        ("n[1] && t * BKV > row", []),
        ("n[1] && n[2] > row", ["KERNEL-BARRIER-001"]),
        ("n[1] && t * BKV > tid", ["KERNEL-BARRIER-001"]),
    ],
)
def test_tiles_of_unknown_size_may_divide_each_other(condition: str, expected: list[str]) -> None:
    program = TILES.format(condition=condition).replace("{{", "{").replace("}}", "}")
    assert codes(program, "KERNEL-BARRIER-001") == expected
