"""Products of thread-dependent values, and loops that start at one."""

from __future__ import annotations

import pytest

from embercoach.metal.inspections.thread_values import ThreadValues


@pytest.mark.parametrize(
    ("loop", "step"),
    [
        ("for (uint j = i; j < n; j += threads_per_grid.x) {}", {"threads_per_grid"}),
        ("for (uint j = i; j < n; j = j + stride) {}", {"threads_per_threadgroup"}),
        ("uint j; for (j = i; j < n; j += stride) {}", {"threads_per_threadgroup"}),
        ("for (uint j = i; j < n; j += 32) {}", set()),
        ("for (uint j = i; j < n; ++j) {}", set()),
    ],
)
def test_stride_loops(loop, step) -> None:
    values = ThreadValues(
        f"uint i = thread_position_in_grid.x; uint stride = threads_per_threadgroup.x; {loop}", ""
    )
    (found,) = values.stride_loops()
    assert found.step_text.removeprefix("++").startswith("j")
    assert (set(found.start), set(found.step)) == ({"thread_position_in_grid"}, step)


def test_other_loops_are_no_stride_loops() -> None:
    values = ThreadValues("for (uint j = 0; j < n; j += threads_per_grid.x) {}", "")
    assert list(values.stride_loops()) == []


@pytest.mark.parametrize(
    ("expression", "factor"),
    [
        ("i * 32u", "32u"),
        ("4 * i", "4"),
        ("(i + 1) * (n - 1)", "n - 1"),
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
        ("64", False),
        ("threads_per_grid.x", False),
    ],
)
def test_groups_that_are_spanned(factor, spans) -> None:
    source = (
        "uint size = threads_per_threadgroup.x;"
        f"uint at = threadgroup_position_in_grid.x * {factor}; out[at] = 1;"
    )
    assert ThreadValues(source, "").spans_groups() == spans


def test_names_that_nothing_declares_hold_nothing() -> None:
    source = "lane = thread_position_in_grid.x; for (uint j = lane; j < n; j += 32) {}"
    assert list(ThreadValues(source, "").stride_loops()) == []
