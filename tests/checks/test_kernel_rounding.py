"""KERNEL-GRID-004: what is flagged, what is not, and where."""

from __future__ import annotations

import pytest

from tests.checks.findings import IMPORTS, codes, findings

FAMILY = "KERNEL-GRID-004"
X = "thread_position_in_grid.x"
GROUP = "threadgroup_position_in_grid.x"
PLAIN = f"uint i = {X}; y[i] = x[i] * 2;"
#: A body of two axes, of which the launch rounds up the second.
AT = (
    "uint2 p = thread_position_in_grid.xy; uint w = x_shape[1];"
    " uint i = p.y * uint(x_shape[1]) + p.x;"
)
PLANE = {
    "grid": "(m, up(n, 4), 1)",
    "shape": "(n, m)",
    "group": "(64, 4, 1)",
    "before": "n = x.shape[0]",
}
FUNCTIONS = (
    "import math\nTG = 256\n"
    "def up(n, to):\n    return (n + to - 1) // to * to\n"
    "def groups(n):\n    return -(-n // 256)\n"
)


def launching(
    body: str = PLAIN,
    grid: str = "((n + 255) // 256 * 256, 1, 1)",
    shape: str = "(n,)",
    group: str = "(256, 1, 1)",
    before: str = "n = x.size",
) -> str:
    before = "".join(f"    {line}\n" for line in before.split("\n"))
    return (
        f'{FUNCTIONS}K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
        f'    source="""{body}""")\n'
        "def launch(x: mx.array, m: int, tg: int):\n"
        f"{before}"
        f"    return K(inputs=[x], grid={grid}, threadgroup={group},\n"
        f"        output_shapes=[{shape}], output_dtypes=[x.dtype])[0]\n"
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"grid": "(up(n, 256), 1, 1)"},
        {"grid": "(math.ceil(n / 256) * 256, 1, 1)"},
        {"grid": "(256 * ((n + TG - 1) // TG), 1, 1)"},
        {"grid": "(groups(n) * TG, 1, 1)"},
        {"grid": "((n // 256 + 1) * 256, 1, 1)"},
        {"grid": "(-(-n // tg) * tg, 1, 1)", "group": "(tg, 1, 1)"},
        {"grid": "(-(-n // tg) * tg, 1, 1)", "group": "(64, 1, 1)"},
        {"grid": "(total, 1, 1)", "before": "n = x.size\ntotal = up(n, TG)"},
        {"grid": "(up(x.size, TG), 1, 1)", "shape": "x.shape"},
        {"grid": "(up(x.shape[0], TG), 1, 1)", "shape": "x.shape"},
        {"grid": "(up(n * m, TG), 1, 1)", "shape": "(n, m)"},
        {"body": f"y[{X}] = 1;"},
        {"body": f"uint i = {X}; float v = 0; if (i < x_shape[0]) v = x[i]; y[i] = v;"},
        {
            "body": f"uint i = {GROUP} * 256 + thread_position_in_threadgroup.x; y[i] = x[i];",
        },
        {"body": f"uint i = {X}; for (uint k = 0; k < 4; ++k) y[i * 4 + k] = x[i * 4 + k];"},
        {"body": f"uint i = {X}; int w = x_shape[1]; y[i * w] = x[i * w];", "shape": "(n, 1)"},
        {"body": f"device auto* p = y + {X}; p[0] = 1;"},
        {
            "body": f"uint j = thread_position_in_grid.y; y[j * 64 + {X}] = 1;",
            "grid": "(64, up(m, 4), 1)",
            "shape": "(m, 64)",
            "group": "(64, 4, 1)",
        },
        {**PLANE, "body": f"{AT} if (p.x >= uint(x_shape[1])) return; y[i] = x[i];"},
        {**PLANE, "body": f"{AT} if (p.x < uint(x_shape[1])) y[i] = x[i];"},
        {**PLANE, "body": f"{AT} if (p.x < w && x[p.x] > 0) y[i] = x[i];"},
        {**PLANE, "body": f"{AT} if (p.x % 2 == 0) y[i] = x[i];"},
    ],
)
def test_rounded_up_and_unguarded(given: dict[str, str]) -> None:
    assert codes(launching(**given), FAMILY) == [FAMILY]


@pytest.mark.parametrize(
    "given",
    [
        {"grid": "(up(n * m, m), 1, 1)", "shape": "(n, m)", "group": "(m, 1, 1)"},
        {"grid": "(up(n * 512, TG), 1, 1)", "shape": "(n, 512)"},
        {"grid": "(n, 1, 1)"},
        {**PLANE, "body": f"{AT} if (p.x >= w || p.y >= uint(x_shape[0])) return; y[i] = 1;"},
        {**PLANE, "body": f"{AT} if (p.x >= w) return; if (p.y < uint(x_shape[0])) y[i] = 1;"},
        {**PLANE, "body": f"{AT} if (i < uint(x_shape[0] * x_shape[1])) y[i] = 1;"},
        {**PLANE, "body": f"{AT} if (p.x < w && x[i] > 0) y[i] = 1;"},
        {**PLANE, "body": f"{AT} if (x_shape[0] % 4 == 0 && p.x < w) y[i] = 1;"},
        {**PLANE, "body": f"{AT} uint e = x_shape[0] - p.y; if (p.x < w) if (e > 0) y[i] = 1;"},
        {"grid": "(n // 256 * 256, 1, 1)"},
        {"body": f"uint i = {X}; if (i < x_shape[0]) y[i] = x[i];"},
        {"body": f"uint i = {X}; if (i >= x_shape[0]) return; y[i] = x[i];"},
        {"body": f"uint i = {X}; if (x[i] > 0) y[i] = x[i];"},
        {"body": f"uint i = metal::min({X}, uint(x_shape[0] - 1)); y[i] = x[i];"},
        {"body": f"uint i = {X} % x_shape[0]; y[i] = x[i];"},
        {"body": f"for (uint i = {X}; i < x_shape[0]; i += 4096) y[i] = x[i];"},
        {"body": f"uint i = {X}; y[i < x_shape[0] ? i : 0] = 1;"},
        {"body": f"uint i = {X}; while (i < x_shape[0]) {{ y[i] = 1; i += 4096; }}"},
        {"body": f"if (thread_index_in_threadgroup == 0) y[{GROUP}] = 1;"},
        {"body": "y[thread_position_in_threadgroup.x] = 1;"},
        {"body": "undeclared(thread_position_in_grid.x, y);"},
        {"grid": "(up(1024, TG), 1, 1)", "shape": "(1024,)"},
        {"shape": "(up(n, 256),)"},
        {"shape": "(total,)", "before": "n = x.size\ntotal = up(n, TG)"},
        {"shape": "(m,)"},
        {"shape": "unknown(n)"},
        {"grid": "(up(x.size, TG), 1, 1)", "shape": "padded.shape", "before": "padded = pad(x)"},
        {"before": "n = x.size\nassert n % 256 == 0"},
        {"before": "n = x.size\nif n % TG:\n    raise ValueError(n)"},
    ],
)
def test_exact_guarded_or_padded(given: dict[str, str]) -> None:
    assert codes(launching(**given), FAMILY) == []


def test_the_entry_is_underlined() -> None:
    program = launching()
    (found,) = findings(program, FAMILY)
    line = (IMPORTS + program).split("\n")[found.line - 1]
    assert line[found.column - 1 : found.end_column - 1] == "(n + 255) // 256 * 256"
    assert "out-of-bounds write to `y`" in found.message
