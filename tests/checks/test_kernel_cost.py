"""KERNEL-PERF, KERNEL-GRID-005 and 006: divisions in loops, private arrays, idle lanes."""

from __future__ import annotations

import pytest

from tests.checks.findings import IMPORTS, codes, findings, launched, messages

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


FAMILY = "KERNEL-GRID-00"


def launching(grid: str, threadgroup: str, before: str = "pass") -> str:
    return (
        'K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
        '    source="uint i = thread_position_in_grid.x; y[i] = x[i];")\n'
        "TG = 512\n"
        "def launch(x: mx.array, n: int, m: int, tg: int = 2048):\n"
        f"    {before}\n"
        f"    return K(inputs=[x], grid={grid}, threadgroup={threadgroup},\n"
        "        output_shapes=[x.shape], output_dtypes=[x.dtype])[0]\n"
    )


@pytest.mark.parametrize(
    ("grid", "threadgroup", "words"),
    [
        ("(n, m, 1)", "(64, 32, 1)", "has 2048 threads"),
        ("(n, 1, 1)", "(TG * 4, 1, 1)", "has 2048 threads"),
        ("(n, m, n)", "(16, 16, 8)", "has 2048 threads"),
        ("(n, m, 1)", "(TG, 4, m)", "has 2048 threads"),
        ("shape", "(TG, 3, 1)", "has 1536 threads"),
    ],
)
def test_too_many_threads(grid: str, threadgroup: str, words: str) -> None:
    (found,) = findings(launching(grid, threadgroup), FAMILY)
    assert found.code == "KERNEL-GRID-005"
    assert words in found.message


@pytest.mark.parametrize(
    ("grid", "threadgroup", "before"),
    [
        ("(32, 1, 1)", "(2048, 1, 1)", ""),
        ("(n, 16, 1)", "(64, 64, 1)", ""),
    ],
)
def test_as_many_threads_as_metal_allows(grid: str, threadgroup: str, before: str) -> None:
    assert codes(launching(grid, threadgroup, before or "pass"), FAMILY) == []


@pytest.mark.parametrize(
    ("grid", "threadgroup", "lanes"),
    [
        ("(x.shape[0] * x.shape[1], 1, 1)", "(16, 1, 1)", 16),
        ("(4096, 1, 1)", "(48, 1, 1)", 16),
        ("(x.shape[0], x.shape[1], 1)", "(10, 10, 1)", 28),
        ("(x.size // 100 * 100, 1, 1)", "(100, 1, 1)", 28),
    ],
)
def test_idle_lanes(grid: str, threadgroup: str, lanes: int) -> None:
    program = launching(grid, threadgroup)
    (found,) = findings(program, FAMILY)
    assert found.code == "KERNEL-GRID-006"
    assert f"leaves {lanes} of 32 lanes" in found.message
    line = (IMPORTS + program).split("\n")[found.line - 1]
    assert line[found.column - 1 : found.end_column - 1] == threadgroup[1:-1]


@pytest.mark.parametrize(("length", "flagged"), [(4, False), (4096, True)])
def test_arrays_of_a_known_size(length: int, flagged: bool) -> None:
    for grid in ("(z.size, 1, 1)", "(z.size // 4 * 4, 1, 1)"):
        program = launching(grid, "(4, 1, 1)", f"z = mx.zeros({length})")
        assert codes(program, FAMILY) == ["KERNEL-GRID-006"] * flagged


@pytest.mark.parametrize(
    ("grid", "threadgroup"),
    [
        ("(x.size // n * 100, 1, 1)", "(100, 1, 1)"),
    ],
)
def test_full_lanes_and_small_grids(grid: str, threadgroup: str) -> None:
    assert codes(launching(grid, threadgroup), FAMILY) == []
