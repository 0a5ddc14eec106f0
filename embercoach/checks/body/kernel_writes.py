"""KERNEL-WRITE: kernels that write to their inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport, metal_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.inspections.input_writes import InputWrite

CODE = "KERNEL-WRITE-001"
_REFUSED = "MLX passes inputs as `const`, so the kernel fails to compile at its first launch"
_WRITTEN = (
    "where the cast takes the `const` away it compiles, and changes an array that others may hold; "
    "where it does not, the kernel fails to compile"
)
_HELP = (
    "declare an output for the result, and copy what stays into it: MLX's arrays never change in "
    "place"
)


@metal_check(CODE)
def writes_to_inputs(code: MetalCode) -> Iterator[MetalReport]:
    """Assignments, atomics and writing pointers to inputs."""
    if code.whole:
        return
    from embercoach.metal.inspections.input_writes import input_writes

    found: dict[str, dict[tuple[str, int], InputWrite]] = {}
    for kernel in code.kernels:
        for write in input_writes(kernel.program, code.text, code.header):
            places = found.setdefault(write.variable.name, {})
            places.setdefault((write.spot.text, write.spot.place.start), write)
    for places in found.values():
        first = next(iter(places.values()))
        message = _message(first, len(places))
        yield MetalReport(CODE, first.spot.place, message, _help(first), first.spot.text)


def _message(write: InputWrite, places: int) -> str:
    name = f"`{write.variable.name}`"
    what = "an input" if write.variable.kind == "input" else "passed beside an input, to be read"
    outcome = _WRITTEN if write.cast else _REFUSED
    again = f" (the first of {places} such places)" if places > 1 else ""
    if write.way == "declared":
        return f"{name} is {what}, and the pointer `{write.by}` may write to it{again}: {outcome}"
    if write.way == "pointer":
        return f"{name} is {what}, and this writes to it through `{write.by}`{again}: {outcome}"
    if write.way in ("atomic", "call"):
        return f"{name} is {what}, and `{write.by}` writes to it{again}: {outcome}"
    return f"{name} is {what}, and this writes to it{again}: {outcome}"


def _help(write: InputWrite) -> str:
    if write.way == "declared":
        return "declare a pointer that only reads with `const`: `const device T*`, or `auto`"
    return _HELP
