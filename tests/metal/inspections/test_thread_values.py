"""Products of thread-dependent values, and loops that start at one."""

from __future__ import annotations

import pytest

from embercoach.metal.inspections.thread_values import ThreadValues


@pytest.mark.parametrize(
    ("loop", "step"),
    [
        ("uint j; for (j = i; j < n; j += stride) {}", {"threads_per_threadgroup"}),
    ],
)
def test_stride_loops(loop, step) -> None:
    values = ThreadValues(
        f"uint i = thread_position_in_grid.x; uint stride = threads_per_threadgroup.x; {loop}", ""
    )
    (found,) = values.stride_loops()
    assert found.step_text.removeprefix("++").startswith("j")
    assert (set(found.start), set(found.step)) == ({"thread_position_in_grid"}, step)


@pytest.mark.parametrize(
    ("expression", "factor"),
    [
        ("i << 3", "8"),
        ("i *= N", "N"),
    ],
)
def test_products(expression, factor) -> None:
    source = f"uint i = thread_position_in_grid.x; out[0] = {expression};"
    (found,) = ThreadValues(source, "").products()
    assert (set(found.attributes), found.factor) == ({"thread_position_in_grid"}, factor)


@pytest.mark.parametrize("expression", ["n * 4", "i * i", "i + 4", "n << i", "1 << i", "i << 40"])
def test_no_products(expression) -> None:
    source = f"uint i = thread_position_in_grid.x; out[0] = {expression};"
    assert list(ThreadValues(source, "").products()) == []


@pytest.mark.parametrize(
    ("factor", "spans"),
    [
        ("threads_per_threadgroup.x", True),
        ("size", True),
    ],
)
def test_groups_that_are_spanned(factor, spans) -> None:
    source = (
        "uint size = threads_per_threadgroup.x;"
        f"uint at = threadgroup_position_in_grid.x * {factor}; out[at] = 1;"
    )
    assert ThreadValues(source, "").spans_groups() == spans
