"""What ``embercoach check`` does: settings, run, changes, report, exit code."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import click

from embercoach.cli import codes
from embercoach.cli.config_warnings import idle_patterns, warn
from embercoach.cli.progress import ProgressBar
from embercoach.cli.run_origin import origin_of, problems_of
from embercoach.config import ConfigError, Configurations, Overrides
from embercoach.config.load import Scope
from embercoach.engine.checkouts import Division, Plan
from embercoach.engine.discovery.files import is_excluded
from embercoach.engine.run import RunResult, run
from embercoach.report.outcome import Sources
from embercoach.report.styled import print_lines
from embercoach.report.text import problem_lines

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from embercoach.cli.baseline_filter import Guard, Judged
    from embercoach.engine.checkouts import Outcome
    from embercoach.engine.discovery.shard import Shard
    from embercoach.engine.fixing import FixSummary
    from embercoach.engine.problem import Problem
    from embercoach.report.origin import Origin
    from embercoach.report.outcome import Comparison

    class Check(Protocol):
        """Checks the files of a run, or those of some configurations."""

        def __call__(self, scopes: Collection[Scope] | None = None) -> Outcome:
            """Check them again."""


STDIN = "-"
#: Formats that hold notes, whatever is listed.
ALWAYS_WITH_NOTES = ("json", "sarif")


class UserError(click.ClickException):
    """A mistake of the user's, told in one line."""

    exit_code = codes.INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The command line of ``check``."""

    paths: tuple[str, ...]
    overrides: Overrides
    output_format: str
    output_file: Path | None
    statistics: bool
    quiet: bool
    fix: bool
    unsafe_fixes: bool
    diff: bool
    add_noqa: bool
    stdin_filename: str | None
    config: Path | None
    isolated: bool
    no_cache: bool
    jobs: int | None
    exit_zero: bool
    baseline_strict: bool
    force_exclude: bool
    show_files: bool
    show_settings: bool
    debug: bool
    shard: Shard | None = None

    @property
    def reads_stdin(self) -> bool:
        """Whether to check standard input."""
        return STDIN in self.paths or (self.stdin_filename is not None and not self.paths)

    @property
    def name(self) -> str:
        """How standard input is shown."""
        return self.stdin_filename or STDIN


#: Formats of reports that say of which run they are.
WITH_ORIGIN = frozenset(("json", "markdown"))


class Answer:
    """What is reported in the end."""

    def __init__(
        self,
        result: RunResult,
        summary: FixSummary | None = None,
        suppressed: int | None = None,
    ) -> None:
        self.result = result
        self.summary = summary
        self.suppressed = suppressed
        self.judged: Judged | None = None
        self.marks: tuple[str, ...] | None = None
        self.origin: Origin | None = None
        self.stdin: str | None = None
        self.fixed_stdin: bytes | None = None

    @property
    def comparison(self) -> Comparison | None:
        """The run beside its baselines, if there are any."""
        return None if self.judged is None else self.judged.comparison

    def sources(self, name: str) -> Sources:
        """The texts of the files that were checked, standard input under its name."""
        return Sources({} if self.stdin is None else {name: self.stdin})


def execute(request: Request) -> int:
    """Do what was asked and return the exit code."""
    try:
        configurations = Configurations(
            request.overrides, config=request.config, isolated=request.isolated
        )
        if request.reads_stdin and not (request.show_settings or request.show_files):
            return _on_stdin(request, configurations)
        paths = (request.name,) if request.reads_stdin else request.paths or (".",)
        plan = Plan(paths, configurations, request.shard, force_exclude=request.force_exclude)
    except ConfigError as error:
        raise UserError(str(error)) from error
    problems = list(problems_of(plan.mistakes))
    if not request.quiet:
        warn([*configurations.warnings, *idle_patterns(plan)])
    if request.show_settings or request.show_files:
        from embercoach.cli.inspect import show_files, show_settings

        code = show_settings(plan) if request.show_settings else show_files(plan)
        print_lines(problem_lines(problems), sys.stderr)
        return codes.INCOMPLETE if problems else code
    watching = _guards(request, plan.scopes, configurations, plan.division, problems)
    with closing(ProgressBar(wanted=not request.quiet)) as progress:

        def check(scopes: Collection[Scope] | None = None) -> Outcome:
            return plan.run(
                scopes,
                jobs=request.jobs,
                cache=not request.no_cache,
                on_progress=progress,
                debug=request.debug,
            )

        outcome = check()
        if request.diff:
            return _diff(request, outcome.scopes, [*problems, *plan.all_problems])
        answer = _changed(request, plan, check, outcome, watching)
    if problems:
        answer.result += RunResult(problems=tuple(problems))
    # Its version and digest take a tenth of a small run's time.
    if request.output_format in WITH_ORIGIN and not (request.fix or request.add_noqa):
        answer.origin = origin_of(outcome.checkouts, request.shard)
    return _report(request, plan.scopes, answer, watching, configurations)


def _guards(
    request: Request,
    scopes: tuple[Scope, ...],
    configurations: Configurations,
    division: Division,
    problems: list[Problem],
) -> tuple[Guard, ...]:
    if any(scope.settings.baseline for scope in scopes):
        from embercoach.cli.baseline_filter import guards

        several = len(scopes) > 1 and request.overrides.baseline is None
        return guards(scopes, configurations, division, problems=problems if several else None)
    if request.baseline_strict:
        raise click.UsageError("--baseline-strict needs --baseline, or one in the configuration")
    return ()


def _changed(
    request: Request,
    plan: Plan,
    check: Check,
    outcome: Outcome,
    watching: tuple[Guard, ...],
) -> Answer:
    """Apply fixes or suppressions as asked; what the last runs found."""
    if request.add_noqa:
        return _annotated(check, outcome, watching)
    if not request.fix:
        return Answer(outcome.result)
    from embercoach.engine.fixing import FixSummary, fix_files

    total, summary = RunResult(problems=plan.all_problems), FixSummary()
    for scope, result in outcome.scopes.items():
        last, done = fix_files(
            result,
            scope.settings,
            partial(_again, check, scope),
            unsafe=request.unsafe_fixes,
            jobs=request.jobs,
            debug=request.debug,
        )
        total += last
        summary += done
    total += RunResult(problems=summary.problems)
    return Answer(total, summary=summary)


def _again(check: Check, scope: Scope) -> RunResult:
    return check([scope]).scopes[scope]


def _annotated(check: Check, outcome: Outcome, watching: tuple[Guard, ...]) -> Answer:
    from embercoach.engine.suppression.annotation import annotate_files

    found = outcome.result
    new = found.findings
    if watching:
        from embercoach.cli.baseline_filter import judge

        new = judge(watching, found, Sources()).findings
    loud = [finding for finding in new if finding.severity != "note"]
    done, problems = annotate_files(loud)
    return Answer(check().result + RunResult(problems=tuple(problems)), suppressed=done)


def _diff(request: Request, results: dict[Scope, RunResult], problems: list[Problem]) -> int:
    from embercoach.engine.fixing import fix_once

    problems = [*problems, *(one for result in results.values() for one in result.problems)]
    files = []
    for scope, result in results.items():
        files += fix_once(
            result,
            scope.settings,
            unsafe=request.unsafe_fixes,
            jobs=request.jobs,
            debug=request.debug,
        )
    from embercoach.cli.output import print_diffs

    files.sort(key=lambda file: file.shown)
    return print_diffs(request, files, problems, held_back=_held_back(request, results))


def _held_back(request: Request, results: dict[Scope, RunResult]) -> int:
    """How many findings ``--unsafe-fixes`` would fix, beside those that are fixed."""
    from embercoach.engine.fixing import applicable

    if request.unsafe_fixes:
        return 0
    return sum(
        applicable(finding, scope.settings, unsafe=True)
        and not applicable(finding, scope.settings, unsafe=False)
        for scope, result in results.items()
        for finding in result.findings
    )


def _on_stdin(request: Request, configurations: Configurations) -> int:
    scope = configurations.of(request.name)
    settings = scope.settings
    if not request.quiet:
        warn(configurations.warnings)
    watching = _guards(request, (scope,), configurations, Division((request.name,)), [])
    data = sys.stdin.buffer.read()
    if request.force_exclude and is_excluded(os.path.abspath(request.name), configurations):  # noqa: PTH100
        if request.fix and not request.diff:
            sys.stdout.buffer.write(data)
        return codes.CLEAN
    check = partial(run, (), settings, jobs=request.jobs, debug=request.debug)
    result = check(stdin=(request.name, data))
    answer = Answer(result)
    if request.fix or request.diff:
        from embercoach.cli.output import print_diffs
        from embercoach.engine.fixing import FixSummary, fix_once, troubles

        files = fix_once(
            result,
            settings,
            unsafe=request.unsafe_fixes,
            jobs=request.jobs,
            debug=request.debug,
            stdin=(request.name, data),
        )
        if request.diff:
            held_back = _held_back(request, {scope: result})
            return print_diffs(request, files, list(result.problems), held_back=held_back)
        for file in files:
            if file.applied:
                data = file.data
                answer.result = check(stdin=(request.name, data))
                answer.summary = FixSummary(file.applied, 1)
        answer.result += RunResult(problems=troubles(files))
        answer.fixed_stdin = data
    from embercoach.fixes.source_file import DecodingError, decode

    try:
        answer.stdin = decode(data).text
    except DecodingError:
        answer.stdin = ""
    return _report(request, (scope,), answer, watching, configurations)


def _report(
    request: Request,
    scopes: tuple[Scope, ...],
    answer: Answer,
    watching: tuple[Guard, ...],
    configurations: Configurations,
) -> int:
    from embercoach.cli.output import write_report

    if watching:
        _pass_over_known(request, answer, watching)
    judged = answer.judged
    _hide_notes(request, scopes, answer, configurations)
    stale = judged is not None and request.baseline_strict and bool(judged.stale)
    code = exit_code(answer.result, exit_zero=request.exit_zero)
    if stale and code == codes.CLEAN and not request.exit_zero:
        code = codes.FOUND
    write_report(request, answer, [scope.settings for scope in scopes], code)
    if stale and judged is not None:
        from embercoach.cli.baseline_filter import complain

        complain(judged)
    return code


def _pass_over_known(request: Request, answer: Answer, watching: tuple[Guard, ...]) -> None:
    """Leave only what is new in an answer, with the fingerprints of the whole run."""
    from embercoach.cli.baseline_filter import judge
    from embercoach.report.fingerprints import fingerprints

    sources = answer.sources(request.name)
    marks = fingerprints(answer.result.findings, sources)
    answer.judged = judge(watching, answer.result, sources)
    answer.marks = tuple(marks[number] for number in answer.judged.numbers)
    answer.result = replace(answer.result, findings=answer.judged.findings)


def _hide_notes(
    request: Request,
    scopes: tuple[Scope, ...],
    answer: Answer,
    configurations: Configurations,
) -> None:
    """Leave out the notes of files whose configuration lists none, where others list theirs."""
    if request.output_format in ALWAYS_WITH_NOTES:
        return
    if len({scope.settings.show_notes for scope in scopes}) < 2:
        return
    findings = answer.result.findings
    listing = {
        path: isinstance(scope, Scope) and scope.settings.show_notes
        for path in {finding.path for finding in findings}
        for scope in (configurations.found(path),)
    }
    numbers = [n for n, f in enumerate(findings) if f.severity != "note" or listing[f.path]]
    answer.result = replace(answer.result, findings=tuple(findings[n] for n in numbers))
    answer.marks = answer.marks and tuple(answer.marks[n] for n in numbers)


def exit_code(result: RunResult, *, exit_zero: bool = False) -> int:
    """What a run's result means for the caller."""
    if result.problems:
        return codes.INCOMPLETE
    found = any(finding.severity != "note" for finding in result.findings)
    return codes.FOUND if found and not exit_zero else codes.CLEAN
