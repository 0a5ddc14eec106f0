"""Metal text that grows takes work in proportion: counted in steps, not in seconds."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from embercoach import checks
from embercoach.checks.programs import kernel_plans
from embercoach.checks.programs.metal_findings import check_unit
from embercoach.metal.tokens import whole_number
from embercoach.metal.work_budget import EXCEEDED, TOO_DEEP, WorkBudget
from tests.benchmarks.metal_growth import FILES, HEAD, SHAPES, kernel

SIZE = 500


METAL = [name for name in SHAPES if name.startswith("metal: ") and "bombs" not in name]


@pytest.mark.parametrize("name", METAL)
@pytest.mark.sampled(3)
def test_every_shape_ends_in_findings_or_a_problem(name: str) -> None:
    _, text = SHAPES[name](SIZE)
    assert all(found.line for found in checks.check_metal(text).findings)


def _calls(text: str) -> int:
    """The functions of EmberCoach that run for a text: the same on every machine."""
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
    "name",
    [
        "nested #if",
        "nested true #if",
        "assignments",
        "open macro use",
        "open parentheses",
        "overloads",
        "calls of overloads",
    ],
)
@pytest.mark.sampled(3)
def test_work_grows_in_proportion(name: str) -> None:
    few, some, many = (
        SHAPES[f"metal: {name}"](size)[1] for size in (SIZE // 4, 2 * SIZE, 4 * SIZE)
    )
    _calls(few)  # what is imported and kept on the way is not counted
    assert _calls(many) < 2.5 * _calls(some)


NESTED = """\
float by_reference(const thread float& v) { return v + 1; }
"""


@pytest.mark.parametrize(
    ("opening", "inner", "closing"),
    [
        ("--", "a", ""),
        ("x[a = ", "1", "]"),
        ("(", "i + 1", ")[0]"),
        ("(", "v", ".yx += 1)"),
        ("(n ? ", "a", " : b += 1)"),
        ("by_reference(", "i", ")"),
        ("sincos(", "i", ", c)"),
        ("modf(1.f, w[int(", "i", ")])"),
    ],
)
def test_an_operand_is_evaluated_once_at_each_level(opening: str, inner: str, closing: str) -> None:
    """Twice a level is 2^16 times for 16 levels."""

    def calls(depth: int) -> int:
        expression = opening * depth + inner + closing * depth
        body = f"int a = 1, b = 1; float c, w[4]; float2 v; x[i] = {expression};"
        return _calls(HEAD + NESTED + kernel(body))

    calls(16)  # what is imported on the way is not counted
    without = calls(0)
    assert calls(16) - without < 3 * (calls(8) - without)


def test_a_number_of_any_length_is_no_error() -> None:
    assert whole_number("9" * 512) is not None
    assert whole_number("9" * 513) is None
    text = HEAD + kernel(f"x[{'9' * 4301}] = {'9' * 5000}; double d = 0;")
    (found,) = checks.check_metal(text).findings
    assert found.code == "KERNEL-MSL-001"


def test_a_bomb_of_macros_is_a_problem_of_its_use_alone() -> None:
    text = FILES["macro bombs"](SIZE // 2) + kernel("double d = 0;", "1")
    assert [found.code for found in checks.check_metal(text).findings] == ["KERNEL-MSL-001"]


def test_kernels_with_bombs_of_macros_end_with_the_budget_of_their_file() -> None:
    header = "".join(f"#define A{i} A{i + 1} A{i + 1}\\n" for i in range(15))
    made = "mx.fast.metal_kernel(name='k', input_names=[], output_names=['o'], header=H, source"
    kernels = "".join(f"{made}='o[0] = A0 + {i};')\n" for i in range(20))
    source = f"import mlx.core as mx\nH = '{header}'\n{kernels}"
    path = Path("/nowhere/program.py")
    assert checks.check_source(source, path, checks.Project()).problem == EXCEEDED


@pytest.mark.parametrize("name", ["nested if", "parentheses", "else if"])
def test_text_that_nests_too_deeply_is_a_problem(name: str) -> None:
    _, text = SHAPES[f"metal: {name}"](8 * SIZE)
    assert checks.check_metal(text).problem == TOO_DEEP
    assert checks.check_metal(SHAPES[f"metal: {name}"](SIZE // 5)[1]).problem is None


def test_calls_that_nest_within_the_bounds_are_followed() -> None:
    """Each of them takes many levels of Python's stack."""
    inner = "v + 1"
    functions = ""
    for number in range(7):
        nested = "(" * 50 + inner + ")" * 50
        functions += f"float f{number}(float v) {{ if (v > 0) {{ v = -{nested}; }} return v; }}\n"
        inner = f"f{number}(v)"
    assert checks.check_metal(HEAD + functions + kernel("x[i] = f6(x[i]);")).problem is None


@pytest.mark.sampled(0)
def test_kernels_of_mlx_take_a_third_of_the_budget() -> None:
    found = importlib.util.find_spec("mlx")
    roots = [] if found is None else list(found.submodule_search_locations or ())
    files = [Path(root, "include/mlx/backend/metal/kernels/quantized.h") for root in roots]
    texts = [file.read_text() for file in files if file.exists()]
    if not texts:
        pytest.skip("needs MLX's headers")
    budget = WorkBudget.of(texts[0])
    whole = budget.left
    check_unit(texts[0], budget)
    assert budget.problem is None
    assert 0 < 3 * (whole - budget.left) <= whole


def test_kernels_with_loops_stay_in_the_budget() -> None:
    text = HEAD + FILES["kernels with a loop"](50 * 250)
    budget = WorkBudget.of(text)
    for one in kernel_plans.kernels_of_unit(text, budget):
        one.trace(0)
    assert budget.left > 0
