"""MLX's dtype promotion, as observed on 0.32.4 (a test compares every pair with the library)."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embercoach.analysis.values.lattice import NumberKind

HALF = frozenset({"float16", "bfloat16"})
FLOATING = frozenset({"float16", "bfloat16", "float32", "float64"})
COMPLEX = frozenset({"complex64"})
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = frozenset(SIGNED + UNSIGNED)
DTYPES = frozenset({"bool"}) | INTEGERS | FLOATING | COMPLEX


@cache
def promote(a: str | None, b: str | None) -> str | None:
    """Return the dtype of an operation on arrays of two dtypes, None if it is not known."""
    if "complex64" in (a, b):
        return "complex64"
    if a is None or b is None:
        return None
    if a == b:
        return a
    if a in FLOATING or b in FLOATING:
        if "float64" in (a, b):
            return "float64"
        if a in FLOATING and b in FLOATING:
            return "float32"  # float16 and bfloat16 have no common half
        return a if a in FLOATING else b
    if a == "bool" or b == "bool":
        return b if a == "bool" else a
    if (a in SIGNED) == (b in SIGNED):
        order = SIGNED if a in SIGNED else UNSIGNED
        return max(a, b, key=order.index)
    signed, unsigned = (a, b) if a in SIGNED else (b, a)
    if unsigned == "uint64":
        return "float32"
    rank = max(SIGNED.index(signed), UNSIGNED.index(unsigned) + 1)
    return SIGNED[rank]


def promote_weak(dtype: str | None, kind: NumberKind) -> str | None:
    """Return the dtype of an operation on an array and a Python number, which is weakly typed."""
    if kind == "complex":
        return "complex64"
    if dtype is None or kind == "bool" or dtype in COMPLEX:
        return dtype
    if kind == "float":
        return dtype if dtype in FLOATING else "float32"
    return "int32" if dtype == "bool" else dtype


def floating(dtype: str | None) -> str | None:
    """The dtype that true division and functions such as ``exp`` give: integers turn to float32."""
    if dtype is None or dtype in FLOATING or dtype in COMPLEX:
        return dtype
    return "float32"


#: By the kind of a Python number, the widest first.
_OF_NUMBERS = {"complex": "complex64", "float": "float32", "int": "int32", "bool": "bool"}


def dtype_of_number(kind: NumberKind) -> str:
    """Return the dtype that ``mx.array`` gives a Python number."""
    return _OF_NUMBERS[kind]


def dtype_of_numbers(kinds: Collection[NumberKind | None]) -> str | None:
    """Return the dtype of an array made from Python numbers alone; none if there are none."""
    return next((dtype for kind, dtype in _OF_NUMBERS.items() if kind in kinds), None)
