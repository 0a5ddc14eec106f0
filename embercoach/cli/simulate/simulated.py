"""The report of ``embercoach simulate``: text with a table, JSON, SARIF."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from embercoach import rulebook
from embercoach.cli.simulate.profile_text import print_profiles
from embercoach.cli.tables import new_table, print_table
from embercoach.finding import Finding
from embercoach.report import text
from embercoach.report.excerpt import visible
from embercoach.report.json_report import span_members
from embercoach.report.outcome import SourceTexts
from embercoach.report.styled import STYLES, print_lines, width_of, wraps
from embercoach.rule_links import RULES_URL
from embercoach.simulator.profile.prediction import RESOURCES
from embercoach.terminal_text import json_text, log_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.table import Table

    from embercoach.report.styled import Line
    from embercoach.simulator.model import KernelFinding as SimulatorFinding
    from embercoach.simulator.reporting.kernel_lines import LineSpan
    from embercoach.simulator.session.record import Record

#: Of the JSON report; raised when something in it is removed or changes its meaning.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Simulated:
    """A run to report; it is an outcome for the reports of ``check``, too.

    Attributes:
        record: what was launched and found.
        program: how it is named.
        compiled_only: whether kernels were compiled and not run.
        show_notes: whether text lists notes.
        in_short: whether the program has reported the findings itself.
        profile: whose severities the findings have.
        exit_code: of this run.
        rules_url: the setting; empty for no links.
    """

    record: Record
    program: str
    compiled_only: bool
    show_notes: bool
    in_short: bool
    profile: str
    exit_code: int
    rules_url: str = RULES_URL

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings at their places in Python files, sorted."""
        found = [self.at_its_place(*pair) for pair in self.record.findings]
        return tuple(sorted(found, key=lambda finding: finding.sort_key))

    @property
    def problems(self) -> tuple[()]:
        """None: a program that can't be run has no report."""
        return ()

    files_checked = 0
    files_skipped = 0

    @property
    def suppressed(self) -> int:
        """Findings of allowed kinds."""
        return self.record.allowed

    def at_its_place(self, found: SimulatorFinding, place: LineSpan | None) -> Finding:
        """Return the finding at its line in Python, or where the kernel was launched."""
        if place is not None:
            path, line, column, end_column = place
        else:
            path, line = found.launched_at or (self.program, 1)
            column, end_column = 1, 1
        facts = (found.help, *found.details, _circumstances(found, placed=place is not None))
        return Finding(
            path=_shown(path),
            line=line,
            column=column,
            end_line=line,
            end_column=end_column,
            code=found.code,
            severity=rulebook.rule(found.code).severity_in(self.profile, "default"),
            message=found.message,
            help="\n".join(filter(None, facts)),
            context="default",
        )


def _shown(path: str) -> str:
    """A path as users write it: relative where it lies below the current folder."""
    here = f"{Path.cwd()}{os.sep}"
    return path.removeprefix(here)


def _circumstances(found: SimulatorFinding, *, placed: bool) -> str:
    """The kernel, the thread, and whichever of its line and its launch the place is not."""
    facts = [f"kernel `{found.kernel}`"]
    if not placed and found.line is not None:
        code = f": `{found.excerpt}`" if found.excerpt else ""
        facts.append(f"{found.part} line {found.line}{code}")
    if found.thread is not None:
        facts.append(f"thread {found.thread}")
    if found.count > 1:
        facts.append(f"{found.count} times")
    if placed and found.launched_at is not None:
        path, line = found.launched_at
        facts.append(f"launched at {_shown(path)}:{line}")
    return ", ".join(facts)


def render(simulated: Simulated, form: str, stream: TextIO) -> None:
    """Write the report in one of the command's formats."""
    if form == "json":
        stream.write(json_text(document(simulated)) + "\n")
    elif form == "sarif":
        from embercoach.report import sarif

        stream.write(
            sarif.render(
                simulated,
                SourceTexts(),
                profile=simulated.profile,
                exit_code=simulated.exit_code,
                codes=rulebook.codes() - rulebook.static_codes(),
                rules_url=simulated.rules_url,
            )
        )
    elif form == "html":
        from embercoach.report.html.profile_page import render_profiles

        stream.write(
            render_profiles(
                [_placed(profile) for profile in simulated.record.profiles],
                program=simulated.program,
                resources=RESOURCES,
                shown=visible,
            )
        )
    else:
        _for_people(simulated, stream)


