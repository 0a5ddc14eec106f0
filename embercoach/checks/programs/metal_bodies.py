"""Runs the checks of Metal text over the kernels of a Python file, and places what they say."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.stops import Stop
from embercoach.checks.file_reports import LineOffsets
from embercoach.checks.programs.kernel_plans import budget_of, kernels_of
from embercoach.checks.programs.kernels import (
    definitions,
    header_of,
    parsed,
    parsed_header,
    readable,
    source_of,
    target,
)
from embercoach.checks.programs.metal_checks import ELSEWHERE, OTHER, MetalCode
from embercoach.checks.registry import ProposedFix, Report, check, checks_on
from embercoach.metal.work_budget import WorkBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.strings import Folded
    from embercoach.checks.programs.kernels import Definition, Target
    from embercoach.checks.programs.metal_checks import MetalKernel, MetalReport


@check()
def metal_bodies(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Each kernel whose body is known, once. A body that holds a whole function has no checks."""
    for definition in definitions(module, facts):
        source, header = source_of(definition.fact), header_of(definition.fact)
        if source is None:
            continue
        code = code_of(source, header, partial(kernels_of, definition, module))
        budget_of(module).note(code.text.refusal or code.header.refusal)
        if code.text.entry_points:
            continue
        for body_check in checks_on("MetalCode"):
            with suppress(WorkBudgetExceeded):
                for report in body_check(code):
                    yield from placed_in_python(report, definition, source, header, module)


def code_of(
    source: Folded,
    header: Folded | None,
    plan: Callable[[], tuple[MetalKernel, ...]] = tuple,
) -> MetalCode:
    """The code of a kernel that MLX builds from these texts; ``plan`` makes its programs."""
    above = header.text.text if header else ""
    followed = header is not None and readable(source, header) is not None
    return MetalCode(
        text=parsed(source.text.text, above),
        header=parsed_header(above),
        # Those that keep a program from being made.
        holes=frozenset() if followed else source.holes | (header.holes if header else frozenset()),
        header_known=header is not None,
        plan=plan,
    )


def placed_in_python(
    report: MetalReport,
    definition: Definition,
    source: Folded,
    header: Folded | None,
    module: Module,
) -> Iterator[Report]:
    """Report at the literals of a kernel's text; nothing where these are in another file."""
    from embercoach.metal.unknown_numbers import readable_names

    text = header if report.text == "header" else source
    if text is None:
        return
    place = report.place
    where = target(definition, text, place.start, place.end, module)
    if where is None:
        return
    message, related = report.message, tuple[Stop, ...]()
    if report.other is not None:
        other = header if report.other.text == "header" else source
        there = report.other.place
        second = None
        if other is not None:
            second = target(definition, other, there.start, there.end, module)
        if second is None or second.span is None:
            line = f"line {there.line} of the {report.other.text}"
        else:
            line = _line_of(second, module)
            related = (Stop(second.node, second.place.statement, OTHER, span=second.span),)
        message = message.replace(ELSEWHERE, line)
    yield Report.at(
        where,
        report.code,
        message=readable_names(message),
        help=readable_names(report.help),
        text_span=where.span,
        related=related,
        change=None if report.rewrite is None else _rewritten(where, module, *report.rewrite),
    )


def _rewritten(where: Target, module: Module, old: str, new: str) -> ProposedFix | None:
    """Replace a part of the text that is reported, where it is written exactly so."""
    if where.span is None:
        return None
    start, end = where.span
    at = module.parsed.code(where.node)[start:end].find(old)
    if at < 0 or not isinstance(where.node, cst.SimpleString) or where.node.lpar:
        return None
    part = (start + at, start + at + len(old))
    edit = (where.place.statement, where.node, part, new)
    return ProposedFix(f"Pass `{new}`", False, (), parts=(edit,))


def _line_of(where: Target, module: Module) -> str:
    """The line of the file that a place is on."""
    assert where.span is not None
    spans = module.parsed.spans({where.node: where.place.statement})
    lines = LineOffsets(module.source)
    start = lines.offset(spans[where.node].line, spans[where.node].column)
    return f"line {lines.position(start + where.span[0])[0]}"
