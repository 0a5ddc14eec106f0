"""Findings in pull requests: GitHub's workflow commands and GitLab's code quality report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from embercoach.report.baseline_file import fingerprints, of_places
from embercoach.report.locations import (
    in_repository,
    place_of,
    region_in_file,
    start_in_file,
    within_cell,
)
from embercoach.report.outcome import Outcome, SourceTexts, listed
from embercoach.terminal_text import escaped, json_renderer

if TYPE_CHECKING:
    from embercoach.finding import Finding, Problem

LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def github_annotations(outcome: Outcome, sources: SourceTexts, *, show_notes: bool) -> str:
    """Get one workflow command a line, at lines of the files themselves, as GitHub shows them."""
    return "".join(f"{line}\n" for line in _lines(outcome, sources, show_notes=show_notes))


def _lines(outcome: Outcome, sources: SourceTexts, *, show_notes: bool) -> Iterator[str]:
    for finding in listed(outcome, show_notes=show_notes):
        yield _finding(finding, sources)
    for problem in outcome.problems:
        yield _problem(problem, sources)


def _finding(finding: Finding, sources: SourceTexts) -> str:
    line, column, end_line, end_column = region_in_file(finding.path, finding, sources)
    properties = {
        "title": f"EmberCoach ({finding.code})",
        "file": finding.path,
        "line": str(line),
        "col": str(column),
        "endLine": str(end_line),
    }
    # GitHub rejects columns over several lines.
    if end_line == line:
        properties["endColumn"] = str(end_column)
    else:
        del properties["col"]
    lines = [f"{place_of(finding)}: {finding.code} {finding.message}"]
    if finding.help:
        lines += finding.help.split("\n")
    return _command(LEVELS[finding.severity], properties, lines)


def _problem(problem: Problem, sources: SourceTexts) -> str:
    line, column = start_in_file(problem, sources)
    properties = {
        "title": "EmberCoach",
        "file": problem.path,
        "line": str(line),
        "col": str(column),
    }
    return _command("error", properties, [f"{place_of(problem)}: {problem.message}"])


def _command(level: str, properties: dict[str, str], lines: list[str]) -> str:
    shown = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {shown}::{'%0A'.join(map(_data, lines))}"


def _data(text: str) -> str:
    return escaped(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


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
    """Return the report as plain data: an entry for each finding and for each problem.

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


gitlab_report = json_renderer(document, end="\n")


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
