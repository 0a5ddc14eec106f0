"""KERNEL-CACHE-002: what is flagged, what is not, and where."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.checks.findings import IMPORTS, codes, findings

FAMILY = "KERNEL-CACHE-002"
KERNEL = (
    "from functools import cache\n"
    'K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
    '    source="uint i = thread_position_in_grid.x; y[i] = x[i] + N;")\n'
)


def launch(value: str) -> str:
    return (
        f'K(inputs=[x], template=[("T", x.dtype), ("N", {value})], grid=(n, 1, 1),'
        " threadgroup=(32, 1, 1), output_shapes=[x.shape], output_dtypes=[x.dtype])[0]"
    )


def function(*lines: str) -> str:
    return KERNEL + "def use(x: mx.array, n: int, step: int):\n" + indent("\n".join(lines), "    ")


def layer(value: str, step: str = "self.step += 1", before: str = "pass") -> str:
    return (
        f"{KERNEL}class Layer(nn.Module):\n"
        "    def __init__(self):\n        self.step = 0\n        self.width = 4\n"
        "        self.width += 4\n"
        f"    def __call__(self, x: mx.array, n: int):\n        {before}\n        {step}\n"
        f"        return {launch(value)}\n"
        "    def reset(self):\n        self.step = 0\n"
    )


LONG = "for i in range(x.shape[0]):"


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (function("for i in range(1, x.size, 1):", f"    x = {launch('i + 1')}"), "i + 1"),
        (function("for _ in range(n):", f"    {LONG}", f"        x = {launch('i * 2')}"), "i * 2"),
        (function("at = 0", "while at < n:", f"    x = {launch('at')}", "    at += 32"), "at"),
        (function("at = 0", "for y in x:", f"    x = {launch('at')}", "    at = at + n"), "at"),
        (function(LONG, "    j = i + 1", f"    x = {launch('j')}"), "j"),
        (function("for i, x in enumerate(step, start=1):", f"    y = {launch('i')}"), "i"),
        (function("for i in itertools.count():", f"    x = {launch('i')}"), "i"),
        (function(f"return {launch('x.max().item()')}"), "x.max().item()"),
        (function("top = int(mx.sum(x).item())", f"return {launch('top')}"), "top"),
        (function(f"return {launch('max(1, x[0].item())')}"), "max(1, x[0].item())"),
        (layer("self.step"), "self.step"),
        (layer("self.step * 2", "self.step = self.step + n"), "self.step * 2"),
    ],
)
def test_template_values_that_change(program: str, text: str) -> None:
    (found,) = findings(program, FAMILY)
    line = (IMPORTS + program).split("\n")[found.line - 1]
    assert line[found.column - 1 : found.end_column - 1] == text


@pytest.mark.parametrize(
    "program",
    [
        function("for i, layer in enumerate(step):", f"    x = {launch('i')}"),
        function("for i, (a, b) in enumerate(step):", f"    x = {launch('i')} * a"),
        function("for i, x in enumerate(step):", f"    y = {launch('n')}"),
        function("for i in range(0, x.shape[0], 512):", f"    x = {launch('i')}"),
        function("for i in (2, 4, 8):", f"    x = {launch('i')}"),
        function(f"return {launch('bool(mx.all(x).item())')}"),
        function(f"return {launch('(x > 0).all().item()')}"),
        function("def inner(i):", f"    return {launch('i')}", LONG, "    x = inner(3)"),
        function(f"return {launch('x.max().item()')}").replace("def use", "@cache\ndef use"),
        layer("self.width"),
        layer("self.step", "self.step = n"),
        layer("self.step", before="self.step = 0"),
        f"{KERNEL}x = mx.ones(4)\nn = 4\nfor i in range(1000):\n    {launch('i')}\n",
    ],
)
def test_values_that_stay_or_are_few(program: str) -> None:
    assert codes(program, FAMILY) == []


def building(source: str, before: str = "") -> str:
    return (
        "class Layer(nn.Module):\n"
        "    def __init__(self):\n        self.step = 0\n        self.width = 4\n"
        f"    def __call__(self, x: mx.array, n: int):\n        {before or 'self.step += 1'}\n"
        f"        kernel = mx.fast.metal_kernel(name='k', input_names=['x'], output_names=['y'],\n"
        f"            source={source})\n"
        "        return kernel(inputs=[x], grid=(n, 1, 1), threadgroup=(32, 1, 1),\n"
        "            output_shapes=[x.shape], output_dtypes=[x.dtype])[0]\n"
    )


def test_values_that_change_in_the_source() -> None:
    program = building("f'y[0] = x[0] + {self.step};'")
    (found,) = findings(program, FAMILY)
    line = (IMPORTS + program).split("\n")[found.line - 1]
    assert line[found.column - 1 : found.end_column - 1] == "self.step"
    assert codes(building("f'y[0] = {x.max().item()};'"), FAMILY) == [FAMILY]
    assert codes(building("text", "text = f'y[0] = {x.max().item()};'"), FAMILY) == [FAMILY]
