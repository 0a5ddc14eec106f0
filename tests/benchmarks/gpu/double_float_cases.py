"""Calls of DoubleFloat's operators, with their results in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.gpu.case import Case
from xlstm_kernels import DoubleFloat, default_backend

Numbers = NDArray[np.float64]
Define = Callable[..., Numbers]
#: Takes the cotangent and the operands, returns the gradient in each operand.
Pull = Callable[..., Sequence[Numbers]]

#: Greatest errors, in parts of the greatest number of a result.
DIGITS = 1e-12


def double_float_cases() -> Iterator[Case]:
    flat = (33, 129)
    for name, define, pull in (
        ("add", lambda a, b: a + b, lambda c, _a, _b: [c, c]),
        ("multiply", lambda a, b: a * b, lambda c, a, b: [c * b, c * a]),
        ("divide", lambda a, b: a / b, lambda c, a, b: [c / b, -c * a / b**2]),
    ):
        yield _case(f"{name} {flat}", define, define, pull, flat, flat)
    for name, define, pull in (
        ("exp", np.exp, lambda c, a: [c * np.exp(a)]),
        ("log", np.log, lambda c, a: [c / a]),
        ("sqrt", np.sqrt, lambda c, a: [c / (2 * np.sqrt(a))]),
    ):
        yield _case(f"{name} {flat}", partial(_method, name), define, pull, flat)
    for rows in ((70, 300), (3, 20_000)):  # the second ones take several threadgroups each
        yield _case(
            f"sum {rows}",
            lambda a: a.sum(axis=1),
            lambda a: a.sum(axis=1),
            lambda c, a: [c[:, None] + 0 * a],
            rows,
        )
        yield _case(
            f"vecdot {rows}",
            lambda a, b: a.vecdot(b),
            lambda a, b: (a * b).sum(axis=1),
            lambda c, a, b: [c[:, None] * b, c[:, None] * a],
            rows,
            rows,
        )
    left, right = (2, 65, 300), (2, 300, 70)
    yield _case(
        f"matmul {left} {right}",
        lambda a, b: a @ b,
        lambda a, b: a @ b,
        lambda c, a, b: [c @ b.swapaxes(1, 2), a.swapaxes(1, 2) @ c],
        left,
        right,
    )


def _method(name: str, a: DoubleFloat) -> DoubleFloat:
    return getattr(a, name)()


def _case(
    name: str,
    operator: Callable[..., DoubleFloat],
    define: Define,
    pull: Pull,
    *shapes: tuple[int, ...],
) -> Case:
    """Inputs are the parts of each operand, which is positive."""

    def call(*parts: mx.array, backend: str) -> Sequence[mx.array]:
        with default_backend(backend):
            pairs = zip(parts[::2], parts[1::2], strict=True)
            result = operator(*(DoubleFloat(*pair) for pair in pairs))
        return result.high, result.low

    def draw(generator: np.random.Generator) -> Sequence[Numbers]:
        highs = [0.5 + np.abs(generator.standard_normal(shape)) for shape in shapes]
        return [
            part
            for high in highs
            for part in (high, high * 2**-25 * generator.uniform(-1, 1, high.shape))
        ]

    def whole(parts: Sequence[Numbers]) -> list[Numbers]:
        return [high + low for high, low in zip(parts[::2], parts[1::2], strict=True)]

    def gradients(parts: Sequence[Numbers], cotangents: Sequence[Numbers]) -> Sequence[Numbers]:
        return [one for one in pull(cotangents[0], *whole(parts)) for _ in range(2)]

    return Case(
        f"DoubleFloat {name}",
        call,
        draw,
        lambda *parts: [define(*whole(parts))],
        gradients,
        states=2 * len(shapes),
        digits=DIGITS,
    )
