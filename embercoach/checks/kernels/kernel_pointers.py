"""KERNEL-SPACE-001, for pointers that are declared for no address space at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport
from embercoach.checks.registry import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.program.nodes import Text
    from embercoach.metal.text_facts import Declaration
    from embercoach.metal.written.body import MetalText

CODE = "KERNEL-SPACE-001"
KINDS = frozenset({"local", "parameter", "field"})


@check(CODE)
def pointers_without_space(code: MetalCode) -> Iterator[MetalReport]:
    """``float* p = values;`` in a body or a header, or in a file."""
    yield from _bare(code.text, None)
    if not code.whole and code.header_known:
        yield from _bare(code.header, "header")


def _bare(text: MetalText, name: Text | None) -> Iterator[MetalReport]:
    # A macro may stand for the address space.
    if not text.parse_ok or text.macros.blanks:
        return
    # KERNEL-UNIT-004 reports the arguments of entry points.
    parameters = {parameter.place for entry in text.entry_points for parameter in entry.parameters}
    for declaration in text.declarations:
        if not _lacks_space(declaration) or text.is_conditional(declaration.place):
            continue
        if declaration.place not in parameters:
            kind = declaration.type
            yield MetalReport(
                CODE,
                declaration.place,
                f"pointer or reference `{declaration.name}` without an address space",
                f"Write `device`, `constant`, `threadgroup` or `thread` before `{kind}`",
                name,
            )
    yield from _bare_casts(text, name)


def _bare_casts(text: MetalText, name: Text | None) -> Iterator[MetalReport]:
    """Casts, but for those of initial values of pointers that are reported."""
    from embercoach.metal.program.types import NAMED

    lines = {d.place.line for d in text.declarations if _lacks_space(d)}
    for cast in text.bare_casts:
        if cast.type in NAMED and cast.place.line not in lines:
            yield MetalReport(
                CODE,
                cast.place,
                f"cast to `{cast.type}*` without an address space",
                f"Write the space of the pointer that is cast: `device {cast.type}*`",
                name,
            )


def _lacks_space(declaration: Declaration) -> bool:
    from embercoach.metal.program.types import NAMED

    return (
        declaration.pointer
        and declaration.address_space is None
        and declaration.kind in KINDS
        and declaration.type in NAMED
    )
