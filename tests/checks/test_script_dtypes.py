"""Rules about dtypes that a script's callers, results, fields and layers show."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

SCRIPT = "\nif __name__ == '__main__':\n    run()\n"
PEAKS = """
from dataclasses import dataclass
from functools import partial
best = partial(mx.argmax, axis=-1)
def peak(x: mx.array) -> mx.array:
    return mx.argmax(x, axis=-1)
@dataclass
class Peak:
    index: mx.array
    def before(self) -> mx.array:
        return self.index - {by}
class Track:
    step = 1
    def __init__(self, x: mx.array):
        self.x = x
    @property
    def best(self) -> mx.array:
        return peak(self.x)
    def __call__(self, frame: mx.array) -> mx.array:
        return frame
def run(x=mx.ones((2, 3))):
    {line}
"""
FOUND = [
    "return peak(x) - 1",
    "return mx.maximum(peak(x) - 1, 0)",
    "return mx.clip(best(x) - 1, 0, 4)",
    "return Track(x).best - Track.step",
    "return Peak(index=peak(x)).before()",
    "return Track(x)(peak(x)) - 1",
    "i = peak(x)\n    def before():\n        return i - 1\n    return before()",
]
SILENT = [
    "return mx.maximum(peak(x), 1) - 1",
    "return mx.where(peak(x) > 0, peak(x) - 1, 0)",
    "return peak(x).astype(mx.int32) - 1",
    "i = mx.clip(peak(x), 1, 4)\n    return i - 1",
    "i, j = peak(x), best(-x)\n    return mx.minimum(i - j, j - i)",
]


@pytest.mark.parametrize(
    ("line", "expected"), [(x, ["DTYPE-010"]) for x in FOUND] + [(x, []) for x in SILENT]
)
def test_differences_of_indices(line: str, expected: list[str]) -> None:
    program = PEAKS.format(line=line, by=1 if "before()" in line else "mx.array(1)")
    assert codes(program + SCRIPT, "DTYPE-010") == expected


FRAMES = """
class Motion:
    def __init__(self):
        self.last = None
    def __call__(self, frame: mx.array) -> mx.array:
        moved = None if self.last is None else mx.abs(frame - self.last)
        self.last = frame
        return moved
def camera(values):
    for v in values:
        yield mx.full((4, 4), v, dtype=mx.{dtype})
def run():
    motion = Motion()
    return [motion(frame) for frame in camera([1, 2])]
"""
ENERGY = """
def rms(x: mx.array) -> mx.array:
    return mx.sqrt(mx.mean({x} * {x}, axis=-1))
def rows(x: mx.array, size: int) -> mx.array:
    return x[: x.size // size * size].reshape(-1, size)
class Gate:
    def levels(self, pcm: mx.array) -> mx.array:
        return rms(rows(pcm, 4))
    def __call__(self, pcm: mx.array) -> mx.array:
        return rows(pcm, 4) * self.levels(pcm)[:, None]
def load(n: int) -> mx.array:
    return mx.sin(mx.arange(n)).astype(mx.float16)
def run():
    return Gate()(load(16))
"""


@pytest.mark.parametrize(
    ("code", "program", "expected"),
    [
        ("DTYPE-010", FRAMES.format(dtype="uint8"), 1),
        ("DTYPE-010", FRAMES.format(dtype="int16"), 0),
        ("DTYPE-019", ENERGY.format(x="x"), 1),
    ],
)
def test_dtypes_through_methods(code: str, program: str, expected: int) -> None:
    assert codes(program + SCRIPT, code) == [code] * expected


MODEL = """
def mask(n: int) -> mx.array:
    return mx.triu(mx.full((n, n), -1e4), k=1)
class Table:
    def __init__(self, n: int):
        self.cos = mx.cos(mx.arange(n) * mx.array(0.5))
    def rotate(self, x: mx.array) -> mx.array:
        {rotate}
class Block(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.layers = [nn.Linear(dims, dims) for _ in range(2)]
        self.act = nn.ReLU()
        self._table = Table(dims)
    def __call__(self, x: mx.array) -> mx.array:
        {call}
def run():
    block = Block(4)
    {set_dtype}
    return block(mx.ones((4, 4), dtype=mx.bfloat16))
"""
SET = "block.set_dtype(mx.bfloat16)"
APPLIED = "block.apply(lambda p: p.astype(mx.bfloat16))"
LOOP = "out = mx.zeros({})\n        for layer in self.layers:\n            out = out + layer(x)\n"
RETURN = "        return out"


@pytest.mark.parametrize(
    ("call", "rotate", "set_dtype", "expected"),
    [
        (LOOP.format("x.shape") + RETURN, "return x", APPLIED, 1),
        (LOOP.format("x.shape, dtype=x.dtype") + RETURN, "return x", SET, 0),
        (LOOP.format("x.shape") + RETURN + ".astype(x.dtype)", "return x", SET, 0),
        ("return mx.softmax(self.layers[0](x) + mask(4), axis=-1)", "return x", SET, 1),
        (
            "return self._table.rotate(self.layers[0](x))",
            "y = x * self.cos\n        return y.astype(x.dtype)",
            SET,
            0,
        ),
    ],
)
def test_promotions_in_half_precision_models(
    call: str, rotate: str, set_dtype: str, expected: int
) -> None:
    program = MODEL.format(call=call, rotate=rotate, set_dtype=set_dtype) + SCRIPT
    assert codes(program, "DTYPE-001") == ["DTYPE-001"] * expected
