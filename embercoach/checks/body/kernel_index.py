"""KERNEL-INDEX: unsigned numbers that are meant to go below 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.kernel_plans import values_of
from embercoach.checks.programs.metal_checks import MetalCode, MetalReport, once_at_each_start
from embercoach.checks.registry import check
from embercoach.metal import hazards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.inspections.unsigned import (
        ConstantComparison,
        LowerBound,
        WrappedIndex,
    )

CODE = "KERNEL-INDEX-001"


@check(CODE)
def unsigned_numbers(code: MetalCode) -> Iterator[MetalReport]:
    """Comparisons that always have the same outcome, and indices that wrap around."""
    if "-" not in code.text.text:
        return
    from embercoach.metal.inspections.unsigned import (
        settled_comparisons,
        void_bounds,
        wrapped_indices,
    )

    reports: list[MetalReport] = []
    for kernel in code.kernels:
        values = values_of(kernel)
        reports += map(_settled, settled_comparisons(kernel.own, values))
        reports += map(_unbounded, void_bounds(kernel.own, values))
        reports += map(_wrapped, wrapped_indices(kernel.own, values))
    yield from once_at_each_start(reports)


def _settled(found: ConstantComparison) -> MetalReport:
    outcome = "true" if found.outcome else "false"
    kind = found.compared.type.scalar
    harm = "the loop never ends" if found.endless else "below 0 it wraps around"
    return MetalReport(
        CODE,
        found.spot.place,
        f"comparison of unsigned `{kind}` is always {outcome}: {harm}",
        "Use `int`, or compare before subtracting: `i > 0`, `i >= k`",
        found.spot.text,
    )


def _unbounded(found: LowerBound) -> MetalReport:
    kind = found.bounded.type.scalar
    return MetalReport(
        CODE,
        found.spot.place,
        f"`{found.name}` with 0 has no effect: unsigned `{kind}` wraps around below 0",
        "Convert before subtracting: `max(int(i) - 1, 0)`, or write `max(i, 1u) - 1`",
        found.spot.text,
    )


def _wrapped(found: WrappedIndex) -> MetalReport:
    number = "below 0" if found.number is None else f"{found.number}"
    wraps = " (wraps around)" if found.unsigned else ""
    index = f"index is {number}{wraps} in the first thread"
    access = "write" if found.kind == "write" else "read"
    return MetalReport(
        CODE,
        found.spot.place,
        hazards.out_of_bounds(access, found.buffer.name, index),
        "Guard it: `i > 0 ? x[i - 1] : 0`, or `x[max(i, 1u) - 1]`",
        found.spot.text,
    )
