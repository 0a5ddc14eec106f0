"""KERNEL-GRID-004: what is flagged, what is not, and where."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

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
        {"grid": "((n // 256 + 1) * 256, 1, 1)"},
        {"grid": "(-(-n // tg) * tg, 1, 1)", "group": "(tg, 1, 1)"},
        {"grid": "(-(-n // tg) * tg, 1, 1)", "group": "(64, 1, 1)"},
        {"grid": "(up(x.shape[0], TG), 1, 1)", "shape": "x.shape"},
        {**PLANE, "body": f"{AT} if (p.x >= uint(x_shape[1])) return; y[i] = x[i];"},
        {**PLANE, "body": f"{AT} if (p.x < uint(x_shape[1])) y[i] = x[i];"},
        {**PLANE, "body": f"{AT} if (p.x < w && x[p.x] > 0) y[i] = x[i];"},
    ],
)
def test_rounded_up_and_unguarded(given: dict[str, str]) -> None:
    assert codes(launching(**given), FAMILY) == [FAMILY]


@pytest.mark.parametrize(
    "given",
    [
        {"grid": "(up(n * m, m), 1, 1)", "shape": "(n, m)", "group": "(m, 1, 1)"},
        {"grid": "(up(n * 512, TG), 1, 1)", "shape": "(n, 512)"},
        {**PLANE, "body": f"{AT} if (p.x >= w || p.y >= uint(x_shape[0])) return; y[i] = 1;"},
        {**PLANE, "body": f"{AT} if (p.x >= w) return; if (p.y < uint(x_shape[0])) y[i] = 1;"},
        {**PLANE, "body": f"{AT} if (p.x < w && x[i] > 0) y[i] = 1;"},
        {**PLANE, "body": f"{AT} uint e = x_shape[0] - p.y; if (p.x < w) if (e > 0) y[i] = 1;"},
        {"body": f"uint i = {X}; if (x[i] > 0) y[i] = x[i];"},
        {"body": f"uint i = metal::min({X}, uint(x_shape[0] - 1)); y[i] = x[i];"},
        {"body": f"uint i = {X} % x_shape[0]; y[i] = x[i];"},
        {"body": f"uint i = {X}; y[i < x_shape[0] ? i : 0] = 1;"},
        {"body": f"if (thread_index_in_threadgroup == 0) y[{GROUP}] = 1;"},
        {"body": "undeclared(thread_position_in_grid.x, y);"},
        {"shape": "unknown(n)"},
        {"grid": "(up(x.size, TG), 1, 1)", "shape": "padded.shape", "before": "padded = pad(x)"},
        {"before": "n = x.size\nassert n % 256 == 0"},
        {"before": "n = x.size\nif n % TG:\n    raise ValueError(n)"},
    ],
)
def test_exact_guarded_or_padded(given: dict[str, str]) -> None:
    assert codes(launching(**given), FAMILY) == []
