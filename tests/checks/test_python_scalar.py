"""PYTHON-SCALAR and ASSIGN-SCALAR: which numbers in array arithmetic are reported, and where."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.checks.findings import IMPORTS, codes, findings

FIRST_LINE = IMPORTS.count("\n") + 1
FAMILY = "PYTHON-SCALAR"


def function(body: str) -> str:
    """A function of an array ``x``, a number ``n`` and an unknown ``y``."""
    start = "import math\nimport numpy as np\ndef work(x: mx.array, n: int, y):\n"
    return start + indent(dedent(body).strip(), "    ")


BODY_LINE = FIRST_LINE + 3


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "**"])
@pytest.mark.parametrize("number", ["2", "0.5", "1e-5", "n", "2j", "True", "math.pi", "x.shape[0]"])
def test_operands(operator: str, number: str) -> None:
    for expression in (f"x {operator} {number}", f"{number} {operator} x"):
        (finding,) = findings(function(f"return {expression}"), FAMILY)
        assert finding.code == f"{FAMILY}-002"
        assert (finding.line, finding.column) == (BODY_LINE, 12)
        assert f"`{operator}`" in finding.message


SILENT = [
    "~x",
    "np.ones(3) * 2",
    "mx.reshape(x, (2, -1))",
]


@pytest.mark.parametrize("expression", SILENT)
def test_what_is_no_number_in_array_arithmetic(expression: str) -> None:
    assert codes(function(f"return {expression}"), FAMILY) == []
