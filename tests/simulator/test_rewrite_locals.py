"""Tests of what the rewriter puts in behind locals that are declared without a value."""

from __future__ import annotations

import pytest

from embercoach.metal.syntax import parse_body, parse_unit
from embercoach.simulator.rewrite.local_variables import fillings


def filled(body: str) -> str:
    """A body with its fillings."""
    for filling in sorted(fillings(parse_body(body)), key=lambda f: -f.at):
        body = body[: filling.at] + filling.text + body[filling.at :]
    return body


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("float a;", "float a; EMBER_FILL(a)"),
        ("float a, b[4];", "float a, b[4]; EMBER_FILL(a) EMBER_FILL(b)"),
        ("float a = 1, b;", "float a = 1, b; EMBER_FILL(b)"),
        ("thread half4 acc[2][N];", "thread half4 acc[2][N]; EMBER_FILL(acc)"),
        ("metal::vec<T, 2> v;", "metal::vec<T, 2> v; EMBER_FILL(v)"),
        ("Moments m;", "Moments m; EMBER_FILL(m)"),
        ("if (x) { int k; }", "if (x) { int k; EMBER_FILL(k) }"),
        (
            "switch (x) { case 0: int k; k = 1; }",
            "switch (x) { case 0: int k; EMBER_FILL(k) k = 1; }",
        ),
        (
            "auto f = [&]() { int k; return k; };",
            "auto f = [&]() { int k; EMBER_FILL(k) return k; };",
        ),
    ],
)
def test_local_without_a_value_is_filled(declaration: str, expected: str) -> None:
    assert filled(declaration) == expected


@pytest.mark.parametrize(
    "declaration",
    [
        "float a = 1;",
        "float a{1};",
        "float a(1);",
        "float c, s = sincos(v, c);",
        "const float a[2] = {1, 2};",
        "constexpr int n = 3;",
        "static int n;",
        "threadgroup float a[3];",
        "device float* p;",
        "float& r = a;",
        "float f(int);",
        "auto [a, b] = pair;",
        "for (int i, j = 0; j < 3; ++j) {}",
        "struct S { float a; };",
        "using T = float;",
        "extern float a;",
    ],
)
def test_everything_else_stays(declaration: str) -> None:
    assert filled(declaration) == declaration


def test_functions_of_the_header_but_no_constants_and_no_members() -> None:
    header = """
struct S { float a; float f() { float b; return b; } };
constant float c[2] = {1, 2};
constexpr int n() { int k = 0; int l; return k; }
float g() { float d; return d; }
"""
    names = [filling.text for filling in fillings(parse_unit(header))]
    assert names == [" EMBER_FILL(b)", " EMBER_FILL(d)"]
