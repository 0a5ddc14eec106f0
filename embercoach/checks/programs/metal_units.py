"""Runs the checks of Metal text over whole files, and over the texts inside Objective-C++."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from embercoach.checks.file_reports import LineOffsets
from embercoach.checks.programs.metal_checks import ELSEWHERE, OTHER, MetalFile
from embercoach.checks.registry import checks_on, load_kernel_checks
from embercoach.finding import Finding, Step
from embercoach.metal.work_budget import TOO_INTRICATE, WorkBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from embercoach.checks.programs.metal_checks import MetalReport
    from embercoach.metal.work_budget import WorkBudget
    from embercoach.metal.written.body import MetalText

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
    for check in checks_on("ObjectiveC"):
        found += placed(check(file), source)
    for unit in embedded_units(file):
        found += placed(reports_of(unit.text, budget), source, unit.offsets)
    return tuple(found)


def reports_of(text: MetalText, budget: WorkBudget) -> Iterator[MetalReport]:
    """Run the checks over a text at file scope, within the remaining steps of its file."""
    from embercoach.checks.programs.unit_plans import kernels_of_unit
    from embercoach.metal.written.body import EMPTY

    load_kernel_checks()
    budget.note(text.refusal)
    code = MetalFile(text, EMPTY, plan=partial(kernels_of_unit, text.text, budget))
    for check in (*checks_on("MetalCode"), *checks_on("MetalFile")):
        with suppress(WorkBudgetExceeded):
            yield from check(code)


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
