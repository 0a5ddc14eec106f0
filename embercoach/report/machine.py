"""The JSON report; its form is published in ``findings.schema.json`` and stable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from embercoach.report.outcome import counts

if TYPE_CHECKING:
    from embercoach.finding import Finding, Fix
    from embercoach.fixes.source import LineIndex
    from embercoach.report.outcome import Comparison, Outcome, Sources

VERSION = 1


def render(
    outcome: Outcome,
    sources: Sources,
    *,
    show_notes: bool,
    comparison: Comparison | None = None,
) -> str:
    """The report as JSON text. Notes are always in it; fixes' places are lines and columns."""
    data = document(outcome, sources, show_notes=show_notes, comparison=comparison)
    return json.dumps(data, indent=2) + "\n"


def document(
    outcome: Outcome,
    sources: Sources,
    *,
    show_notes: bool,
    comparison: Comparison | None = None,
) -> dict[str, Any]:
    """The report as plain data; its summary has a ``baseline`` where the run had one."""
    count = counts(outcome, show_notes=show_notes)
    data: dict[str, Any] = {
        "version": VERSION,
        "findings": [_finding(finding, sources) for finding in outcome.findings],
        "problems": [
            {"path": p.path, "line": p.line, "column": p.column, "message": p.message}
            for p in outcome.problems
        ],
        "summary": {
            "errors": count.errors,
            "warnings": count.warnings,
            "notes": count.notes,
            "suppressed": outcome.suppressed,
            "fixable": count.safe_fixes,
            "fixable_unsafe": count.unsafe_fixes,
            "problems": len(outcome.problems),
            "files_checked": outcome.files_checked,
            "files_skipped": outcome.files_skipped,
        },
    }
    if comparison is not None:
        data["summary"]["baseline"] = {"known": comparison.known, "fixed": comparison.fixed}
    return data


def _finding(finding: Finding, sources: Sources) -> dict[str, Any]:
    fix = finding.fix
    return {
        "path": finding.path,
        "line": finding.line,
        "column": finding.column,
        "end_line": finding.end_line,
        "end_column": finding.end_column,
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "help": finding.help,
        "context": finding.context,
        "fix": _fix(fix, sources.index(finding.path)) if fix else None,
    }


def _fix(fix: Fix, index: LineIndex) -> dict[str, Any]:
    return {
        "title": fix.title,
        "safe": fix.safe,
        "edits": [
            {
                "start": _place(index, edit.start),
                "end": _place(index, edit.end),
                "text": edit.text,
            }
            for edit in fix.edits
        ],
    }


def _place(index: LineIndex, offset: int) -> dict[str, int]:
    line, column = index.place(offset)
    return {"line": line, "column": column}
