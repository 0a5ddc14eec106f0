"""The run of ``embercoach simulate``, and its report: text with tables, JSON, SARIF, profiles."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count as counting
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import Struct
from msgspec.structs import replace

from embercoach import rulebook
from embercoach.cli.effective_config import warn
from embercoach.cli.entry import CLEAN, FOUND
from embercoach.cli.output import deliver
from embercoach.cli.programs import program_of, run_recorded
from embercoach.cli.tables import duration, fitting, new_table, print_table, shortened
from embercoach.config import Overrides, Settings, load
from embercoach.config.load import compiler_allowed
from embercoach.files import shown_path
from embercoach.finding import Finding
from embercoach.report import text
from embercoach.report.excerpt import visible
from embercoach.report.html.profile_page import gpu_facts, line_cell, place_of, profile_facts
from embercoach.report.json_report import span_members
from embercoach.report.outcome import SourceTexts
from embercoach.report.styled import STYLES, Line, print_lines, width_of, wraps
from embercoach.report.text import size_of
from embercoach.rulebook import RULES_URL
from embercoach.simulator.profile.gpus import DEFAULT
from embercoach.simulator.profile.prediction import RESOURCES
from embercoach.simulator.reporting.messages import LineSpan, call_at
from embercoach.simulator.session.options import VARIABLE, Options
from embercoach.simulator.session.record import KernelRow, Record, read
from embercoach.terminal_text import json_text, log_line

if TYPE_CHECKING:
    from rich.table import Table

    from embercoach.simulator.model import KernelFinding as SimulatorFinding

#: Lines of a kernel that text shows, and the least part of the bound of one.
_MOST_LINES, _LEAST_SHARE = 8, 0.02
#: Characters for the source next to the columns.
_LEAST_SOURCE = 16


def print_profiles(
    profiles: Sequence[Mapping[str, Any]], resources: Mapping[Any, str], stream: TextIO
) -> None:
    """Write each kernel's prediction and its lines, the most expensive first.

    Args:
        profiles: as the JSON report has them.
        resources: names of what bounds a launch.
        stream: to write to.
    """
    for profile in profiles:
        print_lines(_head(profile, resources[profile["bound"]]), stream)
        print_table(table(profile, width_of(stream)), stream)
    for figures in dict.fromkeys(map(gpu_facts, profiles)):
        print_lines([[(figures, "")], []], stream)


def _head(profile: Mapping[str, Any], bound: str) -> Iterator[Line]:
    launches, place = profile["launches"], profile["launched_at"]
    called = f" at {place['path']}:{place['line']}" if place else ""
    count = f"{launches} launch{'' if launches == 1 else 'es'}{called}"
    geometry = f"grid {tuple(profile['grid'])}, threadgroup {tuple(profile['threadgroup'])}"
    yield [(f"kernel `{log_line(profile['kernel'])}`", "head"), (f": {count}, {geometry}", "")]
    seconds = duration(profile["predicted_seconds"])
    at = place_of(profile)
    yield [
        ("  predicted for the ", ""),
        (profile["gpu"], "head"),
        (f": {seconds} a launch, bound by {bound}{at and f', most at {at}'}", ""),
    ]
    for name, value in profile_facts(profile):
        yield [(f"  {name}: {value}", "")]


#: Columns of the table after the line, and the counts that they show. Those that are empty, or do
#: not fit into the terminal, are left out.
_COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "share": lambda line: f"{line['share']:.0%}",
    "issued": lambda line: f"{sum(line['instructions'].values()):,}",
    "lanes": lambda line: "" if line["active_lanes"] is None else f"{line['active_lanes']:.3g}",
    "flops": lambda line: _number(line["flops"]),
    "requested": lambda line: _bytes(line["device_bytes_requested"]),
    "moved": lambda line: _bytes(line["device_bytes_moved"]),
    "conflicts": lambda line: _number(line["bank_conflict_cycles"]),
    "barriers": lambda line: _number(line["barriers"]),
    "atomics": lambda line: _number(line["atomics"]),
}


def _number(count: int) -> str:
    return f"{count:,}" if count else ""


def _bytes(count: int) -> str:
    return size_of(count) if count else ""


def table(profile: Mapping[str, Any], width: int) -> Table:
    """Return the most expensive lines, in at most `width` characters."""
    from rich.text import Text

    shown = [line for line in profile["lines"] if line["share"] >= _LEAST_SHARE][:_MOST_LINES]
    cells = {"line": [line_cell(profile, line) for line in shown]}
    cells |= {name: [column(line) for line in shown] for name, column in _COLUMNS.items()}
    kept = fitting(cells, width - _LEAST_SOURCE)
    made = new_table()
    for name in kept:
        widest = max(map(len, [name, *cells[name]]))
        made.add_column(name, justify="right", no_wrap=True, width=widest)
    made.add_column("", no_wrap=True)
    for number, line in enumerate(shown):
        source = Text(shortened(log_line(line["text"])))
        made.add_row(*(cells[name][number] for name in kept), source)
    return made


#: Of the JSON report; raised when something in it is removed or changes its meaning.
VERSION = 1


class Simulated(Struct, frozen=True):
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
        spot = place or call_at(*(found.launched_at or (self.program, 1)))
        facts = (found.help, *found.details, _circumstances(found, placed=place is not None))
        return Finding(
            path=shown_path(spot.path),
            line=spot.line,
            column=spot.column,
            end_line=spot.line,
            end_column=spot.end_column,
            code=found.code,
            severity=rulebook.rule(found.code).severity_in(self.profile, "default"),
            message=found.message,
            help="\n".join(filter(None, facts)),
            context="default",
        )


def _circumstances(found: SimulatorFinding, *, placed: bool) -> str:
    """Return the kernel, the thread, and whichever of its line and its launch the place is not."""
    facts = [f"kernel `{found.kernel}`"]
    if not placed and found.line is not None:
        code = f": `{found.excerpt}`" if found.excerpt else ""
        facts.append(f"{found.part} line {found.line}{code}")
    if found.thread is not None:
        facts.append(f"thread {found.thread}")
    if found.count > 1:
        facts.append(f"{found.count} times")
    if placed and found.launched_at is not None:
        facts.append(f"launched at {_place(found.launched_at)}")
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
                rules_url=simulated.rules_url,
            )
        )
    elif form == "html":
        from embercoach.report.html.profile_page import render_profiles

        stream.write(
            render_profiles(
                [_placed(profile) for profile in simulated.record.profiles],
                document(simulated)["findings"],
                program=simulated.program,
                resources=RESOURCES,
                shown=visible,
            )
        )
    else:
        _for_people(simulated, stream)


def document(simulated: Simulated) -> dict[str, Any]:
    """Return the JSON report as plain data; its form is that of ``simulation.schema.json``."""
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
                "defined_at": _place_members(row.defined_at),
                "launched_at": _place_members(row.launched_at),
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
    """Return a profile whose paths are shown as users write them."""

    def shown(place: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        return place and {**place, "path": shown_path(place["path"])}

    sources = {part: shown(place) for part, place in profile["source_at"].items()}
    return {**profile, "launched_at": shown(profile["launched_at"]), "source_at": sources}


def _place_members(place: tuple[str, int] | None) -> dict[str, Any] | None:
    return place and {"path": shown_path(place[0]), "line": place[1]}


def _members(finding: Finding, found: SimulatorFinding) -> dict[str, Any]:
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
        "launched_at": _place_members(found.launched_at),
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
    counts = ["variants"] if simulated.compiled_only else ["launches", "seconds"]
    for name in (*counts, "findings", "notes"):
        table.add_column(name, justify="right")
    names = _names(simulated.record.kernels)
    for row, name in zip(simulated.record.kernels, names, strict=True):
        numbers = [str(row.launches)]
        if not simulated.compiled_only:
            numbers.append(f"{row.seconds:.3f}")
        style = STYLES["error"] if row.findings else ""
        kernel, findings = Text(log_line(name)), Text(str(row.findings), style)
        table.add_row(kernel, *numbers, findings, str(row.notes))
    return table


def _names(rows: Sequence[KernelRow]) -> list[str]:
    """Return the kernels' names, with the difference where several have the same name."""
    names = [row.name for row in rows]
    names = _distinguished(names, [f"at {_place(row.defined_at)}" for row in rows])
    names = _distinguished(names, [f"launched at {_place(row.launched_at)}" for row in rows])
    numbers: defaultdict[str, counting[int]] = defaultdict(lambda: counting(1))
    return _distinguished(names, [f"source {next(numbers[name])}" for name in names])


