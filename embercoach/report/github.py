"""GitHub workflow commands: annotations on the changed lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.report.locations import place_of, region_in_file, start_in_file
from embercoach.report.outcome import listed
from embercoach.terminal_text import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.finding import Finding
    from embercoach.report.outcome import Outcome, ReportedProblem, SourceTexts

LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def render(outcome: Outcome, sources: SourceTexts, *, show_notes: bool) -> str:
    """One workflow command a line, at lines of the files themselves, as GitHub shows them."""
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


def _problem(problem: ReportedProblem, sources: SourceTexts) -> str:
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
