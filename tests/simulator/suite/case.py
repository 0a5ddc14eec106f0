"""A case of the kernel suite: a kernel, its launch, and the expected result.

The faulty line of a bug has a comment: ``// <- threadgroup-race``. A conflict of two lines has the
comment on both, and either may be reported. Where a bug may be reported in two ways, the comment
names both: ``// <- crash|out-of-bounds``. Of a text with the line ``// body``, the header is what
precedes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

MARK = "// <- "

#: Kinds of findings that may have no line: something did *not* happen, or the line is lost with the
#: process.
LINELESS = frozenset({"unwritten-output", "order-dependent", "timeout", "crash", "low-occupancy"})

_ORDER = frozenset({"order-dependent", "uninitialized-read"})
_LOST = _ORDER | {"unwritten-output"}

#: Kinds that may be found besides, on any line, as consequences of a marked bug.
CONSEQUENCES = {
    "threadgroup-race": _ORDER,
    "device-race": _ORDER,
    "wrong-mem-flags": _ORDER,
    "divergent-simd": _ORDER,
    "divergent-barrier": _LOST,
    "timeout": _LOST,
    "crash": _LOST,
    "undefined-arithmetic": _LOST,
}

#: The benign classes, which are never errors.
NOTES = frozenset({"same-value-write", "lane-synchronous", "float-sum-order", "split-reduction"})

#: Positions that a body may use without a declaration.
POSITIONS = {
    "i": "thread_position_in_grid.x",
    "lid": "thread_position_in_threadgroup.x",
    "lane": "thread_index_in_simdgroup",
    "sg": "simdgroup_index_in_threadgroup",
}
_TYPES = r"(?:bool|char|uchar|short|ushort|int|uint|long|ulong|size_t|auto|float|half)[234]?"


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


class Out:
    """An output: its shape and, last, MLX's name of its type; and its values, if known."""

    def __init__(self, *spec: int | str, values: np.ndarray | None = None) -> None:
        self.shape = tuple(size for size in spec if isinstance(size, int))
        self.dtype = next((name for name in spec if isinstance(name, str)), "float32")
        self.values = values


def gives(values: Any, *spec: int | str) -> Out:
    """An output with these values; it has their shape and type unless others are given."""
    values = np.asarray(values)
    named = {"float64": "float32", "int64": "int32", "bool": "bool_"}
    default = Out(*values.shape, named.get(str(values.dtype), str(values.dtype)))
    given = Out(*spec)
    dtype = given.dtype if any(isinstance(item, str) for item in spec) else default.dtype
    return Out(*(given.shape or default.shape), dtype, values=values)


@dataclass(frozen=True, slots=True)
class Mark:
    """A comment in a source: kinds, any of which may be reported for the line."""

    kinds: frozenset[str]
    part: str
    line: int


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel with one launch.

    Attributes:
        name: of the kernel and the test.
        source: the body; header: the text before it. Both may have marks.
        inputs, outputs: by name, in order.
        grid, threadgroup, template, init_value, ensure_row_contiguous, atomic_outputs: as for
            ``mx.fast.metal_kernel``; dtypes in the template are MLX's names.
        expected: the outputs' values from NumPy alone; None where a bug decides them.
        close: the relative tolerance, and ten times the absolute one.
        also: kinds that may be found besides, on any line.
        lineless: kinds that may have no line.
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
    expected: Sequence[np.ndarray] | None = None
    close: float = 1e-5
    also: frozenset[str] = frozenset()
    lineless: frozenset[str] = LINELESS

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The marks of both texts."""
        return (*_marks(self.header, "header"), *_marks(self.source, "body"))


def kernel(name: str, launch: Any, /, **options: Any) -> Callable[..., Callable[[str], Case]]:
    """Make a case: ``kernel(name, launch, options)(arguments, options)(text)``.

    The launch is the number of threads, in one group; or the grid and the threadgroup.
    """

    def of_arguments(**arguments: Any) -> Callable[[str], Case]:
        return _case_of(name, launch, **options, **arguments)

    return of_arguments


def _case_of(
    name: str,
    launch: Any,
    /,
    *,
    init: float | None = None,
    contiguous: bool = True,
    atomic: bool = False,
    header: str = "",
    expected: Sequence[np.ndarray] | None = None,
    close: float = 1e-5,
    also: str = "",
    lineless: str = "",
    **arguments: Any,
) -> Callable[[str], Case]:
    """Make a case; `expected` are the values of all outputs, where no output has its own.

    Arrays and scalars of NumPy among the arguments are inputs, `Out` are outputs, and bare numbers
    and strings are arguments of the template.
    """
    grid, threadgroup = launch if isinstance(launch, tuple) else (launch, launch)
    outputs = {key: out for key, out in arguments.items() if isinstance(out, Out)}
    template = {key: v for key, v in arguments.items() if type(v) in (int, bool, str)}
    inputs = {key: v for key, v in arguments.items() if key not in {*outputs, *template}}
    known = tuple(out.values for out in outputs.values() if out.values is not None)

    def of_text(text: str) -> Case:
        before, separator, body = text.rpartition("// body\n")
        used = [f"uint {n} = {p};" for n, p in POSITIONS.items() if _is_used(n, body)]
        case = Case(
            name,
            " ".join(used) + ("\n" if separator else "") + body,
            {k: v if isinstance(v, Array) else Array(v) for k, v in inputs.items()},
            outputs,
            _three(grid),
            _three(threadgroup),
            header + before,
            tuple(template.items()),
            init,
            contiguous,
            atomic,
            expected or known or None,
            close,
            lineless=LINELESS | set(lineless.split()),
        )
        kinds = {kind for mark in case.marks for kind in mark.kinds}
        besides = set().union(*(CONSEQUENCES.get(kind, ()) for kind in kinds), also.split())
        return replace(case, also=frozenset(besides))

    return of_text


def _is_used(name: str, body: str) -> bool:
    code = re.sub(r"//.*", "", body)
    declared = rf"\b{_TYPES}[&*]? (?:[^;(){{}}]*, )?{name}\b"
    return bool(re.search(rf"(?<![\w.]){name}\b", code)) and not re.search(declared, code)


def _three(sizes: int | tuple[int, ...]) -> tuple[int, int, int]:
    first, second, third = (*(sizes if isinstance(sizes, tuple) else (sizes,)), 1, 1)[:3]
    return first, second, third


def _marks(text: str, part: str) -> list[Mark]:
    marks = []
    for number, line in enumerate(text.split("\n"), start=1):
        _, mark, reported = line.partition(MARK)
        if mark:
            marks += [
                Mark(frozenset(k.split("|")), part, number) for k in reported.strip().split(", ")
            ]
    return marks


def count(size: int, dtype: str = "int32") -> np.ndarray:
    """The numbers from 0."""
    return np.arange(size, dtype=dtype)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def halves(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal float16 numbers."""
    return floats(*shape, seed=seed).astype(np.float16)


def integers(low: int, high: int, *shape: int, seed: int = 0, dtype: str = "int32") -> np.ndarray:
    """Integers from ``low`` to ``high - 1``."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
