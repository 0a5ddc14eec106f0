"""DTYPE-018 and DTYPE-019: constants that float16 rounds to 0, and squares that overflow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.layer_sources import default_of
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.joins import as_array, as_number
from embercoach.analysis.values.lattice import DType
from embercoach.checks.arrays.numerics.compositions import MEAN, SUM, squared
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Argument, BinaryFact, CallFact, Fact, Operand
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source, Sources

#: Half of the smallest positive number: this and smaller ones round to 0.
_SMALLEST = 2.0**-25
_NORM = "mlx.core.linalg.norm"
_WITH_NUMBERS = ("add", "subtract", "multiply", "divide", "maximum", "clip")


@check("DTYPE-018")
def small_operand(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``h + 1e-8`` for a float16 ``h``."""
    if fact.operator in "+-*/":
        for array, other in ((fact.left, fact.right), (fact.right, fact.left)):
            if array.array is not None and array.array.dtype == "float16":
                yield from _small(fact, other, module)


@check("DTYPE-018", of=[f"mlx.core.{name}" for name in _WITH_NUMBERS])
def small_argument(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.maximum(h, 1e-8)`` for a float16 ``h``."""
    arrays = [a for a in (as_array(b.value) for b in fact.arguments) if a is not None]
    if arrays and all(array.dtype == "float16" for array in arrays):
        for argument in fact.arguments:
            yield from _small(fact, argument, module)


@check("DTYPE-018", of=("mlx.core.array", "mlx.core.full"))
def small_constant(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.array(1e-8, dtype=mx.float16)``."""
    index = 1 if fact.symbol == "mlx.core.full" else 0
    value, dtype = fact.positional(index), fact.argument(index + 1, "dtype")
    if value is not None and dtype is not None and dtype.value == DType("float16"):
        yield from _small(fact, value, module)


def _small(fact: Fact, given: Operand | Argument, module: Module) -> Iterator[Report]:
    if as_array(given.value) is not None:
        return
    sources = sources_of(module)
    const = _constant(sources.of(fact, given.node), sources)
    if const is not None and 0 < abs(const) <= _SMALLEST:
        yield Report.at(
            fact,
            "DTYPE-018",
            message=f"{const:g} is 0 in float16, whose smallest number is 6e-08",
            help="Compute in float32, or use at least 1e-07",
            replaces=("PYTHON-SCALAR-001", "PYTHON-SCALAR-002", "PYTHON-SCALAR-003"),
        )


def _constant(source: Source, sources: Sources) -> float | None:
    """The number that an expression is, that of a parameter's default among them."""
    ends = sources.ends(source, through_callers=True)
    if len(ends) != 1:
        return None
    end = default_of(ends[0]) or ends[0]
    number = as_number(sources.value(end))
    return number.const if number is not None and isinstance(number.const, float) else None


@check("DTYPE-019", of=(*SUM, *MEAN, ".sum", ".mean", _NORM))
def square_overflow(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.mean(mx.square(h))`` for a float16 ``h``."""
    sources = sources_of(module)
    call = sources.library_call(sources.of(fact, fact.node))
    if call is None or call.array is None:
        return
    given = fact.positional(0)
    value = fact.array if fact.symbol is None else given and as_array(given.value)
    if value is None or value.dtype != "float16":
        return
    if fact.symbol == _NORM:
        shown = "norm"
    elif squared(call.array, sources) is not None:
        shown = f"{call.name.rpartition('.')[2]} of squares"
    else:
        return
    yield Report.at(
        fact,
        "DTYPE-019",
        message=f"{shown} in float16 is infinite if a value exceeds 255",
        help="Cast first: `x.astype(mx.float32)`, or use `mx.fast.rms_norm`",
        subject=call.array.node,
    )
