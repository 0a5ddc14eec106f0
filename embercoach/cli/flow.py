"""What ``embercoach check`` does: settings, run, changes, report, exit code."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from embercoach.cli import codes
from embercoach.cli.origin import origin_of, problems_of
from embercoach.cli.progress import ProgressBar
from embercoach.config import ConfigError, Overrides
from embercoach.config.several import load_several
from embercoach.engine.checkouts import Division, by_scope, run_together
from embercoach.engine.run import RunResult, joined, run
from embercoach.report.outcome import Sources
from embercoach.report.styled import print_lines
from embercoach.report.text import problem_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.cli.ratchet import Guard, Judged
    from embercoach.config import Settings
    from embercoach.config.load import Scope
    from embercoach.engine.fixing import FixSummary
    from embercoach.engine.problem import Problem
    from embercoach.engine.shard import Shard
    from embercoach.report.origin import Origin
    from embercoach.report.outcome import Comparison

STDIN = "-"


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
    paths = (request.name,) if request.reads_stdin else request.paths or (".",)
    try:
        scopes, mistakes = load_several(
            paths, request.overrides, config=request.config, isolated=request.isolated
        )
    except ConfigError as error:
        raise UserError(str(error)) from error
    problems = list(problems_of(mistakes))
    division = Division(scopes, request.shard)
    if request.show_settings or request.show_files:
        from embercoach.cli.inspect import show_files, show_settings

        if request.show_settings:
            code = show_settings(scopes)
        else:
            code = show_files(scopes, division, force_exclude=request.force_exclude)
        print_lines(map(problem_line, problems), sys.stderr)
        return codes.INCOMPLETE if problems else code
    watching = _guards(request, scopes, division, problems)
    if request.reads_stdin:
        return _on_stdin(request, scopes[0], watching)
    with closing(ProgressBar(wanted=not request.quiet)) as progress:
        checked = run_together(
            scopes,
            division,
            jobs=request.jobs,
            cache=not request.no_cache,
            on_progress=progress,
            force_exclude=request.force_exclude,
            debug=request.debug,
        )
        results = by_scope(checked, scopes)
        if request.diff:
            return _diff(request, scopes, results, problems)
        checks = [_checker(request, scope, progress) for scope in scopes]
        answer = _changed(request, scopes, checks, results, watching)
    if problems:
        answer.result += RunResult(problems=tuple(problems))
    if not (request.fix or request.add_noqa):
        answer.origin = origin_of(checked, request.shard)
    return _report(request, scopes, answer, watching)


def _guards(
    request: Request, scopes: tuple[Scope, ...], division: Division, problems: list[Problem]
) -> tuple[Guard, ...]:
    if any(scope.settings.baseline for scope in scopes):
        from embercoach.cli.ratchet import guards

        several = len(scopes) > 1 and request.overrides.baseline is None
        return guards(scopes, division=division, problems=problems if several else None)
    if request.baseline_strict:
        raise click.UsageError("--baseline-strict needs --baseline, or one in the configuration")
    return ()


def _checker(request: Request, scope: Scope, progress: ProgressBar) -> Callable[[], RunResult]:
    return partial(
        run,
        scope.paths,
        scope.settings,
        jobs=request.jobs,
        cache=not request.no_cache,
        on_progress=progress,
        force_exclude=request.force_exclude,
        debug=request.debug,
    )


def _changed(
    request: Request,
    scopes: tuple[Scope, ...],
    checks: list[Callable[[], RunResult]],
    results: list[RunResult],
    watching: tuple[Guard, ...],
) -> Answer:
    """Apply fixes or suppressions as asked; what the last runs found."""
    if request.add_noqa:
        return _annotated(checks, results, watching)
    if not request.fix:
        return Answer(joined(results))
    from embercoach.engine.fixing import FixSummary, fix_files

    total, summary = RunResult(), FixSummary()
    for scope, check, result in zip(scopes, checks, results, strict=True):
        last, done = fix_files(
            result,
            scope.settings,
            check,
            unsafe=request.unsafe_fixes,
            jobs=request.jobs,
            debug=request.debug,
        )
        total += last
        summary += done
    total += RunResult(problems=summary.problems)
    return Answer(total, summary=summary)


def _annotated(
    checks: list[Callable[[], RunResult]],
    results: list[RunResult],
    watching: tuple[Guard, ...],
) -> Answer:
    from embercoach.engine.annotation import annotate_files

    found = joined(results)
    new = found.findings
    if watching:
        from embercoach.cli.ratchet import judge

        new = judge(watching, found, Sources()).findings
    loud = [finding for finding in new if finding.severity != "note"]
    done, problems = annotate_files(loud)
    total = sum((check() for check in checks), RunResult(problems=tuple(problems)))
    return Answer(total, suppressed=done)


def _diff(
    request: Request,
    scopes: tuple[Scope, ...],
    results: list[RunResult],
    problems: list[Problem],
) -> int:
    from embercoach.engine.fixing import fix_once

    problems = [*problems, *(problem for result in results for problem in result.problems)]
    files = []
    for scope, result in zip(scopes, results, strict=True):
        files += fix_once(
            result,
            scope.settings,
            unsafe=request.unsafe_fixes,
            jobs=request.jobs,
            debug=request.debug,
        )
    from embercoach.cli.output import print_diffs

    settings = [scope.settings for scope in scopes]
    return print_diffs(request, files, problems, held_back=_held_back(request, results, settings))


def _held_back(request: Request, results: list[RunResult], settings: list[Settings]) -> int:
    """How many findings ``--unsafe-fixes`` would fix, beside those that are fixed."""
    from embercoach.engine.fixing import applicable

    if request.unsafe_fixes:
        return 0
    return sum(
        applicable(finding, own, unsafe=True) and not applicable(finding, own, unsafe=False)
        for result, own in zip(results, settings, strict=True)
        for finding in result.findings
    )


def _on_stdin(request: Request, scope: Scope, watching: tuple[Guard, ...]) -> int:
    settings = scope.settings
    data = sys.stdin.buffer.read()
    if request.force_exclude and _is_excluded(request.name, settings):
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
            held_back = _held_back(request, [result], [settings])
            return print_diffs(request, files, list(result.problems), held_back=held_back)
        for file in files:
            if file.applied:
                data = file.data
                answer.result = check(stdin=(request.name, data))
                answer.summary = FixSummary(file.applied, 1)
        answer.result += RunResult(problems=troubles(files))
        answer.fixed_stdin = data
    from embercoach.fixes.source import DecodingError, decode

    try:
        answer.stdin = decode(data).text
    except DecodingError:
        answer.stdin = ""
    return _report(request, (scope,), answer, watching)


def _is_excluded(name: str, settings: Settings) -> bool:
    from embercoach.config.patterns import PathPatterns

    return PathPatterns(settings.exclude, settings.root).match_below(str(Path(name).absolute()))


def _report(
    request: Request,
    scopes: tuple[Scope, ...],
    answer: Answer,
    watching: tuple[Guard, ...],
) -> int:
    from embercoach.cli.output import write_report

    if watching:
        _pass_over_known(request, answer, watching)
    judged = answer.judged
    stale = judged is not None and request.baseline_strict and bool(judged.stale)
    code = exit_code(answer.result, exit_zero=request.exit_zero)
    if stale and code == codes.CLEAN and not request.exit_zero:
        code = codes.FOUND
    write_report(request, answer, [scope.settings for scope in scopes], code)
    if stale and judged is not None:
        from embercoach.cli.ratchet import complain

        complain(judged)
    return code


def _pass_over_known(request: Request, answer: Answer, watching: tuple[Guard, ...]) -> None:
    """Leave only what is new in an answer, with the fingerprints of the whole run."""
    from embercoach.cli.ratchet import judge
    from embercoach.report.fingerprints import fingerprints

    sources = answer.sources(request.name)
    marks = fingerprints(answer.result.findings, sources)
    answer.judged = judge(watching, answer.result, sources)
    answer.marks = tuple(marks[number] for number in answer.judged.numbers)
    answer.result = replace(answer.result, findings=answer.judged.findings)


def exit_code(result: RunResult, *, exit_zero: bool = False) -> int:
    """What a run's result means for the caller."""
    if result.problems:
        return codes.INCOMPLETE
    found = any(finding.severity != "note" for finding in result.findings)
    return codes.FOUND if found and not exit_zero else codes.CLEAN
