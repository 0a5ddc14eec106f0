"""KERNEL-GRID-004 and KERNEL-PRECISION: rounded grids, sums and literals in half precision."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, findings, launched, messages

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


SHARED = (
    "threadgroup float t[256]; uint k = thread_index_in_threadgroup; t[k] = k;"
    " threadgroup_barrier(mem_flags::mem_threadgroup);"
)


@pytest.mark.parametrize(
    ("body", "advice"),
    [(PLAIN, "Pass the number"), (f"{SHARED} uint i = {X}; y[i] = t[255 - k];", "Keep the grid")],
)
def test_groups_that_share_memory_stay_whole(body: str, advice: str) -> None:
    (found,) = findings(launching(body), FAMILY)
    assert advice in found.help


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