def _distinguished(names: Sequence[str], facts: Sequence[str]) -> list[str]:
    """Return equal names with their facts, if these differ."""
    known: dict[str, set[str]] = {}
    for name, fact in zip(names, facts, strict=True):
        known.setdefault(name, set()).add(fact)
    pairs = zip(names, facts, strict=True)
    return [f"{name}, {fact}" if len(known[name]) > 1 else name for name, fact in pairs]


def _place(place: tuple[str, int] | None) -> str:
    return f"{shown_path(place[0])}:{place[1]}" if place else "?"


#: `mx.metal.is_available()`, which most packages ask, is true here.
_SKIPPED = "Kernels that need `sys.platform == 'darwin'` are skipped here: patch that test."


def _summary(simulated: Simulated) -> Iterator[Line]:
    record = simulated.record
    if not record.kernels:
        yield [(f"{simulated.program} launched no kernel.", "warning")]
        if sys.platform != "darwin" and simulated.exit_code == CLEAN:
            yield [(_SKIPPED, "")]
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
    if record.finding_count:
        yield [
            (f"Found {text.plural(record.finding_count, 'finding')}; ", "head"),
            (f"{ran}{tail}", ""),
        ]
    else:
        yield [("All clear", "good"), (f"; {ran}{tail}", "")]


