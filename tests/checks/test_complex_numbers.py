"""COMPLEX: what is flagged, what is not, and where."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.checks.findings import IMPORTS, codes, findings

FIRST_LINE = IMPORTS.count("\n") + 1
UNSUPPORTED, CAST, REAL_TRANSFORM = "COMPLEX-001", "COMPLEX-002", "COMPLEX-003"


def function(body: str) -> str:
    """A function of a real ``x``, a complex ``z`` and an unknown ``y``."""
    start = "def work(x: mx.array, y):\n    x = x.astype(mx.float32)\n    z = mx.fft.fft(x)\n"
    return start + indent(dedent(body).strip(), "    ")


@pytest.mark.parametrize(
    "expression",
    [
        "mx.arctan2(x, z)",
        "mx.conv1d(z, y)",
        "mx.linalg.solve(x, z, stream=mx.cpu)",
        "z % 2",
        "y % z",
        "z & x",
        "z << 1",
        "~z",
    ],
)
def test_unsupported_operations(expression: str) -> None:
    (finding,) = findings(function(f"return {expression}"), "COMPLEX")
    assert finding.code == UNSUPPORTED
    assert (finding.line, finding.column) == (FIRST_LINE + 3, 12)


@pytest.mark.parametrize(
    "value",
    [
        "y * z",
        "mx.concatenate([z, z])",
    ],
)
def test_what_is_complex(value: str) -> None:
    assert codes(function(f"return mx.sigmoid({value})"), "COMPLEX") == [UNSUPPORTED]


@pytest.mark.parametrize(
    "value",
    [
        "abs(z)",
    ],
)
def test_what_is_not_complex(value: str) -> None:
    assert codes(function(f"return mx.sigmoid({value})"), "COMPLEX") == []


@pytest.mark.parametrize(
    "expression",
    [
        "z.unheard_of()",
        "~(x > 0)",
    ],
)
def test_supported_operations(expression: str) -> None:
    assert codes(function(f"return {expression}"), "COMPLEX") == []


@pytest.mark.parametrize(
    "body",
    [
        "with pytest.raises(ValueError):\n    mx.sigmoid(z)",
        "with self.assertRaises(ValueError):\n    w = z + 1\n    w % 2",
        "with raises(ValueError, match='complex'), open(y):\n    ~z",
    ],
)
def test_errors_that_are_tested(body: str) -> None:
    assert codes(function(body), "COMPLEX") == []


def test_only_what_is_tested_is_meant_to_raise() -> None:
    body = "with pytest.raises(ValueError):\n    mx.sigmoid(z)\nwith open(y):\n    mx.floor(z)"
    (finding,) = findings(function(body), "COMPLEX")
    assert finding.line == FIRST_LINE + 6


@pytest.mark.parametrize(
    "expression",
    [
        "z.astype(mx.float32)",
        "z.astype(dtype=mx.float16)",
        "mx.astype(z, mx.bfloat16)",
    ],
)
def test_casts(expression: str) -> None:
    assert codes(function(f"return {expression}"), "COMPLEX") == [CAST]


@pytest.mark.parametrize(
    "expression",
    [
        "z.astype(mx.bool_)",
        "z.astype(z.dtype)",
        "z.astype()",
    ],
)
def test_no_casts(expression: str) -> None:
    assert codes(function(f"return {expression}"), CAST) == []


@pytest.mark.parametrize("name", ["rfft", "rfft2", "rfftn"])
def test_real_transforms(name: str) -> None:
    (finding,) = findings(function(f"return mx.fft.{name}(z)"), "COMPLEX")
    assert finding.code == REAL_TRANSFORM
    assert f"mx.fft.{name[1:]} " in finding.help
