"""Static findings in the report of ``embercoach trace``: text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from embercoach.cli.tables import add_place, duration, new_table, print_table
from embercoach.report.locations import line_of
from embercoach.report.styled import print_lines
from embercoach.report.text import plural, problem_lines, size_of
from embercoach.terminal_text import log_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embercoach.cli.trace.finding_join import JoinedFinding
    from embercoach.cli.trace.static_check import CheckedTrace
    from embercoach.trace.trace_record import Site


def print_findings(
    checked: CheckedTrace,
    unfound: Sequence[tuple[str, Site]],
    lines: int,
    stream: TextIO,
    *,
    option: str,
) -> None:
    """Write a table of findings, the files that could not be checked, and a summary.

    Args:
        checked: the trace with its findings.
        unfound: the places and sites that wait and that the check has no finding for.
        lines: of findings and of such sites, each at most.
        stream: where to.
        option: that shows more of them.
    """
    from rich.text import Text

    findings = checked.join.findings
    if findings or unfound:
        table = new_table()
        for name in ("finding", "state"):
            table.add_column(name, no_wrap=True)
        for name in ("count", "waited", "bytes"):
            table.add_column(name, justify="right", no_wrap=True)
        rows = [_finding_cells(one) for one in findings[:lines]]
        for place, site in unfound[:lines]:
            rows.append(("", "not found", *_cost(site), log_line(place), log_line(site.operation)))
        add_place(table, [row[-2] for row in rows])
        table.add_column("")
        for row in rows:
            table.add_row(*map(Text, row))
        stream.write("\n")
        print_table(table, stream)
        hidden = max(len(findings) - lines, 0) + max(len(unfound) - lines, 0)
        if hidden:
            print_lines([[(f"{hidden} more rows ({option}).", "")]], stream)
    print_lines(problem_lines(checked.problems), stream)
    if summary := finding_summary(checked):
        print_lines([[(summary, "")]], stream)


def _finding_cells(one: JoinedFinding) -> tuple[str, ...]:
    place, message = log_line(line_of(one.finding)), log_line(one.finding.message)
    cost = _cost(one) if one.sites else ("", "", "")
    return (one.finding.code, one.state.replace("-", " "), *cost, place, message)


def _cost(events: JoinedFinding | Site) -> tuple[str, str, str]:
    copied = size_of(events.bytes) if events.bytes else ""
    return f"{events.count:,}", duration(events.seconds) if events.seconds else "", copied


def finding_summary(checked: CheckedTrace) -> str:
    """One sentence with the counts; empty if there is nothing to count."""
    join = checked.join
    parts = []
    if join.findings:
        total = plural(len(join.findings), "finding")
        counted = [(join.count_of("no-event"), "without an event")]
        counted.append((join.count_of("not-reached"), "not reached"))
        rest = "".join(f", {count} {state}" for count, state in counted if count)
        parts.append(f"{join.count_of('confirmed')} of {total} confirmed{rest}")
    if join.not_found:
        parts.append(f"{plural(join.not_found, 'wait')} not found by check")
    return f"{'; '.join(parts)}." if parts else ""


def finding_counts(checked: CheckedTrace | None) -> dict[str, int]:
    """The counts of the JSON report's summary; none if nothing was linted."""
    if checked is None:
        return {}
    join = checked.join
    return {
        "findings": len(join.findings),
        "confirmed": join.count_of("confirmed"),
        "not_reached": join.count_of("not-reached"),
        "not_found": join.not_found,
    }


def finding_members(checked: CheckedTrace) -> list[dict[str, Any]]:
    """The findings of the JSON report."""
    return [
        {
            "path": one.finding.path,
            "line": one.finding.line,
            "column": one.finding.column,
            "end_line": one.finding.end_line,
            "end_column": one.finding.end_column,
            "code": one.finding.code,
            "severity": one.finding.severity,
            "message": one.finding.message,
            "help": one.finding.help,
            "confirmed": bool(one.sites),
            "state": one.state,
            "count": one.count,
            "seconds": one.seconds,
            "bytes": one.bytes,
        }
        for one in checked.join.findings
    ]


def problem_members(checked: CheckedTrace | None) -> list[dict[str, Any]]:
    """The problems of the JSON report."""
    problems = () if checked is None else checked.problems
    return [
        {
            "path": problem.path,
            "line": problem.line,
            "column": problem.column,
            "message": problem.message,
        }
        for problem in problems
    ]
