"""What a case of the kernel suite is: a kernel, its launch, and what must come of it.

The guilty line of a bug carries a comment: ``// <- threadgroup-race``. A conflict of two lines has
the comment on both, and either may be blamed. Where a bug may rightly be told in two ways, the
comment names both: ``// <- crash|out-of-bounds``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MARK = "// <- "

#: Kinds that a finding may have without a line: the fault is what did *not* happen, or the line is
#: lost with the process.
LINELESS = frozenset({"unwritten-output", "order-dependent", "timeout", "crash"})

#: What a thread that is ended at its fault leaves behind.
LOST = frozenset({"unwritten-output", "order-dependent", "uninitialized-read"})

#: The benign classes, which are never errors.
NOTES = frozenset({"same-value-write", "lane-synchronous", "float-sum-order"})


@dataclass(frozen=True, slots=True)
class Array:
    """An input.

    Attributes:
        values: its content; a scalar makes a 0-d input.
        dtype: MLX's name of the type where it differs from NumPy's (``bfloat16``).
        view: makes the array that is passed from that of ``values`` (strides, broadcasts).
    """

    values: Any
    dtype: str = ""
    view: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Out:
    """An output: its shape and MLX's name of its type."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class Mark:
    """A comment in a source: kinds, any of which the line may be blamed for."""

    kinds: frozenset[str]
    part: str
    line: int


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel with one launch.

    Attributes:
        name: of the kernel and the test.
        source: the body; header: what stands before it. Both may hold marks.
        inputs, outputs: by name, in order.
        grid, threadgroup, template, init_value, ensure_row_contiguous, atomic_outputs: as for
            ``mx.fast.metal_kernel``; dtypes in the template are MLX's names.
        expected: the outputs' values from NumPy alone; None where the bug leaves none to expect.
        rtol, atol: of the comparison; exact where both are 0.
        also: kinds that may be found besides, wherever, as the bug's consequences.
        lineless: kinds that may be told without a line here.
    """

    name: str
    source: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Out]
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    header: str = ""
    template: tuple[tuple[str, int | bool | str], ...] = ()
    init_value: float | None = None
    ensure_row_contiguous: bool = True
    atomic_outputs: bool = False
    expected: Callable[[], Sequence[np.ndarray]] | None = None
    rtol: float = 1e-5
    atol: float = 1e-6
    also: frozenset[str] = field(default_factory=frozenset)
    lineless: frozenset[str] = LINELESS

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The marks of both texts."""
        return (*_marks(self.header, "header"), *_marks(self.source, "body"))


def _marks(text: str, part: str) -> list[Mark]:
    marks = []
    for number, line in enumerate(text.split("\n"), start=1):
        _, mark, reported = line.partition(MARK)
        if mark:
            marks += [
                Mark(frozenset(k.split("|")), part, number) for k in reported.strip().split(", ")
            ]
    return marks


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(low: int, high: int, *shape: int, seed: int = 0, dtype: str = "int32") -> np.ndarray:
    """Integers from ``low`` to ``high - 1``."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
