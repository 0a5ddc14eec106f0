"""Metal text that grows takes work in proportion: counted in steps, not in seconds."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest

from embercoach import checks
from embercoach.checks import unit_plans
from embercoach.metal.numerals import whole_number
from embercoach.metal.work_budget import WorkBudget, WorkBudgetExceeded
from tests.benchmarks.metal_growth import FILES, HEAD, SHAPES, kernel

SIZE = 2_000


@pytest.mark.parametrize("name", [name for name in SHAPES if name.startswith("metal: ")])
def test_every_shape_ends_in_findings_or_a_problem(name: str) -> None:
    _, text = SHAPES[name](SIZE)
    with suppress(WorkBudgetExceeded):
        assert all(found.line for found in checks.check_metal(text).findings)


def _calls(name: str, size: int) -> int:
    """The functions of EmberCoach that run for a text: the same on every machine."""
    _, text = SHAPES[f"metal: {name}"](size)
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        checks.check_metal(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "name", ["nested #if", "nested true #if", "assignments", "open macro use", "open parentheses"]
)
def test_work_grows_in_proportion(name: str) -> None:
    _calls(name, 500)  # what is imported and kept on the way is not counted
    assert _calls(name, 8 * SIZE) < 2.5 * _calls(name, 4 * SIZE)


def test_a_number_of_any_length_is_no_error() -> None:
    assert whole_number("9" * 512) is not None
    assert whole_number("9" * 513) is None
    text = HEAD + kernel(f"x[{'9' * 4301}] = {'9' * 5000}; double d = 0;")
    (found,) = checks.check_metal(text).findings
    assert found.code == "KERNEL-MSL-001"


def test_a_bomb_of_macros_is_a_problem_of_its_use_alone() -> None:
    text = FILES["macro bombs"](SIZE) + kernel("double d = 0;", "1")
    assert [found.code for found in checks.check_metal(text).findings] == ["KERNEL-MSL-001"]


def test_kernels_with_loops_stay_in_the_budget() -> None:
    text = HEAD + FILES["kernels with a loop"](50 * 250)
    budget = WorkBudget.of(text)
    for one in unit_plans.kernels_of_unit(text, budget):
        one.trace(0)
    assert budget.left > 0
