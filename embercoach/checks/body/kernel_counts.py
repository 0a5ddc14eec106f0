"""KERNEL-CONST-001: a body that is written for another size of the threadgroup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.checks.registry import check
from embercoach.metal import hazards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.checks.programs.metal_checks import MetalCode
    from embercoach.metal.inspections.coverage import CoverageMismatch


@check("KERNEL-CONST-001")
def written_for_another_size(code: MetalCode) -> Iterator[MetalReport]:
    """``for (uint s = 128; s > 0; s >>= 1)`` in a threadgroup of 512."""
    if not code.text.threadgroup_arrays:
        return
    from embercoach.metal.inspections.coverage import mismatches

    for kernel in code.kernels:
        for number, configuration in enumerate(kernel.configurations):
            if not configuration.assumed:
                yield from map(_report, mismatches(kernel.trace(number)))


def _report(found: CoverageMismatch) -> MetalReport:
    name, spot, each = found.variable.name, found.access.spot, found.unit
    launched = found.written if each == "thread" else found.written * 32
    if found.read > found.written:
        what = hazards.uninitialized_read(f"{name}[{found.read - 1}]")
    else:
        what = f"`{name}` is read only up to `{name}[{found.read - 1}]`"
    return MetalReport(
        "KERNEL-CONST-001",
        spot.place,
        f"{what}: body assumes {found.threads} threads, launch has {launched}",
        f"Launch {found.threads} threads, or pass the size to both `threadgroup` and the body",
        spot.text,
    )
