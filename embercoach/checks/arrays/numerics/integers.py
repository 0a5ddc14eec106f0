"""DTYPE-008, DTYPE-009, INDEX-006: dtypes that the GPU or an index does not support."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.values.joins import as_array
from embercoach.analysis.values.lattice import ArrayAt, DType
from embercoach.analysis.values.promotion import FLOATING
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import (
        CallFact,
        Fact,
        IndexFact,
        ItemStoreFact,
    )
    from embercoach.analysis.project.module import Module

#: Dtypes that Metal's scatter does not support.
WIDE = frozenset(["int64", "uint64", "complex64"])


@check(
    "INDEX-006", of=[f"mlx.core.{name}" for name in ("take", "take_along_axis", "put_along_axis")]
)
def float_take(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.take(x, i / 2)``."""
    indices = fact.argument(1, "indices")
    array = None if indices is None else as_array(indices.value)
    if indices is None or array is None or (array.literal and array.scalar):
        return  # of a number that may be an int, whatever its annotation says
    if array.dtype in FLOATING:
        yield Report.at(
            fact,
            "INDEX-006",
            node=indices.node,
            message=f"{array.dtype} indices raise: indices must be integers",
            help="Divide with `//`, or cast with `.astype(mx.int32)`",
            subject=indices.node,
        )


@check("DTYPE-008")
def wide_write(fact: ItemStoreFact, module: Module) -> Iterator[Report]:
    """``x[index] = v`` of an int64 ``x``."""
    array = as_array(fact.base)
    if array is None or array.dtype not in WIDE or not _has_array_index(fact, module):
        return
    yield from _wide(fact, array.dtype)


def _has_array_index(fact: ItemStoreFact, module: Module) -> bool:
    from embercoach.checks.arrays.updates.duplicate_updates import array_indices

    found = array_indices(module)
    given = (e.slice.value for e in fact.node.slice if isinstance(e.slice, cst.Index))
    return any(node in found for node in given)


@check("DTYPE-008", of=("mlx.core.put_along_axis",))
def wide_put(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.put_along_axis(x, index, v, axis)`` of an int64 ``x``."""
    array = as_array(fact.arguments[0].value) if fact.arguments else None
    if array is not None and array.dtype in WIDE:
        yield from _wide(fact, array.dtype)


@check("DTYPE-008")
def wide_update(fact: IndexFact, module: Module) -> Iterator[Report]:
    """``x.at[index].add(v)`` of an int64 ``x``."""
    array = as_array(fact.base.array) if isinstance(fact.base, ArrayAt) else None
    if array is not None and array.dtype in WIDE and fact.form == "index":
        yield from _wide(fact, array.dtype)


def _wide(fact: Fact, dtype: str | None) -> Iterator[Report]:
    yield Report.at(
        fact,
        "DTYPE-008",
        message=f"scatter into a {dtype} array fails on the GPU",
        help="Make it int32: `mx.array(values, dtype=mx.int32)`",
    )


@check("DTYPE-009", of=("mlx.core.",))
def float64_on_gpu(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.zeros(3, dtype=mx.float64)`` without a CPU stream."""
    dtype = fact.keyword("dtype")
    if dtype is not None and dtype.value == DType("float64") and fact.keyword("stream") is None:
        yield from _float64(fact, module)


@check("DTYPE-009", of=(".astype",))
def cast_to_float64(fact: CallFact, module: Module) -> Iterator[Report]:
    """``x.astype(mx.float64)``."""
    if len(fact.arguments) == 1 and fact.arguments[0].value == DType("float64"):
        yield from _float64(fact, module)


def _float64(fact: Fact, module: Module) -> Iterator[Report]:
    """Report it unless the file mentions the CPU: the device may be set anywhere in it."""
    if "cpu" not in module.source:
        yield Report.at(
            fact,
            "DTYPE-009",
            message="float64 is not supported on the GPU",
            help="Use float32, or compute on the CPU: `with mx.stream(mx.cpu):`",
        )
