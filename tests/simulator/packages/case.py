"""What a case of a package's kernel is: a wrapper's call and the fallback that it must match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import mlx.core as mx
import numpy as np

#: The releases whose kernels the cases describe, line by line.
VERSIONS = {"mlx-lm": "0.32.2", "mlx-vlm": "0.7.10"}

#: Relative and absolute: a few roundings of the type that the kernel works in.
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 2e-2}
#: In names of kernels.
SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the kernel path gave and what the fallback gives, array by array."""

    got: Sequence[mx.array]
    want: Sequence[mx.array]


@dataclass(frozen=True, slots=True)
class Flaw:
    """A finding that the package truly has.

    Attributes:
        kind: as the simulator names it.
        line: of the kernel's body, from 1; 0 where no line is to blame.
        excerpt: that line, stripped.
    """

    kind: str
    line: int
    excerpt: str


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel in one variant: types, sizes and switches that compile to a kernel of its own.

    Attributes:
        name: module, wrapper and variant.
        package: the distribution that holds it.
        kernels: names of the kernels that must be launched, in order, repeats left out.
        run: calls wrapper and fallback; only under an active simulator.
        tolerance: relative and absolute.
        flaws: the findings that must come, and no others.
        differs: that the package's flaw makes the values differ from the fallback's.
    """

    name: str
    package: str
    kernels: tuple[str, ...]
    run: Callable[[], Outcome]
    tolerance: float
    flaws: frozenset[Flaw] = field(default_factory=frozenset)
    differs: bool = False


CASES: list[Case] = []


def kernel_cases(
    module: str,
    kernels: str,
    variants: Mapping[str, Mapping[str, Any]],
    *,
    tolerance: float | None = None,
    flaws: Sequence[Flaw] = (),
    differs: bool = False,
) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Register a function as one case a variant.

    Args:
        module: that holds the wrapper; the function's first argument.
        kernels: space-separated names, formatted with the variant's arguments, and with its dtype
            as ``short``.
        variants: name of a variant to its arguments.
        tolerance: of all variants; by default that of the argument ``dtype``.
        flaws: of all variants.
        differs: of all variants.
    """

    def register(function: Callable[..., Outcome]) -> Callable[..., Outcome]:
        for variant, arguments in variants.items():
            dtype = arguments.get("dtype", "float32")
            names = kernels.format(**arguments, short=SHORT[dtype])
            CASES.append(
                Case(
                    name=f"{module}:{function.__name__}[{variant}]",
                    package=module.partition(".")[0].replace("_", "-"),
                    kernels=tuple(names.split()),
                    run=partial(_call, function, module, arguments),
                    tolerance=TOLERANCE[dtype] if tolerance is None else tolerance,
                    flaws=frozenset(flaws),
                    differs=differs,
                )
            )
        return function

    return register


def _call(function: Callable[..., Outcome], module: str, arguments: Mapping[str, Any]) -> Outcome:
    return function(import_module(module), **arguments)


def dtypes(*names: str, **arguments: Any) -> dict[str, dict[str, Any]]:
    """Variants that differ in nothing but the type of the data."""
    return {name: {"dtype": name, **arguments} for name in names}


def table(*rows: str) -> dict[str, dict[str, Any]]:
    """Variants by the names in the first column, with arguments named in the first row.

    A word of digits is a number, and ``-`` the empty string.
    """
    _, *keys = rows[0].split()
    variants = {}
    for name, *words in map(str.split, rows[1:]):
        values = [int(w) if w.isdigit() else "" if w == "-" else w for w in words]
        variants[name] = dict(zip(keys, values, strict=True))
    return variants


class Data:
    """Reproducible arrays, each drawn after the other."""

    def __init__(self, dtype: str = "float32", seed: int = 0) -> None:
        self.dtype = getattr(mx, dtype)
        self._rng = np.random.default_rng(seed)

    def normal(self, *shape: int, scale: float = 1.0, dtype: mx.Dtype | None = None) -> mx.array:
        """Normally distributed values."""
        values = mx.array(self._rng.standard_normal(shape, dtype=np.float32) * np.float32(scale))
        return values.astype(self.dtype if dtype is None else dtype)

    def uniform(
        self, *shape: int, low: float = 0.0, high: float = 1.0, dtype: mx.Dtype | None = None
    ) -> mx.array:
        """Values between ``low`` and ``high``."""
        values = mx.array(self._rng.uniform(low, high, shape).astype(np.float32))
        return values.astype(self.dtype if dtype is None else dtype)

    def integers(self, low: int, high: int, *shape: int, dtype: mx.Dtype = mx.uint32) -> mx.array:
        """Integers from ``low`` up to, without, ``high``."""
        return mx.array(self._rng.integers(low, high, shape)).astype(dtype)
