"""KERNEL-GRID-005 and 006: what is flagged, what is not, and where."""

from __future__ import annotations

import pytest

from tests.checks.findings import IMPORTS, codes, findings

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
