"""Arrays that are filled for one number of threads and read for another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.metal.inspections.coverage import mismatches
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
STEPS = (
    "threadgroup float s[512]; uint t = thread_index_in_threadgroup;"
    " for (uint i = t; i < {end}; i += 256) s[i] = x[i];"
    " threadgroup_barrier(mem_flags::mem_threadgroup); y[t] = s[t] + s[t + 256];"
)
LONG = "for (uint j = 0; j < 40; j++) { for (uint k = 0; k < 70; k++) m += x[j * k + t]; }"
EIGHT = "if (t == 0) for (int i = 0; i < 8; ++i) y[0] += s[i];"
SUMS = (
    "threadgroup float s[32]; uint t = thread_index_in_threadgroup; float v = simd_sum(x[t]);"
    " if (thread_index_in_simdgroup == 0) s[simdgroup_index_in_threadgroup] = v;"
    " threadgroup_barrier(mem_flags::mem_threadgroup);"
)


def tree(size: int, half: int) -> str:
    return FILL.format(size=size) + TREE.format(half=half)


def found(source: str, threads: int) -> list[tuple[str, int, int, int]]:
    """Unit, elements written and read, and the threads that the body fits."""
    trace = trace_of(source, (threads, 1, 1))
    assert not trace.lost
    return [(one.unit, one.written, one.read, one.threads) for one in mismatches(trace)]


@pytest.mark.parametrize(
    ("source", "threads", "expected"),
    [
        (tree(512, 128), 512, ("thread", 512, 256, 256)),
        (tree(256, 128), 128, ("thread", 128, 256, 256)),
        (tree(1024, 64), 1024, ("thread", 1024, 128, 128)),
        (FILL.format(size=256) + "y[t] = s[t ^ 128];", 128, ("thread", 128, 256, 256)),
        (FILL.format(size=256) + "y[t] = s[255 - t];", 64, ("thread", 64, 256, 256)),
        (SUMS + "y[t] = s[simdgroup_index_in_threadgroup ^ 4];", 128, ("simdgroup", 4, 8, 256)),
        (SUMS + EIGHT, 512, ("simdgroup", 16, 8, 256)),
        (SUMS + EIGHT, 128, ("simdgroup", 4, 8, 256)),
        (SUMS + "if (t < 8) y[t] = s[t];", 1024, ("simdgroup", 32, 8, 256)),
        (
            SUMS + "float r = thread_index_in_simdgroup < 8 ? s[thread_index_in_simdgroup] : 0;"
            " y[t] = simd_sum(r);",
            64,
            ("simdgroup", 2, 8, 256),
        ),
    ],
)
def test_bodies_for_another_size(
    source: str, threads: int, expected: tuple[str, int, int, int]
) -> None:
    assert found(source, threads) == [expected]


@pytest.mark.parametrize(
    ("source", "threads"),
    [
        (tree(256, 128), 256),
        (tree(512, 128), 256),
        (tree(32, 16), 32),
        (SUMS + EIGHT, 256),
        (SUMS + "if (t == 0) y[0] = s[0];", 256),
        (SUMS + "for (uint i = 0; i < simdgroups_per_threadgroup; ++i) y[t] += s[i];", 512),
        # An inclusive scan by neighbours leaves the last element out.
        (FILL.format(size=256) + "y[t] = t > 0 ? s[t - 1] : 0;", 256),
        (FILL.format(size=256) + "y[t] = s[t ^ 128];", 256),
        (FILL.format(size=512) + "s[t ^ 128] = 1; y[t] = s[t ^ 128];", 128),
        # Only outside of the array.
        (FILL.format(size=64) + "y[t] = s[t ^ 64];", 64),
        # A tile with a border.
        (FILL.format(size=80) + "y[t] = s[t + 3];", 64),
        # Every element that is read is written, in two steps.
        (STEPS.format(end="512"), 256),
        # What is read hangs on data.
        (FILL.format(size=256) + "if (x[0] > 0) y[t] = s[t % 64];", 256),
        (FILL.format(size=256) + "y[t] = s[uint(x[t])];", 256),
        (FILL.format(size=256) + "for (uint i = 0; i < n; ++i) y[t] += s[i];", 256),
        # Iterations that read the rest are left out, because the loop above takes too many steps.
        (f"{SUMS} float m = 0; {LONG} for (uint i = 0; i < 32; i++) m += s[i]; y[t] = m;", 1024),
        # What is written does.
        (STEPS.format(end="n"), 256),
    ],
)
def test_bodies_for_this_size_or_any(source: str, threads: int) -> None:
    assert mismatches(trace_of(source, (threads, 1, 1))) == ()


@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.name)
def test_clean_kernels(case: Case) -> None:
    assert mismatches(traced(case)) == ()
