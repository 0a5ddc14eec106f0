"""KERNEL-MSL-001, KERNEL-ATOMIC-001, KERNEL-INIT-001: misplaced and unset variables of functions.

Source: Metal Shading Language Specification 3.2, sections 4.1 (device), 4.3 (thread) and 6.15.4
(atomic functions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport
from embercoach.checks.registry import check
from embercoach.metal import hazards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.program.nodes import Text
    from embercoach.metal.written.body import MetalText

LANGUAGE = "KERNEL-MSL-001"
ATOMIC = "KERNEL-ATOMIC-001"
UNSET = "KERNEL-INIT-001"
_ATOMIC_FLOATS = frozenset({"atomic_float", "atomic<float>"})


@check(LANGUAGE, ATOMIC)
def misplaced_variables(code: MetalCode) -> Iterator[MetalReport]:
    """Variables of functions that are declared ``device``, and threadgroup atomics of floats."""
    yield from _misplaced(code.text, None)
    if not code.whole:
        yield from _misplaced(code.header, "header")


@check(UNSET)
def unset_variables(code: MetalCode) -> Iterator[MetalReport]:
    """Variables that are declared without a value and read: ``float sum; sum += x[i];``."""
    from embercoach.metal.program.unset_locals import unset_reads

    if code.text.marks and not code.whole:
        return  # KERNEL-SIG-002: `uint i [[thread_position_in_grid]];` is meant to have a value
    for kernel in code.kernels:
        if kernel.own.problems:
            continue
        for found in unset_reads(kernel.own):
            name, spot = found.variable.name, found.spot
            yield MetalReport(
                UNSET,
                spot.place,
                f"{hazards.uninitialized_read(name)}: declared without a value",
                "Give it a value where it is declared; threadgroup memory needs a store",
                spot.text,
            )


def _misplaced(text: MetalText, where: Text | None) -> Iterator[MetalReport]:
    if not text.parse_ok:
        return
    for declaration in text.declarations:
        if declaration.kind != "local" or declaration.pointer:
            continue
        if text.is_conditional(declaration.place):
            continue
        space, name = declaration.address_space, declaration.name
        kind = "".join(declaration.type.removeprefix("metal::").split())
        if space == "device" and kind != "auto":
            yield MetalReport(
                LANGUAGE,
                declaration.place,
                f"local variable `{name}` in `device` memory",
                "Drop `device`; for a variable of all threadgroups add an output with `init_value`",
                where,
            )
        elif space == "threadgroup" and kind in _ATOMIC_FLOATS:
            yield MetalReport(
                ATOMIC,
                declaration.place,
                f"no atomic type for float variable `{name}` in threadgroup memory",
                "Reduce with `simd_sum` and a threadgroup array, or use an atomic output",
                where,
            )
