"""The Metal library on an NVIDIA GPU: errors of its functions, and SIMD functions among some lanes.

Run on a machine with MLX's CUDA backend: ``python -m tests.benchmarks.gpu.metal_library``. Prints
the largest error of each function in units in the last place, and what differs from its definition.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import click
import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from embercoach.cuda.cuda_kernel import cuda_kernel

Floats = NDArray[np.float64]
Function = Callable[..., Floats]

COUNT = 1 << 20
#: Units in the last place that a function may be off, of `metal` and of `metal::fast`.
PRECISE, FAST = 4.0, 1e6
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    math.inf,
    -math.inf,
    math.nan,
    1e-45,
    -1e-40,
    3e38,
    -3e38,
    2.0,
]


def spread(low: float, high: float, seed: int = 0) -> NDArray[np.float32]:
    """Return numbers of an interval, and special ones."""
    random = np.random.default_rng(seed)
    values = random.uniform(low, high, COUNT - len(SPECIAL))
    return np.concatenate([values, SPECIAL]).astype(np.float32)


def magnitudes(low: int, high: int, *, signed: bool, seed: int = 0) -> NDArray[np.float32]:
    """Return numbers of all magnitudes between powers of two, and special ones."""
    random = np.random.default_rng(seed)
    sign = random.choice([-1.0, 1.0], COUNT - len(SPECIAL)) if signed else 1.0
    values = sign * np.exp2(random.uniform(low, high, COUNT - len(SPECIAL)))
    return np.concatenate([values, SPECIAL]).astype(np.float32)


ALL = magnitudes(-140, 127, signed=True)
POSITIVE = magnitudes(-148, 127, signed=False)
UNIT = np.concatenate([magnitudes(-60, 0, signed=True)[: COUNT // 2], spread(-1, 1)[COUNT // 2 :]])
ANGLES = np.concatenate(
    [magnitudes(-60, 127, signed=True)[: COUNT // 2], spread(-9, 9)[COUNT // 2 :]]
)


def half_turns(x: Floats, function: Function, quarter: Function) -> Floats:
    """Return a function of pi x, from that and the one a quarter later: exact at quarters."""
    count = np.rint(2 * x)
    rest = np.pi * (x - count / 2)
    with np.errstate(all="ignore"):
        turn = np.remainder(count, 4)
    values = np.where(np.remainder(turn, 2) == 0, function(rest), quarter(rest))
    return np.where(turn >= 2, -values, values)


#: Each function: where it is tried, and its definition in double.
FUNCTIONS: dict[str, tuple[NDArray[np.float32], Function]] = {
    "exp": (spread(-110, 95), np.exp),
    "exp2": (spread(-155, 135), np.exp2),
    "exp10": (spread(-47, 40), lambda x: np.power(10.0, x)),
    "log": (POSITIVE, np.log),
    "log2": (POSITIVE, np.log2),
    "log10": (POSITIVE, np.log10),
    "sin": (ANGLES, np.sin),
    "cos": (ANGLES, np.cos),
    "tan": (ANGLES, np.tan),
    "sinpi": (spread(-20, 20), lambda x: half_turns(x, np.sin, np.cos)),
    "cospi": (spread(-20, 20), lambda x: half_turns(x, np.cos, lambda y: -np.sin(y))),
    "asin": (UNIT, np.arcsin),
    "acos": (UNIT, np.arccos),
    "atan": (ALL, np.arctan),
    "sinh": (magnitudes(-60, 6.49, signed=True), np.sinh),
    "cosh": (magnitudes(-60, 6.49, signed=True), np.cosh),
    "tanh": (magnitudes(-60, 6, signed=True), np.tanh),
    "asinh": (ALL, np.arcsinh),
    "acosh": (magnitudes(0, 127, signed=False), np.arccosh),
    "atanh": (UNIT, np.arctanh),
    "sqrt": (POSITIVE, np.sqrt),
    "rsqrt": (POSITIVE, lambda x: 1 / np.sqrt(x)),
    "round": (spread(-9, 9), lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
    "rint": (spread(-9, 9), np.rint),
}
PAIRS: dict[str, tuple[NDArray[np.float32], NDArray[np.float32], Function]] = {
    "pow": (magnitudes(-20, 20, signed=True), spread(-7, 7, 1), np.power),
    "powr": (
        magnitudes(-20, 20, signed=False),
        spread(-7, 7, 1),
        lambda x, y: np.where(x < 0, np.nan, np.power(x, y)),
    ),
    "atan2": (ALL, magnitudes(-100, 100, signed=True, seed=1), np.arctan2),
    "fmod": (magnitudes(-20, 60, signed=True), magnitudes(-20, 20, signed=True, seed=1), np.fmod),
    "divide": (
        magnitudes(-60, 60, signed=True),
        magnitudes(-60, 60, signed=True, seed=1),
        np.divide,
    ),
}


def run(
    body: str, *inputs: NDArray[np.float32], dtype: mx.Dtype = mx.float32
) -> NDArray[np.float64]:
    """Run a kernel of one element a thread."""
    names = ["x", "y"][: len(inputs)]
    kernel = cuda_kernel(name="probe", input_names=names, output_names=["out"], source=body)
    (result,) = kernel(
        inputs=[mx.array(values) for values in inputs],
        grid=(len(inputs[0]), 1, 1),
        threadgroup=(256, 1, 1),
        output_shapes=[inputs[0].shape],
        output_dtypes=[dtype],
    )
    return np.array(result).astype(np.float64)


def error(found: Floats, expected: Floats) -> float:
    """Return the largest error in units in the last place of a float; infinite for another kind."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(np.float32)
        same = (np.isnan(found) & np.isnan(rounded)) | (found == rounded)
        spacing = np.spacing(np.abs(rounded)).astype(np.float64)
        off = np.where(same, 0.0, np.abs(found - expected) / spacing)
        # The largest float and infinity are neighbours.
        edge = np.isinf(rounded) ^ np.isinf(found)
        near = np.abs(np.where(np.isinf(found), rounded, found)) > 3.4e38
        off = np.where(edge & near, 1.0, off)
    return float(np.max(np.where(np.isnan(off), math.inf, off)))


