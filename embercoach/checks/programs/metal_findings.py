"""Runs the checks of Metal text over kernels of Python files, whole files, and Objective-C++."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.origins import Stop
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
from embercoach.checks.programs.metal_checks import ELSEWHERE, OTHER, MetalCode, MetalFile
from embercoach.checks.registry import ProposedFix, Report, check, checks_on, load_kernel_checks
from embercoach.finding import Finding, Step
from embercoach.metal.work_budget import TOO_INTRICATE, WorkBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.strings import Folded
    from embercoach.checks.programs.kernels import Definition, Target
    from embercoach.checks.programs.metal_checks import MetalKernel, MetalReport
    from embercoach.metal.work_budget import WorkBudget
    from embercoach.metal.written.body import MetalText


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


#: Where a finding of these files stands: there is nothing like a loop of Python around it.
CONTEXT = "default"


def check_unit(source: str, budget: WorkBudget) -> tuple[Finding, ...]:
    """The findings of a ``.metal`` file, as far as the budget goes.

    A file that is a part of a function has none: what is around it is not known.
    """
    from embercoach.metal.written.body import read_unit

    text = read_unit(source)
    return () if text.is_fragment else placed(reports_of(text, budget), source)


def check_objective_c_file(source: str, budget: WorkBudget) -> tuple[Finding, ...]:
    """The findings of an Objective-C or Objective-C++ file, as far as the budget goes."""
    from embercoach.metal.objective_c import parse
    from embercoach.metal.written.embedded import embedded_units

    load_kernel_checks()
    file = parse(source)
    if file.syntax.is_exceeded:
        budget.note(TOO_INTRICATE)
    found: list[Finding] = []
    for host_check in checks_on("ObjectiveC"):
        found += placed(host_check(file), source)
    for unit in embedded_units(file):
        found += placed(reports_of(unit.text, budget), source, unit.offsets)
    return tuple(found)


def reports_of(text: MetalText, budget: WorkBudget) -> Iterator[MetalReport]:
    """Run the checks over a text at file scope, within the remaining steps of its file."""
    from embercoach.checks.programs.kernel_plans import kernels_of_unit
    from embercoach.metal.written.body import EMPTY

    load_kernel_checks()
    budget.note(text.refusal)
    code = MetalFile(text, EMPTY, plan=partial(kernels_of_unit, text.text, budget))
    for text_check in (*checks_on("MetalCode"), *checks_on("MetalFile")):
        with suppress(WorkBudgetExceeded):
            yield from text_check(code)


def placed(
    reports: Iterable[MetalReport], source: str, offsets: Sequence[int] | None = None
) -> tuple[Finding, ...]:
    """Findings with their positions in a file, each once.

    Args:
        reports: places count characters of a text.
        source: the file.
        offsets: of that text's characters in the file; None where the text is the file.
    """
    lines = LineOffsets(source)
    unique: dict[tuple[str, int, int], Finding] = {}
    for report in reports:
        start, end = report.place.start, report.place.end
        if offsets is not None:
            # The end is that of the last character: a literal may end in between.
            start, end = offsets[start], offsets[max(end - 1, start)] + 1
        message, related = report.message, tuple[Step, ...]()
        if report.other is not None:
            other = report.other.place.start, report.other.place.end
            if offsets is not None:
                other = offsets[other[0]], offsets[max(other[1] - 1, other[0])] + 1
            line, _ = lines.position(other[0])
            message = message.replace(ELSEWHERE, f"line {line}")
            related = (Step(*_place(lines, other[0]), *_place(lines, other[1]), OTHER),)
        finding = Finding(
            report.code,
            *_place(lines, start),
            *_place(lines, end),
            message,
            report.help,
            CONTEXT,
            related=related,
        )
        unique.setdefault((report.code, start, end), finding)
    return tuple(unique.values())


def _place(lines: LineOffsets, offset: int) -> tuple[int, int]:
    line, column = lines.position(offset)
    return line, column + 1
