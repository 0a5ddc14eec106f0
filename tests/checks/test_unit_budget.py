"""Files of many kernels: what following them may take together."""

from __future__ import annotations

import pytest

from embercoach.checks.programs import kernel_plans
from embercoach.checks.programs.metal_checks import MetalKernel
from embercoach.metal import work_budget
from embercoach.metal.work_budget import WorkBudget, WorkBudgetExceeded

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


def _kernels(text: str) -> tuple[MetalKernel, ...]:
    return kernel_plans.kernels_of_unit(text, WorkBudget())


def test_kernels_of_a_file_share_their_steps() -> None:
    budget = WorkBudget()
    whole = budget.left
    kernels = kernel_plans.kernels_of_unit(_file(6), budget)
    taken = sum(trace.steps for kernel in kernels for trace in kernel.traces)
    assert taken > 0
    assert budget.left == whole - taken


def test_no_kernel_is_left_out_silently() -> None:
    kernels = kernel_plans.kernels_of_unit(_file(3), WorkBudget(left=1))
    assert kernels[0].trace(0).steps
    with pytest.raises(WorkBudgetExceeded):
        kernels[1].trace(0)


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
    (kernel,) = kernel_plans.kernels_of_unit(
        _ROWS.format("if (int(lid.y) >= n) return;"), WorkBudget()
    )
    assert all(configuration.threadgroup[1] > 1 for configuration in kernel.configurations)
    assert kernel.configurations
    (kernel,) = kernel_plans.kernels_of_unit(
        _ROWS.format("if (int(lid.x) >= n) return;"), WorkBudget()
    )
    assert any(configuration.threadgroup[1] == 1 for configuration in kernel.configurations)


def test_what_is_left_bounds_each_run() -> None:
    kernel = _kernels(_file(1))[0]
    free = max(trace.steps for trace in kernel.traces)
    budget = WorkBudget(left=300_000)
    again = kernel_plans.kernels_of_unit(_file(1), budget)[0]
    bound = budget.share
    assert bound < work_budget.RUN
    assert bound < free  # else this shows nothing
    assert all(trace.steps < 2 * bound for trace in again.traces)


def test_a_kernel_has_the_functions_that_it_calls() -> None:
    first, second = _kernels(_file(2))
    assert {"twice0", "twice1"} <= first.program.functions.keys()
    assert "twice1" in second.program.functions
    assert "twice0" not in second.program.functions
