"""Products with quantized matrices of random words, scales and biases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mlx.core as mx
import numpy as np

import xlstm_kernels as pack
from tests.benchmarks.gpu.case import Case, Numbers, normal
from tests.xlstm_kernels.quantized import oracle


def quantized_cases() -> Iterator[Case]:
    """Each number of rows, with outputs that do not fill a simdgroup."""
    for rows in range(1, 9):
        for bits, group_size in ((4, 64), (8, 32), (4, 128)):
            yield quantized_case(rows, 1001, 896, group_size, bits)
    yield quantized_case(8, 4096, 1024, 64, 4)


def quantized_case(rows: int, outputs: int, inner: int, group_size: int, bits: int) -> Case:
    """Biases are about those of a symmetric matrix, and so the numbers have the usual size."""
    generator = np.random.default_rng(rows)
    w = generator.integers(0, 2**32, (outputs, inner * bits // 32), dtype=np.uint32)

    def call(*arrays: mx.array, backend: str) -> list[mx.array]:
        x, scales, biases = arrays
        options = {"group_size": group_size, "bits": bits, "backend": backend}
        return [pack.quantized_matvec(x, mx.array(w), scales, biases, **options)]

    def inputs(generator: np.random.Generator) -> Sequence[Numbers]:
        groups = (outputs, inner // group_size)
        x, scales, biases = normal((rows, inner), groups, groups)(generator)
        return [x, scales / 2**bits, biases - scales / 2]

    def values(x: Numbers, scales: Numbers, biases: Numbers) -> list[Numbers]:
        return [x @ oracle.matrix(w, scales, biases, bits).T]

    def gradients(arrays: Sequence[Numbers], cotangents: Sequence[Numbers]) -> list[Numbers]:
        x, scales, biases = arrays
        return oracle.gradients(x, w, scales, biases, bits, cotangents[0])

    shape = f"{rows}x{outputs}x{inner}"
    return Case(
        f"quantized_matvec {shape}, {bits} bits of {group_size}", call, inputs, values, gradients
    )
