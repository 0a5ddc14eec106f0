"""Products of complex numbers whose parts are the last axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mlx.core as mx
import numpy as np

import xlstm_kernels as pack
from tests.benchmarks.gpu.case import Case, Numbers, normal


def complex_cases() -> Iterator[Case]:
    for shape in ((1, 2), (33, 129, 2)):
        for conjugate in (False, True):
            yield complex_case(shape, conjugate)
            yield double_case(shape, conjugate)


def complex_case(shape: tuple[int, ...], conjugate: bool) -> Case:
    def call(a: mx.array, b: mx.array, backend: str) -> list[mx.array]:
        return [pack.complex_multiply(a, b, conjugate=conjugate, backend=backend)]

    return _case("complex_multiply", call, shape, conjugate)


def double_case(shape: tuple[int, ...], conjugate: bool) -> Case:
    """Of double-floats with low parts of zero; the outputs are rounded to float32."""

    def call(a: mx.array, b: mx.array, backend: str) -> list[mx.array]:
        factors = map(pack.DoubleFloat.from_array, (a, b))
        return [pack.complex_multiply(*factors, conjugate=conjugate, backend=backend).high]

    return _case("complex_multiply, DoubleFloat", call, shape, conjugate)


def _case(name: str, call: object, shape: tuple[int, ...], conjugate: bool) -> Case:
    def values(a: Numbers, b: Numbers) -> list[Numbers]:
        x, y = _complex(a), _complex(b)
        return [_parts(x * (y.conj() if conjugate else y))]

    def gradients(arrays: Sequence[Numbers], cotangents: Sequence[Numbers]) -> list[Numbers]:
        x, y, pulled = map(_complex, (*arrays, *cotangents))
        in_b = x * pulled.conj() if conjugate else pulled * x.conj()
        return [_parts(pulled * (y if conjugate else y.conj())), _parts(in_b)]

    full = f"{name} {shape}{', conjugate' * conjugate}"
    return Case(full, call, normal(shape, shape), values, gradients)


def _complex(parts: Numbers) -> np.ndarray:
    return parts[..., 0] + 1j * parts[..., 1]


def _parts(numbers: np.ndarray) -> Numbers:
    return np.stack([numbers.real, numbers.imag], axis=-1)
