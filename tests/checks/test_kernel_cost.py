"""KERNEL-PERF: divisions in loops, and private arrays that no register holds."""

from __future__ import annotations

import pytest

from tests.checks.findings import launched, messages

DIVISION = "KERNEL-PERF-001"
ARRAY = "KERNEL-PERF-002"
W = "('W', 16)"


@pytest.mark.parametrize(
    ("body", "owner"),
    [
        ("int w = x_shape[1]; for (int k = 0; k < n; ++k) y[k] = x[k % w];", "x_shape"),
        ("for (int k = 0; k < n; ++k) y[k] = x[k / n];", "n"),
        ("for (int k = 0; k < n; ++k) { int r = k; r %= n; y[k] = x[r]; }", "n"),
        ("for (uint k = 0; k < 64; ++k) y[k] = x[k % threads_per_grid.x];", "threads_per_grid"),
        ("for (int j = 0; j < n; ++j) for (int k = 0; k < n; ++k) y[k] = x[(j + k) / n];", "n"),
        ("int w = n * 2; for (int k = 0; k < n; ++k) { y[k / w] = x[k % w]; }", "n"),
    ],
)
def test_divisions(body: str, owner: str) -> None:
    (message,) = messages(launched(body, template=W), DIVISION)
    assert f"division by a value from `{owner}`" in message


@pytest.mark.parametrize(
    "body",
    [
        "int w = x_shape[1]; for (int k = 0; k < n; ++k) y[k] = x[n % w];",
        "for (int k = 0; k < n; ++k) { int w = k + 1; y[k] = x[k % w]; }",
        "for (int k = 0; k < n; ++k) { int r = k / n; for (int j = 0; j < n; ++j) y[j] = x[r]; }",
        "int w = min(n, 12); for (int k = 0; k < n; ++k) y[k] = x[k % w];",
    ],
)
def test_other_divisions(body: str) -> None:
    assert messages(launched(body, template=W), DIVISION) == []


@pytest.mark.parametrize(
    ("body", "owner"),
    [
        ("float a[8]; a[n] = 1; y[0] = a[0];", "n"),
        ("float a[64]; for (int k = 0; k < n; ++k) a[k] = x[k]; y[0] = a[0];", "n"),
        ("float a[2][4]; a[1][n] = 1; y[0] = a[0][0];", "n"),
        ("float a[32]; uint t = thread_position_in_grid.x; a[t] = x[t]; y[t] = a[t];",
         "thread_position_in_grid"),
        ("float a[128]; for (int k = 0; k < 128; ++k) { a[k + n] = x[k]; } y[0] = a[1];", "n"),
        ("float a[32]; int w = x_shape[0]; for (int k = 0; k < 8; ++k) a[k + w] = 1;", "x_shape"),
    ],
)  # fmt: skip
def test_arrays(body: str, owner: str) -> None:
    (message,) = messages(launched(body, template=W), ARRAY)
    assert f"private array `a`, by `{owner}`" in message


@pytest.mark.parametrize(
    "body",
    [
        "float a[64]; for (int k = 0; k < U; ++k) a[k] = x[k]; y[0] = a[3];",
        "float a[64]; for (int k = 0; k < min(n, 64); ++k) a[k] = x[k]; y[0] = a[3];",
        "float a[W]; for (int k = 0; k < W; ++k) a[k] = x[k]; y[0] = a[3];",
        "float a[8]; for (int k = 0; k < 8; ++k) { int j = 7 - k; a[j] = x[k]; } y[0] = a[3];",
        "const float a[8] = {1, 2, 3, 4, 5, 6, 7, 8}; y[0] = a[n];",
        "float4 v = 0; v[n % 4] = 1; y[0] = v.x;",
    ],
)
def test_other_arrays(body: str) -> None:
    assert messages(launched(body, template=W), ARRAY) == []
