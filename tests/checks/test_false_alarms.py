"""False alarms that packages of PyPI showed: guards that hold once, values read back, deques."""

from __future__ import annotations

from pathlib import Path

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes, effect, findings

LOOP = "def f(xs, x: mx.array):\n    first = None\n    for i, y in enumerate(xs):\n"
PULL = "y = x.sum().item()"


@pytest.mark.parametrize(
    ("body", "context"),
    [
        (f"if i == 0:\n    {PULL}", "once"),
        ("if first is None:\n    first = x.sum().item()", "once"),
        (f"if first is None:\n    {PULL}", "iteration"),
        (f"if i > 0:\n    {PULL}", "iteration"),
        (f"if y == 2:\n    {PULL}", "iteration"),
        (f"if x[0].item() == 2:\n    {PULL}", "iteration"),
    ],
)
def test_a_guard_that_holds_once_is_periodic(body: str, context: str) -> None:
    lines = "\n".join(f"        {line}" for line in [*body.splitlines(), "x = x + y"])
    found = findings(f"{LOOP}{lines}\n", "GRAPH-BREAK-001")
    assert effect(found[-1]) == context


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("mx.array([j for j in k.tolist() if j < 4])", []),
    ],
)
def test_numbers_read_from_an_array_may_be_indices(index: str, expected: list[str]) -> None:
    program = f"def f(x: mx.array, k: mx.array):\n    return x[{index}]\n"
    assert codes(program, "API") == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        ("-self.k", []),
        ("self.k / 2", ["API-005"]),
        ("self.k * 0.5", ["API-005"]),
    ],
)
def test_numbers_of_a_configuration_may_be_integers(count: str, expected: list[str]) -> None:
    program = (
        "class B:\n    def __init__(self, config):\n        self.config = config\n"
        "        self.k = config.k\n\n    def f(self, x: mx.array):\n"
        f"        n = {count}\n        return x[mx.arange(n)]\n"
    )
    assert codes(program, "API") == expected


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [
        ("-0.5 * (x / 2) ** 2", []),
        ("-mx.square(x)", []),
        ("-mx.abs(x) / 3", []),
        ("-x", ["DTYPE-011"]),
        ("x**2", ["DTYPE-011"]),
        ("-(x**3)", ["DTYPE-011"]),
    ],
)
def test_an_exponent_that_is_never_positive_cannot_overflow(
    exponent: str, expected: list[str]
) -> None:
    program = f"def f(x: mx.array):\n    e = mx.exp({exponent})\n    return e / mx.sum(e)\n"
    assert codes(program, "DTYPE-011") == expected


def test_the_truth_of_a_deque_is_its_length() -> None:
    program = (
        "from collections import deque\nq = deque(mx.zeros((2, 4)))\nif q:\n    print(len(q))\n"
    )
    assert codes(program, "GRAPH-BREAK") == []


def test_a_key_that_is_not_known_is_no_module() -> None:
    program = 'def f(s):\n    names: dict[str, object] = {"mx": mx}\n    exec(s, names)\n'
    assert codes(f"{program}    return names['x'].dtype\n", "API") == []


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ('"key" in x', []),
        ('f"{name}.weight" not in x', []),
        ("3 in x", ["GRAPH-BREAK-006"]),
        ("name in x", ["GRAPH-BREAK-006"]),
    ],
)
def test_a_string_is_a_key_of_a_dictionary(test: str, expected: list[str]) -> None:
    program = f"def f(x: mx.array, name):\n    return {test}\n"
    assert codes(program, "GRAPH-BREAK-006") == expected


def loud(program: str) -> list[str]:
    """The codes of what is more than a cost that nothing saves."""
    found = findings(program, ("GRAPH-BREAK", "HOST-PULL", "INDEX", "API", "NN", "TORCH"))
    return [one.code for one in found if one.context != "minor"]


SCAN = """
def by_rows(x: mx.array):
    return mx.cumsum(x * x.max().item())

def scan(x: mx.array, fast=True, trained=False):
    return by_rows(x) if fast and not trained else mx.cumsum(x)

gradient = mx.grad(lambda x: scan(x, trained={}).sum())
"""


@pytest.mark.parametrize(("argument", "expected"), [("True", []), ("False", ["GRAPH-BREAK-001"])])
def test_a_path_that_a_constant_argument_excludes(argument: str, expected: list[str]) -> None:
    assert loud(SCAN.format(argument)) == expected


NOISE = """
class Noise(nn.Module):
    def __call__(self, args, labels: mx.array):
        ratio, shift = args
        if ratio {}:
            labels = labels + shift
        return labels
"""


def test_elements_of_a_parameter_without_annotation_may_be_numbers() -> None:
    assert loud(NOISE.format("> 0")) == []


PENALTY = """
def penalty(strength):
    def process(tokens, logits: mx.array):
        {}
        logits[..., 0] -= strength
        return logits
    return process

process, logits = penalty(0.5), mx.array([1.0, 2.0])
result = process([], logits)
print(mx.allclose(result, logits))
"""


@pytest.mark.parametrize(
    ("start", "expected"),
    [("if not tokens:\n            return logits", []), ("print(tokens)", ["INDEX-005"])],
)
def test_a_function_that_returns_before_it_changes_an_array(
    start: str, expected: list[str]
) -> None:
    assert codes(PENALTY.format(start), "INDEX-005") == expected


CHOICE = """
def choose(x: mx.array, k: float):
    return mx.take(x, mx.array(-k))

def use(x: mx.array, k: {}):
    return choose(x, k)
"""


def test_callers_pass_an_int_where_float_is_annotated() -> None:
    assert codes(CHOICE.format("int = 2"), "INDEX-006") == []


def test_a_stub_is_checked_for_names_of_the_api_alone() -> None:
    source = """
import mlx.core as mx
import mlx.nn as nn

class Layer(nn.Module):
    def __init__(self, n: int) -> None: ...
    def __call__(self, x: mx.array = mx.norm(mx.ones(3))) -> mx.array: ...
"""
    for name, expected in (("layer.pyi", ["API-001"]), ("layer.py", ["API-001"])):
        found = check_source(source, Path(name), Project()).findings
        assert [one.code for one in found if one.context == "default"] == expected


def test_pure_torch_code_is_silent() -> None:
    program = """
import torch

def moe(x, experts, gates):
    x = x.to("mps")
    for expert, gate in zip(experts, gates):
        if (gate > 0).any():
            x = x + expert(x) * gate.sum().item()
    return x
"""
    assert loud(program) == []
