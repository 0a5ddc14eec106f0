"""Files of many kernels: what following them may take together."""

from __future__ import annotations

from embercoach.checks import unit_plans
from embercoach.metal.execution import machine

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_HELPER = "float twice{0}(float v) {{ return v < 0.0f ? -v : 2.0f * v; }}\n"
_KERNEL = """\
kernel void scale{0}(device float* x [[buffer(0)]], constant int& n [[buffer(1)]],
                     uint i [[thread_position_in_threadgroup]]) {{
    threadgroup float s[64];
    for (int k = 0; k < 60; ++k) {{
        s[i % 64] = twice{0}(x[i] + k);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        x[i] += s[(i + 1) % 64];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }}
}}
"""


def _file(count: int) -> str:
    numbers = range(count)
    helpers = (_HELPER.format(n) for n in numbers)
    return _HEAD + "".join((*helpers, *(_KERNEL.format(n) for n in numbers)))


def test_kernels_of_a_file_share_their_steps() -> None:
    kernels = unit_plans.kernels_of_unit(_file(40))
    allowance = kernels[0].allowance
    assert allowance is not None
    whole = allowance.left
    taken = sum(trace.steps for kernel in kernels for trace in kernel.traces)
    assert taken > 0
    assert allowance.left == whole - taken


_ROWS = (
    _HEAD
    + """\
kernel void k(device float* x [[buffer(0)]], constant int& n [[buffer(1)]],
              uint2 lid [[thread_position_in_threadgroup]]) {{
    threadgroup float s[16];
    {0}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[lid.x] = s[0];
}}
"""
)


def test_who_asks_for_rows_is_launched_with_rows() -> None:
    (kernel,) = unit_plans.kernels_of_unit(_ROWS.format("if (int(lid.y) >= n) return;"))
    assert all(configuration.threadgroup[1] > 1 for configuration in kernel.configurations)
    assert kernel.configurations
    (kernel,) = unit_plans.kernels_of_unit(_ROWS.format("if (int(lid.x) >= n) return;"))
    assert any(configuration.threadgroup[1] == 1 for configuration in kernel.configurations)


def test_what_is_left_bounds_each_run() -> None:
    kernel = unit_plans.kernels_of_unit(_file(1))[0]
    free = max(trace.steps for trace in kernel.traces)
    again = unit_plans.kernels_of_unit(_file(1))[0]
    assert again.allowance is not None
    again.allowance.spend(again.allowance.left)
    bound = again.allowance.share
    assert bound < machine.BUDGET
    assert bound < free  # else this shows nothing
    assert all(trace.steps < 2 * bound for trace in again.traces)


def test_a_kernel_has_the_functions_that_it_calls() -> None:
    first, second = unit_plans.kernels_of_unit(_file(2))
    assert {"twice0", "twice1"} <= first.program.functions.keys()
    assert "twice1" in second.program.functions
    assert "twice0" not in second.program.functions
