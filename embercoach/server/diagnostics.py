"""Findings as an editor shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from embercoach import rulebook
from embercoach.engine.directives import CODES
from embercoach.server.notices import SOURCE, line_diagnostic

if TYPE_CHECKING:
    from embercoach.engine.problem import Problem
    from embercoach.finding import Finding
    from embercoach.server.analysis import Checked

#: Findings shown of a document.
MOST = 1000
#: What may go without a trace: editors fade it.
_IDLE = CODES[0]
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}


def diagnostics(checked: Checked) -> list[types.Diagnostic]:
    """What is found in a document, notes among it, and what keeps it from being checked."""
    findings = checked.result.findings
    found = [_of_problem(problem, checked) for problem in checked.result.problems]
    found += [diagnostic(finding, checked) for finding in findings[:MOST]]
    if len(findings) > MOST:
        message = f"{len(findings) - MOST:,} more findings are not shown"
        found.append(line_diagnostic(message, types.DiagnosticSeverity.Information))
    return found


def diagnostic(finding: Finding, checked: Checked) -> types.Diagnostic:
    """A finding. A note that `check` would only count is a hint."""
    severity = _SEVERITIES[finding.severity]
    if finding.severity == "note" and not (checked.settings and checked.settings.show_notes):
        severity = types.DiagnosticSeverity.Hint
    rule = rulebook.rule(finding.code)
    page = rulebook.pages_directory() / f"{finding.code}.md"
    return types.Diagnostic(
        range=checked.positions.between(
            finding.line, finding.column, finding.end_line, finding.end_column
        ),
        severity=severity,
        code=finding.code,
        code_description=types.CodeDescription(page.as_uri()),
        source=SOURCE,
        message=f"{finding.message}\n{finding.help}" if finding.help else finding.message,
        tags=[types.DiagnosticTag.Unnecessary] if finding.code == _IDLE else None,
        data={"rule": finding.code, "name": rule.name, "fix": _fix_of(finding)},
        related_information=_related(finding, checked),
    )


def _related(finding: Finding, checked: Checked) -> list[types.DiagnosticRelatedInformation] | None:
    """Where the array came from and where the context begins, all in the document itself."""
    steps = (*finding.flow, *finding.related)
    return [
        types.DiagnosticRelatedInformation(
            types.Location(
                checked.document.uri,
                checked.positions.between(step.line, step.column, step.end_line, step.end_column),
            ),
            step.message,
        )
        for step in steps
    ] or None


def _fix_of(finding: Finding) -> str | None:
    if finding.fix is None:
        return None
    return "safe" if finding.fix.safe else "unsafe"


def _of_problem(problem: Problem, checked: Checked) -> types.Diagnostic:
    """What kept a document from being checked, from its place to the end of the line."""
    line = min(problem.line, checked.positions.index.count)
    text = checked.positions.index.line(line)
    start = min(problem.column, max(len(text), 1))
    is_syntax = problem.message.startswith("syntax error")
    return types.Diagnostic(
        range=checked.positions.between(line, start, line, len(text) + 1),
        severity=types.DiagnosticSeverity.Error,
        code="syntax-error" if is_syntax else None,
        source=SOURCE,
        message=problem.message,
    )
