"""Runs the checks of Metal text over kernels of Python files, whole files, and Objective-C++."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import Fact
from embercoach.checks.programs.kernels import Target, TextPlaces, definitions, kernel_file
from embercoach.checks.programs.metal_checks import (
    ELSEWHERE,
    OTHER,
    MetalCode,
    MetalFile,
    MetalFix,
    MetalReport,
)
from embercoach.checks.registry import ProposedFix, Report, check, checks_on, load_kernel_checks
from embercoach.finding import Finding, Step
from embercoach.fixes.source_file import LineIndex
from embercoach.metal.program.nodes import Spot
from embercoach.metal.program.written_facts import MetalText
from embercoach.metal.work_budget import TOO_INTRICATE, WorkBudget, WorkBudgetExceeded


@check()
def metal_bodies(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Yield each kernel once. A body that holds a kernel function has no checks of Metal text."""
    for kernel in definitions(module, facts):
        names = ["PythonKernel"]
        if kernel.source is not None:
            kernel_file(module).budget.note(kernel.text.refusal or kernel.header.refusal)
            names += ["KernelBody"] if kernel.is_body else []
            names += [] if kernel.text.entry_points else ["MetalCode"]
        yield from python_reports(kernel, kernel.places, *names)


def python_reports(code: MetalCode, places: TextPlaces, *facts: str) -> Iterator[Report]:
    """Run the checks of these facts over Metal text of a Python file."""
    for body_check in chain.from_iterable(map(checks_on, facts)):
        with suppress(WorkBudgetExceeded):
            for report in body_check(code):
                if isinstance(report, Report):
                    yield report
                else:
                    yield from _placed_in_python(report, places)


def _placed_in_python(report: MetalReport, places: TextPlaces) -> Iterator[Report]:
    """Report at the literals of a kernel's text; nothing where these are in another file."""
    from embercoach.metal.unknown_numbers import readable_names

    where = _target(report.spot, places)
    if where is None:
        return
    message, related, within = report.message, tuple[Stop, ...](), where.within
    if report.other is not None:
        second = _target(report.other, places)
        if second is not None and (read := second.within) is not None and within is not None:
            line = f"{Path(read.path).name}:{read.line}"
            step = Step(read.line, read.column, read.end_line, read.end_column, OTHER)
            within = replace(within, related=(step,))
        elif second is None or second.span is None:
            line = f"line {report.other.place.line} of the {report.other.text}"
        else:
            line = _line_of(second, places.module)
            related = (Stop(second.node, second.place.statement, OTHER, span=second.span),)
        message = message.replace(ELSEWHERE, line)
    yield Report(
        report.code,
        where.node,
        where.place,
        message=readable_names(message),
        help=readable_names(report.help),
        text_span=where.span,
        related=related,
        within=within,
        change=None if report.fix is None else _written_fix(report.fix, places),
    )


def _target(spot: Spot, places: TextPlaces) -> Target | None:
    return places.target(spot.text, spot.place.start, spot.place.end)


def _written_fix(fix: MetalFix, places: TextPlaces) -> ProposedFix | None:
    """Replace parts of the text, where each is written exactly so."""
    edits = []
    for spot, old, new in fix.edits:
        where = _target(spot, places)
        if where is None or where.span is None:
            return None
        start, end = where.span
        if spot.place.end - spot.place.start > len(old):
            if not isinstance(where.node, cst.SimpleString):
                return None
            start = where.node.value.find(old, start, end)
            end = start + len(old)
        if start < 0 or end - start != len(old):
            return None
        edits.append((where.place.statement, where.node, (start, end), new))
    return ProposedFix(fix.title, False, (), parts=tuple(edits))


def _line_of(where: Target, module: Module) -> str:
    """Return the line of the file that a place is on."""
    assert where.span is not None
    spans = module.parsed.spans({where.node: where.place.statement})
    lines = LineIndex(module.source)
    start = lines.offset(spans[where.node].line, spans[where.node].column + 1)
    return f"line {lines.place(start + where.span[0])[0]}"


#: Where a finding of these files stands: there is nothing like a loop of Python around it.
CONTEXT = "default"


def check_unit(source: str, budget: WorkBudget) -> tuple[Finding, ...]:
    """Return the findings of a ``.metal`` file, as far as the budget goes.

    A file that is a part of a function has none: what is around it is not known.
    """
    from embercoach.metal.program.written_facts import read_unit

    text = read_unit(source)
    return () if text.is_fragment else placed(reports_of(text, budget), source)


def check_objective_c_file(source: str, budget: WorkBudget) -> tuple[Finding, ...]:
    """Return the findings of an Objective-C or Objective-C++ file, as far as the budget goes."""
    from embercoach.metal.objective_c import embedded_units, parse

    load_kernel_checks()
    file = parse(source)
    if file.parsed.is_exceeded:
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

    load_kernel_checks()
    budget.note(text.refusal)
    code = MetalFile(text, partial(kernels_of_unit, text.text, budget))
    for text_check in (*checks_on("MetalCode"), *checks_on("MetalFile")):
        with suppress(WorkBudgetExceeded):
            yield from text_check(code)


def placed(
    reports: Iterable[MetalReport], source: str, offsets: Sequence[int] | None = None
) -> tuple[Finding, ...]:
    """Return findings with their positions in a file, each once.

    Args:
        reports: places count characters of a text.
        source: the file.
        offsets: of that text's characters in the file; None where the text is the file.
    """
    lines = LineIndex(source)
    unique: dict[tuple[str, int, int], Finding] = {}
    for report in reports:
        start, end = report.spot.place.start, report.spot.place.end
        if offsets is not None:
            # The end is that of the last character: a literal may end in between.
            start, end = offsets[start], offsets[max(end - 1, start)] + 1
        message, related = report.message, tuple[Step, ...]()
        if report.other is not None:
            other = report.other.place.start, report.other.place.end
            if offsets is not None:
                other = offsets[other[0]], offsets[max(other[1] - 1, other[0])] + 1
            line, column = lines.place(other[0])
            message = message.replace(ELSEWHERE, f"line {line}")
            related = (Step(line, column, *lines.place(other[1]), OTHER),)
        finding = Finding(
            report.code,
            *lines.place(start),
            *lines.place(end),
            message,
            report.help,
            CONTEXT,
            related=related,
        )
        unique.setdefault((report.code, start, end), finding)
    return tuple(unique.values())
