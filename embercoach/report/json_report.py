"""The JSON report; its form is published in ``findings.schema.json`` and stable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from embercoach.report.baseline_file import fingerprints
from embercoach.report.outcome import Comparison, Outcome, RunOrigin, SourceTexts, counts
from embercoach.terminal_text import json_text

if TYPE_CHECKING:
    from embercoach.finding import Edit, Finding, Fix, Problem, Step
    from embercoach.fixes.source_file import LineIndex
    from embercoach.notebooks.cell_module import CellTable

VERSION = 1


def render(
    outcome: Outcome, sources: SourceTexts, *, marks: Sequence[str] | None = None, **options: Any
) -> str:
    """Get the report as JSON text, with fingerprints; the options are those of `document`.

    Notes are always in it. Places of fixes are lines and columns.
    """
    marks = fingerprints(outcome.findings, sources) if marks is None else marks
    return written(document(outcome, sources, marks=marks, **options))


def written(data: dict[str, Any]) -> str:
    """Return a document as JSON text."""
    return json_text(data) + "\n"


def document(
    outcome: Outcome,
    sources: SourceTexts,
    *,
    show_notes: bool,
    comparison: Comparison | None = None,
    marks: Sequence[str] | None = None,
    origin: RunOrigin | None = None,
) -> dict[str, Any]:
    """Return the report as plain data.

    Args:
        outcome: the run's result.
        sources: the reported files' texts.
        show_notes: whether notes are listed.
        comparison: with the baseline; its numbers are in the summary.
        marks: the findings' fingerprints, if they are to be in it.
        origin: of the run, so that its report can be put together with others.
    """
    count = counts(outcome, show_notes=show_notes)
    data: dict[str, Any] = {
        "version": VERSION,
        "findings": [_finding(finding, sources) for finding in outcome.findings],
        "problems": [
            problem_members(one) | ({"unchecked": True} if one.is_unchecked else {})
            for one in outcome.problems
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
        data["summary"]["baseline"] = {
            "known": comparison.known,
            "fixed": comparison.fixed,
            "changes": to_builtins(comparison.changes),
        }
    for finding, mark in zip(data["findings"], marks or (), strict=marks is not None):
        finding["fingerprint"] = mark
    return data | (origin.members() if origin else {})


def _finding(finding: Finding, sources: SourceTexts) -> dict[str, Any]:
    fix = finding.fix
    return {
        **finding_members(finding),
        "context": finding.context,
        "fix": _fix(fix, finding, sources) if fix else None,
        **_steps("flow", finding.flow, finding.path),
        **_steps("related", finding.related, finding.path),
    }


def finding_members(finding: Finding) -> dict[str, Any]:
    """Return the members of a finding that all reports of findings have."""
    return {
        "path": finding.path,
        **_cell(finding.cell),
        **span_members(finding),
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "help": finding.help,
    }


def problem_members(problem: Problem) -> dict[str, Any]:
    """Return the members of a problem that all reports have."""
    place = {"path": problem.path, **_cell(problem.cell)}
    return place | {"line": problem.line, "column": problem.column, "message": problem.message}


def span_members(one: Finding | Step) -> dict[str, int]:
    """Return the members for the start and the exclusive end of a finding or step."""
    return {
        "line": one.line,
        "column": one.column,
        "end_line": one.end_line,
        "end_column": one.end_column,
    }


def _steps(name: str, steps: Sequence[Step], path: str) -> dict[str, Any]:
    """Return the member that holds steps, which findings without any don't have."""
    entries = [
        {
            "path": path,
            **_cell(step.cell),
            **span_members(step),
            "message": step.message,
        }
        for step in steps
    ]
    return {name: entries} if entries else {}


def _cell(number: int | None) -> dict[str, int]:
    """Return the member that names a notebook's cell, which other files' findings don't have."""
    return {} if number is None else {"cell": number}


def _fix(fix: Fix, finding: Finding, sources: SourceTexts) -> dict[str, Any]:
    notebook = None if finding.cell is None else sources.notebook(finding.path)
    index, cells = sources.index(finding.path), None
    if notebook is not None:
        index, cells = notebook.index, notebook.table
    return {
        "title": fix.title,
        "safe": fix.safe,
        "edits": [_edit(edit, index, cells) for edit in fix.edits],
    }


def _edit(edit: Edit, index: LineIndex, cells: CellTable | None) -> dict[str, Any]:
    (line, column), (end_line, end_column) = index.place(edit.start), index.place(edit.end)
    cell = None
    if cells is not None:
        end_line, end_column = cells.end(line, end_line, end_column)
        cell, line = cells.place(line)
    return {
        **_cell(cell),
        "start": {"line": line, "column": column},
        "end": {"line": end_line, "column": end_column},
        "text": edit.text,
    }
