"""KERNEL-INDEX: unsigned numbers that are meant to go below 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.kernel_plans import values_of
from embercoach.checks.metal_checks import MetalCode, MetalReport, metal_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.inspections.unsigned import Settled, Wrapped
    from embercoach.metal.program.nodes import Spot

CODE = "KERNEL-INDEX-001"


@metal_check(CODE)
def unsigned_numbers(code: MetalCode) -> Iterator[MetalReport]:
    """Comparisons that always have the same outcome, and indices that wrap around."""
    if "-" not in code.text.text:
        return
    from embercoach.metal.inspections.unsigned import settled_comparisons, wrapped_indices

    told: set[tuple[str, int]] = set()
    for kernel in code.kernels:
        values = values_of(kernel)
        reports = [_settled(found) for found in settled_comparisons(kernel.program, values)]
        reports += [_wrapped(found) for found in wrapped_indices(kernel.program, values)]
        for spot, message, help_text in reports:
            key = (spot.text, spot.place.start)
            if key not in told:
                told.add(key)
                yield MetalReport(CODE, spot.place, message, help_text, spot.text)


def _settled(found: Settled) -> tuple[Spot, str, str]:
    outcome = "true" if found.outcome else "false"
    kind = found.compared.type.scalar
    if found.endless:
        harm = "it never ends the loop, as below 0 comes the largest number"
    else:
        harm = "what should have gone below 0 has wrapped around to a huge number"
    return (
        found.spot,
        f"what is compared is `{kind}`, so this is always {outcome}: {harm}",
        "compute it as `int`, or compare before anything is subtracted: `i > 0`, `i >= k`",
    )


def _wrapped(found: Wrapped) -> tuple[Spot, str, str]:
    number = "a number below 0" if found.number is None else f"{found.number}"
    wraps = ", which wraps around to a huge unsigned number" if found.unsigned else ""
    does = "writes" if found.kind == "write" else "reads"
    message = (
        f"in the first thread this index is {number}{wraps}: it {does} outside of "
        f"`{found.buffer.name}`"
    )
    return found.spot, message, "guard it: `i > 0 ? x[i - 1] : 0`, or `x[max(i, 1u) - 1]`"
