"""Arrays that are filled for one number of threads and read for another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.checks.kernels.kernel_arrays import mismatches
from tests.metal.execution.launching import trace_of, traced
from tests.simulator.suite_cases import CLEAN

if TYPE_CHECKING:
    from tests.simulator.suite.case import Case

FILL = (
    "threadgroup float s[{size}]; uint t = thread_index_in_threadgroup; s[t] = x[t];"
    " threadgroup_barrier(mem_flags::mem_threadgroup);"
)


@pytest.mark.parametrize(
    ("source", "threads"),
    [
        # An inclusive scan by neighbours leaves the last element out.
        (FILL.format(size=256) + "y[t] = t > 0 ? s[t - 1] : 0;", 256),
        # Only outside of the array.
        (FILL.format(size=64) + "y[t] = s[t ^ 64];", 64),
        # A tile with a border.
        (FILL.format(size=80) + "y[t] = s[t + 3];", 64),
    ],
)
def test_bodies_for_this_size_or_any(source: str, threads: int) -> None:
    assert list(mismatches(trace_of(source, (threads, 1, 1)))) == []


@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.name)
def test_clean_kernels(case: Case) -> None:
    assert list(mismatches(traced(case))) == []