def document(simulated: Simulated) -> dict[str, Any]:
    """The JSON report as plain data; its form is that of ``simulation.schema.json``."""
    record = simulated.record
    placed = [(simulated.at_its_place(*pair), pair[0]) for pair in record.findings]
    placed.sort(key=lambda pair: pair[0].sort_key)
    severities = [finding.severity for finding, _ in placed]
    return {
        "version": VERSION,
        "findings": [_members(finding, found) for finding, found in placed],
        "kernels": [
            {
                "name": row.name,
                "launches": row.launches,
                "seconds": round(row.seconds, 6),
                "findings": row.findings,
                "notes": row.notes,
            }
            for row in record.kernels
        ],
        "summary": {
            "errors": severities.count("error"),
            "warnings": severities.count("warning"),
            "notes": severities.count("note"),
            "allowed": record.allowed,
            "kernels": len(record.kernels),
            "launches": record.launches,
            "seconds": round(record.seconds, 6),
            "compiled_only": simulated.compiled_only,
            "exit_code": simulated.exit_code,
        },
        **({"profiles": [_placed(one) for one in record.profiles]} if record.profiles else {}),
    }


def _placed(profile: Mapping[str, Any]) -> dict[str, Any]:
    """A profile whose path is shown as users write it."""
    place = profile["launched_at"]
    shown = place and {**place, "path": _shown(place["path"])}
    return {**profile, "launched_at": shown}


def _members(finding: Finding, found: SimulatorFinding) -> dict[str, Any]:
    launch = found.launched_at
    return {
        "path": finding.path,
        **span_members(finding),
        "code": finding.code,
        "kind": found.kind,
        "severity": finding.severity,
        "message": finding.message,
        "help": finding.help,
        "kernel": found.kernel,
        "part": found.part,
        "kernel_line": found.line,
        "excerpt": found.excerpt,
        "thread": found.thread and list(found.thread),
        "count": found.count,
        "launched_at": launch and {"path": _shown(launch[0]), "line": launch[1]},
    }


def _for_people(simulated: Simulated, stream: TextIO) -> None:
    shown = simulated.show_notes
    if simulated.in_short:
        lines = text.concise(simulated, show_notes=shown)
    else:
        width, wrap = width_of(stream), wraps(stream)
        lines = text.full(simulated, SourceTexts(), show_notes=shown, width=width, wrap=wrap)
    print_lines(lines, stream, rules_url=simulated.rules_url)
    profiles = [_placed(profile) for profile in simulated.record.profiles]
    print_profiles(profiles, RESOURCES, stream)
    if simulated.record.kernels:
        print_table(_table(simulated), stream)
    print_lines(_summary(simulated), stream)


def _table(simulated: Simulated) -> Table:
    from rich.text import Text

    table = new_table()
    table.add_column("kernel", overflow="fold")
    numbers = ["variants"] if simulated.compiled_only else ["launches", "seconds"]
    for name in (*numbers, "findings", "notes"):
        table.add_column(name, justify="right")
    for row in simulated.record.kernels:
        count = [str(row.launches)]
        if not simulated.compiled_only:
            count.append(f"{row.seconds:.3f}")
        style = STYLES["error"] if row.findings else ""
        kernel, findings = Text(log_line(row.name)), Text(str(row.findings), style)
        table.add_row(kernel, *count, findings, str(row.notes))
    return table


def _summary(simulated: Simulated) -> Iterator[Line]:
    record = simulated.record
    if not record.kernels:
        yield [(f"{simulated.program} launched no kernel.", "warning")]
        return
    kernels = text.plural(len(record.kernels), "kernel")
    if simulated.compiled_only:
        ran = f"{text.plural(record.launches, 'variant')} of {kernels} compiled, none run."
    else:
        launches = f"{record.launches} launch{'' if record.launches == 1 else 'es'}"
        ran = f"{launches} of {kernels} in {record.seconds:.2f} s."
    aside = []
    if record.notes and not simulated.show_notes:
        aside.append(f"{text.plural(record.notes, 'note')} not shown (--show-notes)")
    if record.allowed:
        aside.append(f"{record.allowed} allowed")
    tail = f" {'; '.join(aside)}." if aside else ""
    if record.faults:
        yield [(f"Found {text.plural(record.faults, 'fault')}; ", "head"), (f"{ran}{tail}", "")]
    else:
        yield [("All clear", "good"), (f"; {ran}{tail}", "")]
