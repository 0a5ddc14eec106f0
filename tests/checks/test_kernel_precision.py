"""KERNEL-PRECISION: sums and literals in half precision."""

from __future__ import annotations

import pytest

from tests.checks.findings import launched, messages

SUM = "KERNEL-PRECISION-001"
LITERAL = "KERNEL-PRECISION-002"


def complaints(
    code: str, body: str, kind: str = "mx.float16", dtype: str = "mx.float16"
) -> list[str]:
    template = f"('T', {kind}), ('N', 16), ('M', 64)"
    return messages(launched(body, template=template, dtype=dtype), code)


SUMS = {
    "half s = 0; for (int k = 0; k < n; ++k) s = s + x[k]; y[0] = s;": "`s` accumulates in float16",
    "half s = 0; for (int k = 0; k < n; ++k) s = half(s + x[k]); y[0] = s;": "`s` accumulates in",
    "half s = 0; for (int k = 0; k < n; ++k) s = fma(x[k], x[k], s); y[0] = s;": "`s` accumulates",
    "half4 s = 0; for (int k = 0; k < n; ++k) s += half4(x[k]); y[0] = s.x;": "`s` accumulates in",
    "T s = 0; for (int k = 0; k < n; ++k) s += x[k]; y[0] = s;": "in float16",
    "int k = 0; half s = 0; while (k < n) { s += x[k]; ++k; } y[0] = s;": "`s` accumulates in",
    "half s[4]; for (int j = 0; j < 4; ++j) for (int k = 0; k < n; ++k) s[j] += x[k];": "`s` acc",
    "for (int k = 0; k < n; ++k) y[0] += x[k];": "`y` accumulates",
}


@pytest.mark.parametrize("body", SUMS)
def test_sums_in_half(body: str) -> None:
    (message,) = complaints(SUM, body)
    assert SUMS[body] in message


@pytest.mark.parametrize(
    "body",
    [
        "half s = 0; for (int k = 0; k < n; ++k) s = 0.9h * s + x[k]; y[0] = s;",
        "half s; for (int k = 0; k < n; ++k) { s = 0; s += x[k]; y[k] = s; }",
        "for (int k = 0; k < n; ++k) y[k] += x[k];",
        "half s[64]; for (int k = 0; k < 64; ++k) s[k] += x[k];",
        "half s = 0; for (int k = 0; k < n; ++k) s *= x[k]; y[0] = s;",
    ],
)
def test_other_loops(body: str) -> None:
    assert complaints(SUM, body) == []


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("half h = 1.0h; half r = h * 0.5f; y[0] = r;", "literal `0.5f` promotes float16"),
        ("half h = 1.0h; half r = h * 0.5; y[0] = r;", "promotes float16 arithmetic to float"),
        ("half h = 1.0h; h = 1.0 / (1.0 + h); y[0] = h;", "literal `1.0` promotes"),
        ("T h = 1.0h; y[0] = T(h * 0.5f);", "literal `0.5f` promotes float16"),
        ("bfloat b = bfloat(1); bfloat r = b * 0.5f;", "no implicit conversion to bfloat"),
        ("bfloat b = bfloat(1); y[0] = bfloat(b * 0.5f);", "promotes bfloat16 arithmetic"),
    ],
)
def test_literals_that_promote(body: str, reported: str) -> None:
    (message,) = complaints(LITERAL, body)
    assert reported in message
