"""GitLab's code quality report: findings in merge requests, new ones identified by fingerprints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.report.address import in_repository
from embercoach.report.fingerprints import fingerprints, of_places
from embercoach.report.locations import start_in_file, within_cell
from embercoach.terminal_text import json_renderer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embercoach.report.outcome import Outcome, SourceTexts

#: GitLab knows info, minor, major, critical and blocker.
SEVERITIES = {"error": "critical", "warning": "major", "note": "info"}
#: The name of what kept a file from being checked, which no rule found.
INCOMPLETE = "incomplete"


def document(
    outcome: Outcome,
    sources: SourceTexts,
    *,
    show_notes: bool,
    root: str | None = None,
    marks: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """The report as plain data: an entry for each finding and for each problem.

    Args:
        outcome: the run's result.
        sources: the reported files' texts.
        show_notes: whether notes are in it.
        root: the repository's folder; the current one by default.
        marks: the findings' fingerprints, where they are known already.
    """
    marks = fingerprints(outcome.findings, sources) if marks is None else marks
    entries = [
        _entry(
            f"{finding.code}: {within_cell(finding, finding.message)}",
            finding.code,
            mark,
            SEVERITIES[finding.severity],
            in_repository(finding.path, root),
            start_in_file(finding, sources)[0],
        )
        for finding, mark in zip(outcome.findings, marks, strict=True)
        if show_notes or finding.severity != "note"
    ]
    places = [(INCOMPLETE, problem) for problem in outcome.problems]
    for problem, mark in zip(outcome.problems, of_places(places, sources), strict=True):
        path = in_repository(problem.path, root)
        line, _ = start_in_file(problem, sources)
        message = within_cell(problem, problem.message)
        entries.append(_entry(message, INCOMPLETE, mark, "blocker", path, line))
    return entries


render = json_renderer(document, end="\n")


def _entry(
    description: str, name: str, mark: str, severity: str, path: str, line: int
) -> dict[str, Any]:
    return {
        "description": description,
        "check_name": name,
        "fingerprint": mark,
        "severity": severity,
        "location": {"path": path, "lines": {"begin": line}},
    }