def functions() -> int:
    """Print the errors of all functions; return how many are too large."""
    bad = 0
    for space, limit in (("", PRECISE), ("fast::", FAST)):
        for name, (values, definition) in FUNCTIONS.items():
            found = run(
                f"uint i = thread_position_in_grid.x; out[i] = {space}{name}(x[i]);", values
            )
            with np.errstate(all="ignore"):
                worst = error(found, definition(values.astype(np.float64)))
            bad += _say(f"{space}{name}", worst, limit)
        for name, (first, second, definition) in PAIRS.items():
            body = f"uint i = thread_position_in_grid.x; out[i] = {space}{name}(x[i], y[i]);"
            found = run(body, first, second)
            with np.errstate(all="ignore"):
                worst = error(found, definition(*(v.astype(np.float64) for v in (first, second))))
            bad += _say(f"{space}{name}", worst, limit)
    return bad


def _say(name: str, worst: float, limit: float) -> int:
    too_large = not worst <= limit
    click.echo(f"{name:16} {worst:12.3g}{'  TOO LARGE' if too_large and limit == PRECISE else ''}")
    return int(too_large and limit == PRECISE)


#: SIMD functions of integers in a condition on the lane, and what an active lane gets, from the
#: values and the flags of its simdgroup.
LANES: dict[str, Callable[[list[int], list[bool], int], int]] = {
    "simd_sum(v)": lambda v, on, i: sum(x for x, o in zip(v, on, strict=True) if o),
    "simd_max(v)": lambda v, on, i: max(x for x, o in zip(v, on, strict=True) if o),
    "simd_min(v)": lambda v, on, i: min(x for x, o in zip(v, on, strict=True) if o),
    "simd_prefix_inclusive_sum(v)": lambda v, on, i: sum(v[k] for k in range(i + 1) if on[k]),
    "simd_prefix_exclusive_sum(v)": lambda v, on, i: sum(v[k] for k in range(i) if on[k]),
    "simd_broadcast_first(v)": lambda v, on, i: v[on.index(True)],
    "int(ulong(simd_ballot(v & 1)) & 0x7fffffff)": lambda v, on, i: sum(
        1 << k for k in range(31) if on[k] and v[k] & 1
    ),
    "int(simd_all(v >= 0))": lambda v, on, i: 1,
    "int(simd_any(v == 7))": lambda v, on, i: int(
        any(x == 7 for x, o in zip(v, on, strict=True) if o)
    ),
    "int(simd_is_first())": lambda v, on, i: int(on.index(True) == i),
    "quad_sum(v)": lambda v, on, i: sum(v[k] for k in range(i & ~3, (i & ~3) + 4) if on[k]),
}
CONDITIONS: dict[str, Callable[[int], bool]] = {
    "true": lambda i: True,
    "lane < 13": lambda i: i < 13,
    "lane % 3 == 1": lambda i: i % 3 == 1,
    "lane > 4 && lane < 30": lambda i: 4 < i < 30,
}


def lanes() -> int:
    """Print SIMD functions that differ among the lanes of a condition; return how many."""
    random = np.random.default_rng(0)
    values = random.integers(0, 100, 96)
    bad = 0
    for call, definition in LANES.items():
        for condition, holds in CONDITIONS.items():
            body = (
                "uint i = thread_position_in_grid.x, lane = thread_index_in_simdgroup;"
                f"int v = int(x[i]), r = -1; if ({condition}) {{ r = {call}; }}"
                "threadgroup_barrier(mem_flags::mem_none); out[i] = r;"
            )
            found = run(body, values.astype(np.float32), dtype=mx.int32)
            for group in range(3):
                own = [int(x) for x in values[32 * group : 32 * group + 32]]
                on = [holds(i) for i in range(32)]
                expected = [definition(own, on, i) if on[i] else -1 for i in range(32)]
                if expected != [int(x) for x in found[32 * group : 32 * group + 32]]:
                    click.echo(f"{call} where {condition}: DIFFERS")
                    bad += 1
                    break
    click.echo(f"{len(LANES) * len(CONDITIONS)} uses of SIMD functions, {bad} differ")
    return bad


if __name__ == "__main__":
    sys.exit(functions() + lanes() > 0)
