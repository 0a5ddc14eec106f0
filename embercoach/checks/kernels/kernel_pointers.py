"""KERNEL-SPACE-001, for pointers that are declared for no address space at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport
from embercoach.checks.registry import check
from embercoach.metal.program.types import NAMED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.text_facts import Declaration
    from embercoach.metal.written.body import MetalText

CODE = "KERNEL-SPACE-001"
KINDS = frozenset({"local", "parameter", "field"})


@check(CODE)
def pointers_without_space(code: MetalCode) -> Iterator[MetalReport]:
    """``float* p = values;`` in a body or a header, or in a file."""
    for text in code.texts:
        # A macro may stand for the address space.
        if text.parse_ok and not text.macros.blanks:
            yield from _bare(text)


def _bare(text: MetalText) -> Iterator[MetalReport]:
    # KERNEL-UNIT-004 reports the arguments of entry points.
    parameters = {parameter.place for entry in text.entry_points for parameter in entry.parameters}
    for declaration in text.declarations:
        if not _lacks_space(declaration) or text.is_conditional(declaration.place):
            continue
        if declaration.place not in parameters:
            yield MetalReport(
                CODE,
                text.at(declaration.place),
                f"pointer or reference `{declaration.name}` without an address space",
                "Write `device`, `constant`, `threadgroup` or `thread` before "
                f"`{declaration.type}`",
            )
    # But for the initial values of these pointers.
    lines = {d.place.line for d in text.declarations if _lacks_space(d)}
    for cast in text.bare_casts:
        if cast.type in NAMED and cast.place.line not in lines:
            yield MetalReport(
                CODE,
                text.at(cast.place),
                f"cast to `{cast.type}*` without an address space",
                f"Write the space of the pointer that is cast: `device {cast.type}*`",
            )


def _lacks_space(declaration: Declaration) -> bool:
    return (
        declaration.pointer
        and declaration.address_space is None
        and declaration.kind in KINDS
        and declaration.type in NAMED
    )
