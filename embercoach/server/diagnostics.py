"""Findings as an editor shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach import rulebook
from embercoach.engine.suppressions import CODES
from embercoach.rulebook import rule_url
from embercoach.server.wire import (
    ERROR,
    HINT,
    INFORMATION,
    SOURCE,
    UNNECESSARY,
    WARNING,
    line_diagnostic,
)

if TYPE_CHECKING:
    from embercoach.finding import Finding, Problem, Step
    from embercoach.server.analysis import Checked
    from embercoach.server.wire import Diagnostic, Location, RelatedInformation, Severity

#: Findings shown of a document.
MOST = 1000
#: What may go without a trace: editors fade it.
_IDLE = CODES[0]
_SEVERITIES: dict[str, Severity] = {"error": ERROR, "warning": WARNING, "note": INFORMATION}


def diagnostics(checked: Checked) -> list[Diagnostic]:
    """The findings of a document, notes included, and its problems."""
    findings = checked.result.findings
    found = [_of_problem(problem, checked) for problem in checked.result.problems]
    found += [diagnostic(finding, checked) for finding in findings[:MOST]]
    if len(findings) > MOST:
        message = f"{len(findings) - MOST:,} more findings are not shown"
        found.append(line_diagnostic(message, INFORMATION))
    return found


def diagnostic(finding: Finding, checked: Checked) -> Diagnostic:
    """A finding. A note that `check` would only count is a hint."""
    severity = _SEVERITIES[finding.severity]
    if finding.severity == "note" and not (checked.settings and checked.settings.show_notes):
        severity = HINT
    rule = rulebook.rule(finding.code)
    url = checked.settings and _page_url(finding.code, checked.settings.rules_url)
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


def _page_url(code: str, rules_url: str) -> str | None:
    """The page of a rule: on the site, or of a plugin's rule the file in the plugin's package."""
    if rules_url and code not in rulebook.builtin_codes():
        return rulebook.page_path(code).as_uri()
    return rule_url(code, rules_url)


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
    """A problem, from its place to the end of the line."""
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
