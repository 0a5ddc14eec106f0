"""KERNEL-PRECISION: sums and literals in half precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.kernel_plans import values_of
from embercoach.checks.programs.metal_checks import MetalCode, MetalReport
from embercoach.checks.registry import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.inspections.precision import HalfSum, Promotion

SUM = "KERNEL-PRECISION-001"
LITERAL = "KERNEL-PRECISION-002"
#: A type's name, and 2 to the number of bits that it keeps of a number.
_SAID = {"half": ("float16", 2_048), "bfloat": ("bfloat16", 256)}
_SUFFIXES = {"half": "h", "bfloat": "bf"}


@check(SUM)
def half_precision_sums(code: MetalCode) -> Iterator[MetalReport]:
    """Loops that add to a variable in half precision."""
    if "for" not in code.text.text and "while" not in code.text.text + code.header.text:
        return
    from embercoach.metal.inspections.precision import half_sums

    for kernel in code.kernels:
        for found in half_sums(kernel.own, values_of(kernel)):
            yield MetalReport(
                SUM,
                found.spot.place,
                _sum_message(found),
                "Sum in `float`, and convert to the smaller type once, after the loop",
                found.spot.text,
            )


def _sum_message(found: HalfSum) -> str:
    name, limit = _SAID[found.scalar]
    terms = "" if found.trips is None else f" {found.trips:,} terms"
    sums = f"`{found.variable.name}` accumulates{terms} in {name}"
    return f"{sums}: terms {limit:,} times smaller are lost"


@check(LITERAL)
def promoting_literals(code: MetalCode) -> Iterator[MetalReport]:
    """``float`` literals in arithmetic of half precision."""
    from embercoach.metal.inspections.precision import promotions

    for kernel in code.kernels:
        for found in promotions(kernel.own):
            yield MetalReport(
                LITERAL,
                found.spot.place,
                _literal_message(found),
                f"Write `{_plain(found)}{_SUFFIXES[found.scalar]}`",
                found.spot.text,
            )


def _literal_message(found: Promotion) -> str:
    (name, _), written = _SAID[found.scalar], found.literal.written
    if found.scalar == "bfloat" and found.implicit:
        return f"float literal `{written}` in {name}: no implicit conversion to bfloat"
    return f"float literal `{written}` promotes {name} arithmetic to float"


def _plain(found: Promotion) -> str:
    return found.literal.written.rstrip("fF")
