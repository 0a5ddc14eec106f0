"""KERNEL-SIG-010: escapes of Python that end a comment, or break a string, of a kernel's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.kernels import (
    definitions,
    header_of,
    parsed,
    parsed_header,
    source_of,
    target,
)
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.strings import Folded
    from embercoach.checks.programs.kernels import Definition
    from embercoach.metal.escapes import EscapedBreak
    from embercoach.metal.written.body import MetalText

# Characters of code that a message shows.
_SHOWN = 40


@check("KERNEL-SIG-010")
def kernel_escapes(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Each text of each kernel that the file builds."""
    for definition in definitions(module, facts):
        source, header = source_of(definition.fact), header_of(definition.fact)
        above = header.text.text if header else ""
        if source is not None:
            facts_of_source = parsed(source.text.text, above)
            yield from _broken_lines(definition, source, facts_of_source, module)
        if header is not None:
            yield from _broken_lines(definition, header, parsed_header(above), module)


def _broken_lines(
    definition: Definition, text: Folded, facts: MetalText, module: Module
) -> Iterator[Report]:
    from embercoach.metal.escapes import escaped_breaks

    def source(number: int) -> str | None:
        literal = text.literals[number]
        return None if isinstance(literal, str) else literal.node.value

    for found in escaped_breaks(text.text, source, facts.doubtful):
        where = target(definition, text, found.at, found.at + 1, module)
        if where is not None:
            yield Report.at(
                where,
                "KERNEL-SIG-010",
                message=_message(found, text.text.text),
                help=f'Use a raw string (`r"..."`), or double the backslash: `\\{found.escape}`',
                text_span=where.span,
            )


def _message(found: EscapedBreak, text: str) -> str:
    rest = " ".join(text[found.at + 1 : found.end].split())
    shown = rest if len(rest) <= _SHOWN else rest[: _SHOWN - 3] + "..."
    if found.inside == "comment":
        return f"`{found.escape}` ends the `//` comment: `{shown}` becomes code"
    return f"`{found.escape}` breaks a string of the kernel over two lines"
