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
        "mx.sigmoid(z)",
        "mx.floor(z)",
        "mx.atan2(z, x)",
        "mx.arctan2(x, z)",
        "mx.remainder(z, 2)",
        "mx.nan_to_num(z)",
        "mx.bitwise_and(z, y)",
        "mx.conv1d(z, y)",
        "mx.fast.rms_norm(z, y, 1e-5)",
        "mx.fast.scaled_dot_product_attention(x, x, z, scale=1.0)",
        "mx.linalg.inv(z, stream=mx.cpu)",
        "mx.linalg.solve(x, z, stream=mx.cpu)",
        "mx.quantize(z)",
        "nn.silu(z)",
        "nn.gelu(z)",
        "nn.SiLU()(z)",
        "nn.LayerNorm(4)(z)",
        "nn.Conv1d(4, 4, 3)(z)",
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
        "z",
        "z[0]",
        "z * x",
        "y * z",
        "z + 1",
        "-z",
        "z.T.reshape(-1)",
        "mx.where(x > 0, z, 0)",
        "mx.concatenate([z, z])",
        "z @ y",
        "mx.fft.ifft(y)",
        "mx.fft.rfft2(y)",
        "x * 1j",
        "y + mx.array(1j)",
        "mx.exp(1j * x)",
        "x.astype(mx.complex64)",
        "mx.array([1 + 2j, 0])",
        "mx.zeros((3,), dtype=mx.complex64)",
        "x + 1j * x",
    ],
)
def test_what_is_complex(value: str) -> None:
    assert codes(function(f"return mx.sigmoid({value})"), "COMPLEX") == [UNSUPPORTED]


@pytest.mark.parametrize(
    "value",
    [
        "x",
        "y",
        "abs(z)",
        "mx.abs(z)",
        "z.abs()",
        "z.real",
        "mx.imag(z)",
        "z.imag + z.real",
        "z > 0",
        "mx.isnan(z)",
        "z.view(mx.float32)",
        "mx.fft.irfft(z, n=8)",
        "mx.linalg.norm(z)",
        "mx.var(z)",
        "mx.argmax(z)",
        "x * (2 + 1)",
        "mx.where(y, x, 0)",
    ],
)
def test_what_is_not_complex(value: str) -> None:
    assert codes(function(f"return mx.sigmoid({value})"), "COMPLEX") == []


@pytest.mark.parametrize(
    "expression",
    [
        "mx.sqrt(z)",
        "mx.log1p(z)",
        "mx.round(z)",
        "mx.exp(z) + mx.tanh(z)",
        "z // z",
        "z > z",
        "z @ z",
        "nn.relu(z)",
        "nn.gelu_approx(z)",
        "nn.Linear(4, 4)(z)",
        "mx.floor(z.real) + mx.floor(z.imag)",
        "sigmoid(z)",
        "z.unheard_of()",
        "x % 2",
        "~(x > 0)",
        "mx.fast.rms_norm(x, y, 1e-5)",
        "mx.take(z, y)",
    ],
)
def test_supported_operations(expression: str) -> None:
    assert codes(function(f"return {expression}"), "COMPLEX") == []


def test_a_branch_may_be_real() -> None:
    body = "if y:\n    z = z.real\nreturn mx.sigmoid(z)"
    assert codes(function(body), "COMPLEX") == []


@pytest.mark.parametrize(
    "body",
    [
        "with pytest.raises(ValueError):\n    mx.sigmoid(z)",
        "with self.assertRaises(ValueError):\n    w = z + 1\n    w % 2",
        "self.assertRaises(ValueError, lambda: mx.floor(z))",
        "with raises(ValueError, match='complex'), open(y):\n    ~z",
    ],
)
def test_errors_that_are_tested(body: str) -> None:
    assert codes(function(body), "COMPLEX") == []


def test_only_what_is_tested_is_meant_to_raise() -> None:
    body = "with pytest.raises(ValueError):\n    mx.sigmoid(z)\nwith open(y):\n    mx.floor(z)"
    (finding,) = findings(function(body), "COMPLEX")
    assert finding.line == FIRST_LINE + 6


def test_the_message_names_what_was_written() -> None:
    (finding,) = findings(function("return mx.linalg.inv(z)"), UNSUPPORTED)
    assert "`mx.linalg.inv`" in finding.message
    (finding,) = findings(function("return nn.SiLU()(z)"), UNSUPPORTED)
    assert "`nn.SiLU`" in finding.message
    (finding,) = findings(function("return z % x"), UNSUPPORTED)
    assert "`%`" in finding.message


@pytest.mark.parametrize(
    "expression",
    [
        "z.astype(mx.float32)",
        "z.astype(dtype=mx.float16)",
        "z.astype(mx.int32)",
        "z.astype(x.dtype)",
        "mx.astype(z, mx.bfloat16)",
        "mx.fft.ifft(z).astype(mx.float32)",
    ],
)
def test_casts(expression: str) -> None:
    assert codes(function(f"return {expression}"), "COMPLEX") == [CAST]


@pytest.mark.parametrize(
    "expression",
    [
        "z.astype(mx.bool_)",
        "z.astype(mx.complex64)",
        "z.astype(z.dtype)",
        "z.astype(y.dtype)",
        "z.astype(y)",
        "z.astype()",
        "z.real.astype(mx.float16)",
        "mx.abs(z).astype(mx.float16)",
        "mx.fft.irfft(z, n=8).astype(mx.bfloat16)",
        "z.view(mx.float32)",
        "x.astype(mx.float16)",
        "y.astype(mx.float32)",
    ],
)
def test_no_casts(expression: str) -> None:
    assert codes(function(f"return {expression}"), CAST) == []


@pytest.mark.parametrize("name", ["rfft", "rfft2", "rfftn"])
def test_real_transforms(name: str) -> None:
    (finding,) = findings(function(f"return mx.fft.{name}(z)"), "COMPLEX")
    assert finding.code == REAL_TRANSFORM
    assert f"mx.fft.{name[1:]} " in finding.help


@pytest.mark.parametrize(
    "expression",
    [
        "mx.fft.fft(z)",
        "mx.fft.rfft(x)",
        "mx.fft.rfft(y)",
        "mx.fft.rfft(z.real)",
        "mx.fft.rfft(mx.log(mx.abs(z)))",
        "mx.fft.irfft(z, n=8)",
    ],
)
def test_no_real_transforms(expression: str) -> None:
    assert codes(function(f"return {expression}"), REAL_TRANSFORM) == []
