"""Arrays that are filled for one number of threads and read for another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.checks.kernels.kernel_counts import mismatches
from tests.metal.execution.launching import trace_of, traced
from tests.simulator.suite_cases import CLEAN

if TYPE_CHECKING:
    from tests.simulator.suite.case import Case

FILL = (
    "threadgroup float s[{size}]; uint t = thread_index_in_threadgroup; s[t] = x[t];"
    " threadgroup_barrier(mem_flags::mem_threadgroup);"
)
TREE = (
    "for (uint h = {half}; h > 0; h >>= 1) {{ if (t < h) s[t] += s[t + h];"
    " threadgroup_barrier(mem_flags::mem_threadgroup); }} if (t == 0) y[0] = s[0];"
)
LONG = "for (uint j = 0; j < 40; j++) { for (uint k = 0; k < 70; k++) m += x[j * k + t]; }"


def tree(size: int, half: int) -> str:
    return FILL.format(size=size) + TREE.format(half=half)


def found(source: str, threads: int) -> list[tuple[str, int, int, int]]:
    """Unit, elements written and read, and the threads that the body fits."""
    trace = trace_of(source, (threads, 1, 1))
    assert not trace.lost
    return [(one.unit, one.written, one.read, one.threads) for one in mismatches(trace)]


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
    assert mismatches(trace_of(source, (threads, 1, 1))) == ()


@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.name)
def test_clean_kernels(case: Case) -> None:
    assert mismatches(traced(case)) == ()
