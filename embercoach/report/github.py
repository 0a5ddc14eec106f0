"""GitHub workflow commands: annotations on the changed lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.report.outcome import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.finding import Finding
    from embercoach.report.outcome import Outcome, Problem

LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def render(outcome: Outcome, *, show_notes: bool) -> str:
    """One workflow command a line."""
    return "".join(f"{line}\n" for line in _lines(outcome, show_notes=show_notes))


def _lines(outcome: Outcome, *, show_notes: bool) -> Iterator[str]:
    for finding in listed(outcome, show_notes=show_notes):
        yield _finding(finding)
    for problem in outcome.problems:
        yield _problem(problem)


def _finding(finding: Finding) -> str:
    properties = {
        "title": f"EmberCoach ({finding.code})",
        "file": finding.path,
        "line": str(finding.line),
        "col": str(finding.column),
        "endLine": str(finding.end_line),
    }
    # GitHub rejects columns over several lines.
    if finding.end_line == finding.line:
        properties["endColumn"] = str(finding.end_column)
    else:
        del properties["col"]
    place = f"{finding.path}:{finding.line}:{finding.column}"
    text = f"{place}: {finding.code} {finding.message}"
    if finding.help:
        text += f"\n{finding.help}"
    return _command(LEVELS[finding.severity], properties, text)


def _problem(problem: Problem) -> str:
    properties = {
        "title": "EmberCoach",
        "file": problem.path,
        "line": str(problem.line),
        "col": str(problem.column),
    }
    text = f"{problem.path}:{problem.line}:{problem.column}: {problem.message}"
    return _command("error", properties, text)


def _command(level: str, properties: dict[str, str], text: str) -> str:
    shown = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {shown}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
