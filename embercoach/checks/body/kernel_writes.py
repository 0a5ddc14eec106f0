"""KERNEL-WRITE: kernels that write to their inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport
from embercoach.checks.registry import check
from embercoach.metal import hazards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.inspections.input_writes import InputWrite

CODE = "KERNEL-WRITE-001"


@check(CODE)
def writes_to_inputs(code: MetalCode) -> Iterator[MetalReport]:
    """Assignments, atomics and writing pointers to inputs."""
    if code.whole:
        return
    from embercoach.metal.inspections.input_writes import input_writes

    found: dict[str, dict[tuple[str, int], InputWrite]] = {}
    for kernel in code.kernels:
        for write in input_writes(kernel.program):
            places = found.setdefault(write.variable.name, {})
            places.setdefault((write.spot.text, write.spot.place.start), write)
    for places in found.values():
        first = next(iter(places.values()))
        message = _message(first, len(places))
        yield MetalReport(CODE, first.spot.place, message, _help(first), first.spot.text)


def _message(write: InputWrite, places: int) -> str:
    name, is_input = write.variable.name, write.variable.kind == "input"
    what = hazards.input_write(name) if is_input else f"write to read-only `{name}`"
    if write.way == "declared":
        what = f"writable pointer `{write.by}` to {'input' if is_input else 'read-only'} `{name}`"
    elif write.way == "pointer":
        what += f" through `{write.by}`"
    elif write.way in ("atomic", "call"):
        what += f" by `{write.by}`"
    again = f" ({places} places)" if places > 1 else ""
    return f"{what}{again}{': a cast may drop its `const`' if write.cast else ''}"


def _help(write: InputWrite) -> str:
    if write.way == "declared":
        return "Declare a read-only pointer with `const`: `const device T*`, or `auto`"
    return hazards.INPUT_WRITE_HELP