#: pytest's exit code for an invalid command line, which it reports itself.
PYTEST_USAGE = 4


class SimulationRequest(Struct, frozen=True, kw_only=True):
    """The command line of ``simulate``."""

    program: tuple[str, ...]
    no_checks: bool
    compile_only: bool
    timeout: float | None
    allow_compiler: bool
    output_format: str
    output_file: Path | None
    show_notes: bool | None
    config: Path | None
    isolated: bool
    exit_zero: bool
    profile: bool
    gpu: str | None

    @property
    def profiled_gpu(self) -> str | None:
        """The GPU for which launches are profiled; None to check them."""
        return (self.gpu or DEFAULT) if self.profile else None


def execute(request: SimulationRequest) -> int:
    """Run the program and return the exit code."""
    program = program_of(request.program)
    settings = _settings(request)

    def variables(file: Path) -> dict[str, str]:
        options = Options(settings.simulator, request.compile_only, str(file), request.profiled_gpu)
        return {VARIABLE: options.to_json()}

    wants_stdout = request.output_format != "text" and request.output_file is None
    code, record = run_recorded(
        program, variables, read, quiet=wants_stdout, reported=(PYTEST_USAGE,)
    )
    if record is None:
        return code
    simulated = Simulated(
        record=record,
        program=program.shown,
        compiled_only=request.compile_only,
        show_notes=settings.show_notes or (request.profile and request.show_notes is None),
        in_short=program.is_pytest,
        profile=settings.profile,
        exit_code=_exit_code(code, found=record.finding_count, exit_zero=request.exit_zero),
        rules_url=settings.rules_url,
    )
    deliver(lambda stream: render(simulated, request.output_format, stream), request.output_file)
    return simulated.exit_code


def _settings(request: SimulationRequest) -> Settings:
    allowed = request.allow_compiler or compiler_allowed()
    overrides = Overrides(show_notes=request.show_notes, allow_compiler=allowed)
    (scope,) = load(["."], overrides, config=request.config, isolated=request.isolated)
    warn(scope.warnings)
    simulator = scope.settings.simulator
    if request.no_checks:
        simulator = replace(simulator, checks=False)
    if request.timeout is not None:
        simulator = replace(simulator, timeout=request.timeout)
    return replace(scope.settings, simulator=simulator)


def _exit_code(code: int, *, found: int, exit_zero: bool) -> int:
    if code:
        return code
    return FOUND if found and not exit_zero else CLEAN
