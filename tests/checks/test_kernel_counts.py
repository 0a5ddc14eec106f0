"""KERNEL-CONST-001: what is flagged, what is not, and where."""

from __future__ import annotations

import pytest

from tests.checks.findings import IMPORTS, findings

FAMILY = "KERNEL-CONST"
BODY = """
        threadgroup float s[512];
        uint t = thread_position_in_threadgroup.x;
        s[t] = x[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint h = HALF; h > 0; h >>= 1) {
            if (t < h) s[t] += s[t + h];
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (t == 0) y[threadgroup_position_in_grid.x] = s[0];
"""


def launching(group: str, half: str = "128", template: str = "") -> str:
    return (
        f'K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
        f'    source="""{BODY.replace("HALF", half)}""")\n'
        "TG = 512\n"
        "def launch(x: mx.array, n: int, tg: int):\n"
        f"    return K(inputs=[x], grid=(n * {group}, 1, 1), threadgroup=({group}, 1, 1),\n"
        f"        output_shapes=[(n,)], output_dtypes=[mx.float32]{template})[0]\n"
    )


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (launching("512"), "body assumes 256 threads, launch has 512"),
        (launching("TG"), "body assumes 256 threads, launch has 512"),
        (launching("128"), "body assumes 256 threads, launch has 128"),
        (launching("512", "H / 2", ', template=[("H", 256)]'), "launch has 512"),
    ],
)
def test_another_number_of_threads(program: str, words: str) -> None:
    (found,) = findings(program, FAMILY)
    assert words in found.message
    line = (IMPORTS + program).split("\n")[found.line - 1]
    assert line[found.column - 1 : found.end_column - 1] in ("s[t]", "s[t + h]", "s[t] += s[t + h]")
