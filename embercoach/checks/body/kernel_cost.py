"""KERNEL-PERF: operations that make a correct kernel slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.kernel_plans import values_of
from embercoach.checks.programs.metal_checks import MetalCode, MetalReport, once_at_each_start
from embercoach.checks.registry import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.inspections.costs import SlowDivision

DIVISION = "KERNEL-PERF-001"
ARRAY = "KERNEL-PERF-002"


@check(DIVISION)
def divisions_in_loops(code: MetalCode) -> Iterator[MetalReport]:
    """Integer divisions by sizes, in innermost loops."""
    if not {"/", "%"} & set(code.text.text + code.header.text):
        return
    from embercoach.metal.inspections.costs import divisions

    yield from once_at_each_start(
        _of_division(found)
        for kernel in code.kernels
        for found in divisions(kernel.own, values_of(kernel))
    )


def _of_division(found: SlowDivision) -> MetalReport:
    return MetalReport(
        DIVISION,
        found.spot.place,
        f"integer division by a value from `{found.divisor.name}` in an inner loop",
        "Update quotient and remainder in the loop, or make the divisor a template argument",
        found.spot.text,
    )


@check(ARRAY)
def dynamic_arrays(code: MetalCode) -> Iterator[MetalReport]:
    """Private arrays whose index is known at run time only."""
    if "[" not in code.text.text:
        return
    from embercoach.metal.inspections.costs import dynamic_indices

    for kernel in code.kernels:
        for found in dynamic_indices(kernel.own, values_of(kernel)):
            yield MetalReport(
                ARRAY,
                found.spot.place,
                f"dynamic index into private array `{found.array.name}`, by `{found.by.name}`",
                "Use constant loop bounds or threadgroup memory; put fixed tables into `constant`",
                found.spot.text,
            )
