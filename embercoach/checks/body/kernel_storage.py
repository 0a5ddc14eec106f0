"""KERNEL-MSL-001 and KERNEL-ATOMIC-001: variables in an address space that has none of the kind.

Source: Metal Shading Language Specification 3.2, sections 4.1 (device), 4.3 (thread) and 6.15.4
(atomic functions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport, metal_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.body import MetalText
    from embercoach.metal.program.nodes import Text

LANGUAGE = "KERNEL-MSL-001"
ATOMIC = "KERNEL-ATOMIC-001"
_ATOMIC_FLOATS = frozenset({"atomic_float", "atomic<float>"})


@metal_check(LANGUAGE, ATOMIC)
def misplaced_variables(code: MetalCode) -> Iterator[MetalReport]:
    """Variables of functions that are declared ``device``, and threadgroup atomics of floats."""
    fails = "it does not compile" if code.whole else "the kernel fails to compile"
    yield from _misplaced(code.text, None, fails)
    if not code.whole:
        yield from _misplaced(code.header, "header", fails)


def _misplaced(text: MetalText, where: Text | None, fails: str) -> Iterator[MetalReport]:
    if not text.parse_ok:
        return
    for declaration in text.declarations:
        if declaration.kind != "local" or declaration.pointer:
            continue
        space, name = declaration.address_space, declaration.name
        kind = "".join(declaration.type.removeprefix("metal::").split())
        if space == "device" and kind != "auto":
            yield MetalReport(
                LANGUAGE,
                declaration.place,
                f"`{name}` is declared in `device` memory, and a function has no variables there, "
                f"only pointers to buffers: {fails}",
                f"declare it without `device`, which makes a `{name}` for each thread; for one "
                "that all threadgroups share add an output with `init_value`",
                where,
            )
        elif space == "threadgroup" and kind in _ATOMIC_FLOATS:
            yield MetalReport(
                ATOMIC,
                declaration.place,
                f"`{name}` is an atomic float in threadgroup memory, and Metal has them in "
                f"device memory only: {fails}",
                "sum with `simd_sum` and a threadgroup array of one value per SIMD group, or use "
                "an atomic output",
                where,
            )
