"""Errors of every operator on a GPU, against definitions in float64.

A process for each group of operators and each setting of `MLX_ENABLE_TF32`, which MLX reads once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.gpu.cases import GROUPS, Case

DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}
#: Greatest errors of values and of gradients, in parts of the greatest number of an array.
BARS = {"float32": (2e-6, 5e-6), "float16": (1e-3, 2e-3), "bfloat16": (5e-3, 1e-2)}


@dataclass(frozen=True, slots=True)
class Error:
    """The greatest error of a case's outputs, or of its gradients, and which one has it."""

    size: float
    position: int


def check(backend: str, dtype: str, groups: Sequence[str], jobs: int) -> int:
    """Print a table for each setting of TF32; return how many cases fail."""

    def run(tf32: str, group: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.benchmarks.gpu.check", backend, dtype, group]
        environment = {**os.environ, "MLX_ENABLE_TF32": tf32}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    failures = 0
    settings = [(tf32, group) for tf32 in ("1", "0") for group in groups]
    report(f"backend {backend}, {dtype}; errors of values and gradients, [output], [argument]")
    with ThreadPoolExecutor(jobs) as pool:
        runs = pool.map(lambda setting: run(*setting), settings)
        for (tf32, group), done in zip(settings, runs, strict=True):
            if group == groups[0]:
                report(f"\nMLX_ENABLE_TF32={tf32}")
            sys.stdout.write(done.stdout)
            failures += done.stdout.count("FAIL")
            if done.returncode:
                report(f"FAIL {group}: exit status {done.returncode}\n{done.stderr[-2000:]}")
                failures += 1
    report(f"\n{failures} failures" if failures else "\nall PASS")
    return failures


def check_group(backend: str, dtype: str, group: str) -> None:
    """Print a line for each case of a group."""
    bars = BARS[dtype]
    for case in GROUPS[group]():
        try:
            errors = case_errors(case, backend, DTYPES[dtype])
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            report(f"FAIL {case.name}: {str(error)[:2000]}")
            continue
        bounds = (case.digits or bars[0], bars[1])
        passed = all(error.size <= bar for error, bar in zip(errors, bounds, strict=True))
        figures = "  ".join(f"{error.size:.1e} [{error.position}]" for error in errors)
        report(f"{'PASS' if passed else 'FAIL'} {case.name:60} {figures}")


def case_errors(case: Case, backend: str, dtype: mx.Dtype) -> tuple[Error, Error]:
    """The greatest errors of values, and of gradients for random cotangents.

    Of two calls: with arrays in order, and with the same arrays transposed in memory.
    """
    generator = np.random.default_rng(7)
    drawn = case.inputs(generator)
    narrow = len(drawn) - case.states
    given = [
        mx.array(array.astype(np.float32)).astype(dtype if position < narrow else mx.float32)
        for position, array in enumerate(drawn)
    ]
    primals = [*map(_wide, given)]
    judged = np.ones(()) if case.judged is None else case.judged(*primals)
    weight = mx.array(judged.astype(np.float32))
    expected = _with_first(case.values(*primals), judged)

    def call(*arrays: mx.array) -> list[mx.array]:
        return list(case.call(*arrays, backend=backend))

    cotangents = [
        mx.array(generator.standard_normal(array.shape).astype(np.float32)).astype(array.dtype)
        for array in call(*given)
    ]
    cotangents = _with_first(cotangents, weight)
    pulled = case.gradients(primals, [*map(_wide, cotangents)])
    results = [
        mx.vjp(call, [*map(layout, given)], [*map(layout, cotangents)])
        for layout in (mx.array, _transposed)
    ]
    values = [[*map(_wide, _with_first(found, weight))] for found, _ in results]
    if case.digits is not None:
        values = [[high + low] for high, low in values]
    of_values = [_greatest(found, expected) for found in values]
    of_gradients = [_greatest([*map(_wide, found)], pulled) for _, found in results]
    return max(of_values, key=_order), max(of_gradients, key=_order)


def _transposed(array: mx.array) -> mx.array:
    """The same array with its last axis first in memory."""
    copied = mx.contiguous(array.transpose())
    return copied.transpose()


def _order(error: Error) -> float:
    """NaN is the greatest of all errors."""
    return float("inf") if np.isnan(error.size) else error.size


def report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _with_first(arrays: Sequence[Any], factor: Any) -> list[Any]:
    """The same arrays, the first one times `factor`."""
    first, *others = arrays
    kept = factor.astype(first.dtype) if isinstance(first, mx.array) else factor
    return [first * kept, *others]


def _greatest(
    found: Sequence[NDArray[np.float64]], expected: Sequence[NDArray[np.float64]]
) -> Error:
    errors = []
    for position, (actual, wanted) in enumerate(zip(found, expected, strict=True)):
        if actual.shape != wanted.shape:
            raise ValueError(f"shape {actual.shape} instead of {wanted.shape}")
        difference = np.abs(actual - wanted).max()
        errors.append(Error(float(difference / np.abs(wanted).max()), position))
    return max(errors, key=_order)


def _wide(array: mx.array) -> NDArray[np.float64]:
    return np.array(array.astype(mx.float32)).astype(np.float64)


if __name__ == "__main__":
    check_group(*sys.argv[1:])
