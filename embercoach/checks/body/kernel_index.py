"""KERNEL-INDEX: unsigned numbers that are meant to go below 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.kernel_plans import values_of
from embercoach.checks.programs.metal_checks import (
    MetalCode,
    MetalReport,
    metal_check,
    once_at_each_start,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.inspections.unsigned import Settled, Wrapped

CODE = "KERNEL-INDEX-001"


@metal_check(CODE)
def unsigned_numbers(code: MetalCode) -> Iterator[MetalReport]:
    """Comparisons that always have the same outcome, and indices that wrap around."""
    if "-" not in code.text.text:
        return
    from embercoach.metal.inspections.unsigned import settled_comparisons, wrapped_indices

    reports: list[MetalReport] = []
    for kernel in code.kernels:
        values = values_of(kernel)
        reports += map(_settled, settled_comparisons(kernel.own, values))
        reports += map(_wrapped, wrapped_indices(kernel.own, values))
    yield from once_at_each_start(reports)


def _settled(found: Settled) -> MetalReport:
    outcome = "true" if found.outcome else "false"
    kind = found.compared.type.scalar
    if found.endless:
        harm = "it never ends the loop, as below 0 comes the largest number"
    else:
        harm = "what should have gone below 0 has wrapped around to a huge number"
    return MetalReport(
        CODE,
        found.spot.place,
        f"what is compared is `{kind}`, so this is always {outcome}: {harm}",
        "compute it as `int`, or compare before anything is subtracted: `i > 0`, `i >= k`",
        found.spot.text,
    )


def _wrapped(found: Wrapped) -> MetalReport:
    number = "a number below 0" if found.number is None else f"{found.number}"
    wraps = ", which wraps around to a huge unsigned number" if found.unsigned else ""
    does = "writes" if found.kind == "write" else "reads"
    return MetalReport(
        CODE,
        found.spot.place,
        f"in the first thread this index is {number}{wraps}: it {does} outside of "
        f"`{found.buffer.name}`",
        "guard it: `i > 0 ? x[i - 1] : 0`, or `x[max(i, 1u) - 1]`",
        found.spot.text,
    )
