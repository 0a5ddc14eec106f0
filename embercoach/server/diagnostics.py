"""Findings as an editor shows them, and the result of a notebook by cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from embercoach import rulebook
from embercoach.engine.suppressions import CODES
from embercoach.report.locations import region_in_file, start_in_file
from embercoach.report.outcome import SourceTexts
from embercoach.rulebook import page_url
from embercoach.server.editor import Positions
from embercoach.server.wire import (
    ERROR,
    HINT,
    INFORMATION,
    SOURCE,
    UNNECESSARY,
    WARNING,
    Diagnostic,
    Document,
    Location,
    RelatedInformation,
    Severity,
    line_diagnostic,
)

if TYPE_CHECKING:
    from embercoach.finding import Finding, Problem, Step
    from embercoach.server.analysis import Checked


class CellPlaces(Struct, frozen=True):
    """A cell's URI and positions."""

    uri: str
    positions: Positions


def cell_places(document: Document, encoding: str) -> tuple[CellPlaces, ...]:
    """Return the places of all cells of an open notebook."""
    return tuple(CellPlaces(cell.uri, Positions(cell.text, encoding)) for cell in document.cells)


def parts(checked: Checked) -> Iterator[Checked]:
    """The result of each cell, in the coordinates of the cell; that of another document itself."""
    if not checked.document.cells:
        yield checked
        return
    for number in range(1, len(checked.document.cells) + 1):
        yield part(checked, number)


def part_of(checked: Checked, uri: str) -> Checked:
    """Return the result of the document or the cell with a URI."""
    uris = [cell.uri for cell in checked.document.cells]
    return part(checked, uris.index(uri) + 1) if uri in uris else checked


def part(checked: Checked, number: int) -> Checked:
    """Get the result of a cell, counted from 1. Problems of the notebook are in its first cell."""
    document, result = checked.document, checked.result
    cell = document.cells[number - 1]
    one = replace(
        result,
        findings=tuple(found for found in result.findings if found.cell == number),
        problems=tuple(
            problem if problem.cell == number else replace(problem, line=1, column=1)
            for problem in result.problems
            if (problem.cell or 1) == number
        ),
    )
    return replace(
        checked,
        document=Document(cell.uri, document.path, cell.version, cell.text),
        positions=checked.cells[number - 1].positions,
        result=one,
        notebook=document,
    )


def in_file(checked: Checked) -> Checked:
    """Return the result of a notebook's file, in the coordinates of its JSON."""
    path = str(checked.document.path)
    sources = SourceTexts({path: checked.document.text})

    def placed(one: Finding | Step) -> Finding | Step:
        line, column, end_line, end_column = region_in_file(path, one, sources)
        return replace(
            one, cell=None, line=line, column=column, end_line=end_line, end_column=end_column
        )

    def problem_placed(problem: Problem) -> Problem:
        line, column = start_in_file(problem, sources)
        return replace(problem, cell=None, line=line, column=column)

    result = replace(
        checked.result,
        findings=tuple(finding.with_steps(placed) for finding in checked.result.findings),
        problems=tuple(map(problem_placed, checked.result.problems)),
    )
    return replace(checked, result=result)


#: Findings shown of a document.
MOST = 1000
#: What may go without a trace: editors fade it.
_IDLE = CODES[0]
_SEVERITIES: dict[str, Severity] = {"error": ERROR, "warning": WARNING, "note": INFORMATION}


def diagnostics(checked: Checked) -> list[Diagnostic]:
    """Return the findings of a document, notes included, and its problems."""
    findings = checked.result.findings
    found = [_of_problem(problem, checked) for problem in checked.result.problems]
    found += [diagnostic(finding, checked) for finding in findings[:MOST]]
    if len(findings) > MOST:
        message = f"{len(findings) - MOST:,} more findings are not shown"
        found.append(line_diagnostic(message, INFORMATION))
    return found


def diagnostic(finding: Finding, checked: Checked) -> Diagnostic:
    """Return a finding. A note that `check` would only count is a hint."""
    severity = _SEVERITIES[finding.severity]
    if finding.severity == "note" and not (checked.settings and checked.settings.show_notes):
        severity = HINT
    rule = rulebook.rule(finding.code)
    url = checked.settings and page_url(finding.code, checked.settings.rules_url)
    found: Diagnostic = {
        "range": checked.positions.between(
            finding.line, finding.column, finding.end_line, finding.end_column
        ),
        "severity": severity,
        "code": finding.code,
        "source": SOURCE,
        "message": f"{finding.message}\n{finding.help}" if finding.help else finding.message,
        "data": {"rule": finding.code, "name": rule.name, "fix": _fix_of(finding)},
    }
    if url:
        found["codeDescription"] = {"href": url}
    if finding.code == _IDLE:
        found["tags"] = [UNNECESSARY]
    if related := _related(finding, checked):
        found["relatedInformation"] = related
    return found


def _related(finding: Finding, checked: Checked) -> list[RelatedInformation]:
    """Where the array came from and where the context begins, in the document or its notebook."""
    return [
        {"location": _location(step, checked), "message": step.message}
        for step in (*finding.flow, *finding.related)
    ]


def _location(step: Step, checked: Checked) -> Location:
    uri, positions = checked.document.uri, checked.positions
    if checked.cells and step.cell is not None:
        cell = checked.cells[step.cell - 1]
        uri, positions = cell.uri, cell.positions
    place = positions.between(step.line, step.column, step.end_line, step.end_column)
    return {"uri": uri, "range": place}


def _fix_of(finding: Finding) -> str | None:
    if finding.fix is None:
        return None
    return "safe" if finding.fix.safe else "unsafe"


def _of_problem(problem: Problem, checked: Checked) -> Diagnostic:
    """Return a problem, from its place to the end of the line."""
    line = min(problem.line, checked.positions.index.count)
    text = checked.positions.index.line(line)
    start = min(problem.column, max(len(text), 1))
    found: Diagnostic = {
        "range": checked.positions.between(line, start, line, len(text) + 1),
        "severity": ERROR,
        "source": SOURCE,
        "message": problem.message,
    }
    if problem.message.startswith("syntax error"):
        found["code"] = "syntax-error"
    return found
