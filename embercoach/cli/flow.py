"""The run of ``embercoach check``: settings, checks, changes, report, exit code."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click
from msgspec import Struct
from msgspec.structs import replace

from embercoach.cli.effective_config import document, lines, problems_of, warn, warnings_of
from embercoach.cli.entry import CLEAN, FOUND, INCOMPLETE, UserError
from embercoach.cli.progress import progress_of
from embercoach.config import Configurations, Overrides
from embercoach.config.load import ConfigurationScope
from embercoach.engine.check_run import RunResult, joined, run
from embercoach.engine.checkouts import CheckoutDivision, CheckoutsOutcome, Plan
from embercoach.engine.file_discovery import Shard, is_excluded
from embercoach.files import shown_path
from embercoach.report.outcome import Comparison, RunOrigin, SourceTexts
from embercoach.report.styled import print_lines, print_text
from embercoach.report.text import files_text, plural, problem_lines

if TYPE_CHECKING:
    from embercoach.cli.baseline_filter import Guard
    from embercoach.finding import Problem

    class CheckRunner(Protocol):
        """Checks the files of a run, or those of some configurations."""

        def __call__(
            self, scopes: Collection[ConfigurationScope] | None = None
        ) -> CheckoutsOutcome:
            """Check them again."""


def show_files(plan: Plan) -> int:
    """Print the files that would be checked."""
    for file in plan.files():
        print_text(file.shown, sys.stdout)
    for problem in plan.all_problems:
        print_text(f"{problem.path}: {problem.message}", sys.stderr)
    return INCOMPLETE if plan.all_problems else CLEAN


def show_settings(plan: Plan) -> int:
    """Print the settings and rules for the paths, each with where it comes from."""
    paths = [path for given in plan.given.values() for path in given]
    shown = {**document(paths, plan.configurations), "warnings": ()}
    print_lines(lines(shown, everything=True), sys.stdout)
    return CLEAN


def origin_of(outcome: CheckoutsOutcome, shard: Shard | None = None) -> RunOrigin:
    """Return the origin of a run's report."""
    from embercoach import __version__
    from embercoach.engine.cache import program
    from embercoach.report.outcome import Checkout, Portion, RunOrigin

    checkouts, files, all_files = [], 0, 0
    for number, results in outcome.checkouts:
        shown, in_shard, own = outcome.plan.files_of(number)
        files, all_files = files + in_shard, all_files + own
        checkouts.append(
            Checkout(
                shown,
                sum(one.files_checked for one in results),
                sum(one.files_skipped for one in results),
                sum(one.suppressed for one in results),
            )
        )
    portion = None if shard is None else Portion(shard.number, shard.count, files, all_files)
    checkouts.sort(key=lambda one: one.path)
    return RunOrigin(__version__, program(), tuple(checkouts), portion)


STDIN = "-"
#: Formats that always contain notes.
ALWAYS_WITH_NOTES = ("json", "sarif")


class CheckRequest(Struct, frozen=True, kw_only=True):
    """The command line of ``check``."""

    paths: tuple[str, ...]
    overrides: Overrides
    output_format: str
    output_file: Path | None
    statistics: bool
    quiet: bool
    verbose: bool
    fix: bool
    fix_only: bool
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
        """Return whether to check standard input."""
        return STDIN in self.paths or (self.stdin_filename is not None and not self.paths)

    def configurations(self) -> Configurations:
        """Return the configurations of folders, none of which has been read."""
        return Configurations(self.overrides, config=self.config, isolated=self.isolated)

    @property
    def name(self) -> str:
        """The name of standard input in reports."""
        return self.stdin_filename or STDIN


#: Formats that contain the origin of the run.
WITH_ORIGIN = frozenset(("json", "markdown"))


class Answer(Struct, frozen=True, kw_only=True):
    """The content of a report.

    Attributes:
        done: a sentence about the changes to files.
        comparison: with the baselines, if there are any.
        marks: fingerprints of the findings, None to compute them.
        origin: of the run, for formats that have it.
        fixed_stdin: the fixed source, which is printed instead of the report.
    """

    result: RunResult
    sources: SourceTexts
    done: str = ""
    comparison: Comparison | None = None
    marks: tuple[str, ...] | None = None
    origin: RunOrigin | None = None
    fixed_stdin: bytes | None = None

    def with_findings(self, numbers: Sequence[int]) -> Answer:
        """Return the answer with some of its findings."""
        findings, marks = self.result.findings, self.marks
        return replace(
            self,
            result=replace(self.result, findings=tuple([findings[n] for n in numbers])),
            marks=marks and tuple([marks[n] for n in numbers]),
        )


def execute(request: CheckRequest) -> int:
    """Run the command and return the exit code."""
    started = time.monotonic()
    configurations = request.configurations()
    if request.reads_stdin and not (request.show_settings or request.show_files):
        return _on_stdin(request, configurations)
    paths = (request.name,) if request.reads_stdin else request.paths or (".",)
    plan = Plan(paths, configurations, request.shard, force_exclude=request.force_exclude)
    problems = list(problems_of(plan.mistakes))
    if not request.quiet:
        warn([*configurations.warnings, *warnings_of(plan)])
    if request.show_settings or request.show_files:
        code = show_settings(plan) if request.show_settings else show_files(plan)
        print_lines(problem_lines(problems), sys.stderr)
        return INCOMPLETE if problems else code
    baselines = _guards(request, plan.scopes, configurations, plan.division, problems)
    with progress_of(quiet=request.quiet) as progress:

        def check(scopes: Collection[ConfigurationScope] | None = None) -> CheckoutsOutcome:
            return plan.run(
                scopes,
                jobs=request.jobs,
                cache=not request.no_cache,
                on_progress=progress,
                debug=request.debug,
            )

        outcome = check()
        if request.verbose:
            _log(request, outcome.scopes, time.monotonic() - started)
        if request.diff:
            return _diff(request, outcome.scopes, [*problems, *plan.all_problems])
        result, done = outcome.result(problems), ""
        if request.add_noqa:
            result, done = _annotated(check, result, baselines, problems)
        elif request.fix:
            result, done = _fixed(request, check, outcome.scopes, [*problems, *plan.all_problems])
    origin = None
    # The program's digest takes a tenth of a small run's time.
    if request.output_format in WITH_ORIGIN and not done:
        origin = origin_of(outcome, request.shard)
    answer = Answer(result=result, sources=SourceTexts(), done=done, origin=origin)
    return _report(request, plan.scopes, answer, baselines, configurations)


def _log(
    request: CheckRequest, results: dict[ConfigurationScope, RunResult], seconds: float
) -> None:
    """Print where settings and results come from, and the time, to standard error."""
    from embercoach.engine.cache import FOLDER

    for scope, result in results.items():
        settings = scope.settings
        source = shown_path(settings.source) if settings.source else "no configuration file"
        rules = f"profile {settings.profile}, {plural(len(settings.enabled), 'rule')}"
        cache = f"{result.cached} from {shown_path(settings.root / FOLDER)}"
        cache = "no cache" if request.no_cache or request.reads_stdin else cache
        print_text(f"embercoach: {source}: {rules}; {files_text(result)}, {cache}", sys.stderr)
    print_text(f"embercoach: checked in {seconds:.2f} s", sys.stderr)


def _guards(
    request: CheckRequest,
    scopes: tuple[ConfigurationScope, ...],
    configurations: Configurations,
    division: CheckoutDivision,
    problems: list[Problem],
) -> tuple[Guard, ...]:
    if any(scope.settings.baseline for scope in scopes):
        from embercoach.cli.baseline_filter import guards

        several = len(scopes) > 1 and request.overrides.baseline is None
        return guards(scopes, configurations, division, problems=problems if several else None)
    if request.baseline_strict:
        raise click.UsageError("--baseline-strict requires --baseline or a configured baseline")
    return ()


def _fixed(
    request: CheckRequest,
    check: CheckRunner,
    results: dict[ConfigurationScope, RunResult],
    problems: list[Problem],
) -> tuple[RunResult, str]:
    """Fix files; the last result and what was done."""
    from embercoach.engine.fixing import fix_files

    last, fixes, files = [RunResult(problems=tuple(problems))], 0, 0
    for scope, result in results.items():
        again, summary = fix_files(
            result,
            scope.settings,
            partial(_again, check, scope),
            unsafe=request.unsafe_fixes,
            jobs=request.jobs,
            debug=request.debug,
        )
        last += [again, RunResult(problems=summary.problems)]
        fixes, files = fixes + summary.fixes, files + summary.files
    return joined(last), _fixes_done(fixes, files)


def _fixes_done(fixes: int, files: int) -> str:
    return f"Fixed {plural(fixes, 'finding')} in {plural(files, 'file')}." if fixes else ""


def _again(check: CheckRunner, scope: ConfigurationScope) -> RunResult:
    return check([scope]).scopes[scope]


def _annotated(
    check: CheckRunner, found: RunResult, baselines: tuple[Guard, ...], problems: list[Problem]
) -> tuple[RunResult, str]:
    """Add suppressions to files; the result after that and what was done.

    Those of suppressions would be idle in turn: `--fix` removes what is reported.
    """
    from embercoach.engine.noqa_writing import annotate_files
    from embercoach.engine.suppressions import CODES

    new = found.findings
    if baselines:
        from embercoach.cli.baseline_filter import judge

        new = judge(baselines, found, SourceTexts()).findings
    loud = [one for one in new if one.severity != "note" and one.code not in CODES]
    done, unwritten = annotate_files(loud)
    return check().result([*problems, *unwritten]), f"Suppressed {plural(done, 'finding')}."


def _diff(
    request: CheckRequest, results: dict[ConfigurationScope, RunResult], problems: list[Problem]
) -> int:
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


def _held_back(request: CheckRequest, results: dict[ConfigurationScope, RunResult]) -> int:
    """Return the number of findings that only ``--unsafe-fixes`` would fix."""
    from embercoach.engine.fixing import applicable

    if request.unsafe_fixes:
        return 0
    return sum(
        applicable(finding, scope.settings, unsafe=True)
        and not applicable(finding, scope.settings, unsafe=False)
        for scope, result in results.items()
        for finding in result.findings
    )


def _on_stdin(request: CheckRequest, configurations: Configurations) -> int:
    scope = configurations.of(request.name)
    settings = scope.settings
    if not request.quiet:
        warn(configurations.warnings)
    baselines = _guards(request, (scope,), configurations, CheckoutDivision((request.name,)), [])
    data = _standard_input()
    if request.force_exclude and is_excluded(os.path.abspath(request.name), configurations):  # noqa: PTH100
        if request.fix and not request.diff:
            sys.stdout.buffer.write(data)
        return CLEAN
    check = partial(run, (), settings, jobs=request.jobs, debug=request.debug)
    started = time.monotonic()
    result, done = check(stdin=(request.name, data)), ""
    if request.verbose:
        _log(request, {scope: result}, time.monotonic() - started)
    if request.fix or request.diff:
        from embercoach.engine.fixing import fix_once, troubles

        files = fix_once(
            result,
            settings,
            unsafe=request.unsafe_fixes,
            jobs=request.jobs,
            debug=request.debug,
            stdin=(request.name, data),
        )
        if request.diff:
            from embercoach.cli.output import print_diffs

            held_back = _held_back(request, {scope: result})
            return print_diffs(request, files, list(result.problems), held_back=held_back)
        for file in files:
            if file.applied:
                data = file.data
                result = check(stdin=(request.name, data))
                done = _fixes_done(file.applied, 1)
        result = joined([result, RunResult(problems=troubles(files))])
    answer = Answer(
        result=result,
        sources=SourceTexts({request.name: _text(data)}),
        done=done,
        fixed_stdin=data if request.fix else None,
    )
    return _report(request, (scope,), answer, baselines, configurations)


def _standard_input() -> bytes:
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise UserError(f"cannot read standard input: {error.strerror or error}") from error


def _text(data: bytes) -> str:
    from embercoach.fixes.source_file import DecodingError, decode

    try:
        return decode(data).text
    except DecodingError:
        return ""


def _report(
    request: CheckRequest,
    scopes: tuple[ConfigurationScope, ...],
    answer: Answer,
    baselines: tuple[Guard, ...],
    configurations: Configurations,
) -> int:
    from embercoach.cli.output import write_report

    if request.fix_only:
        if answer.done and not request.quiet:
            print_text(answer.done, sys.stderr)
        answer = replace(answer, result=RunResult(problems=answer.result.problems))
        request, baselines = replace(request, quiet=True), ()
    stale: tuple[tuple[Path, int], ...] = ()
    if baselines:
        answer, found_stale = without_known(answer, baselines)
        stale = found_stale if request.baseline_strict else ()
    if request.output_format not in ALWAYS_WITH_NOTES:
        answer = _without_hidden_notes(scopes, answer, configurations)
    code = exit_code(answer.result, exit_zero=request.exit_zero)
    if stale and code == CLEAN and not request.exit_zero:
        code = FOUND
    write_report(request, answer, [scope.settings for scope in scopes], code)
    if stale:
        from embercoach.cli.baseline_filter import complain

        complain(stale)
    return code


def without_known(
    answer: Answer, baselines: tuple[Guard, ...]
) -> tuple[Answer, tuple[tuple[Path, int], ...]]:
    """Return an answer without findings that baselines know, and the baselines with fixed ones.

    A fingerprint depends on the order of all findings, so that they are made before.
    """
    from embercoach.cli.baseline_filter import judge
    from embercoach.report.baseline_file import fingerprints

    answer = replace(answer, marks=fingerprints(answer.result.findings, answer.sources))
    if not baselines:
        return answer, ()
    judged = judge(baselines, answer.result, answer.sources)
    new = replace(answer, comparison=judged.comparison).with_findings(judged.numbers)
    return new, judged.stale


def _without_hidden_notes(
    scopes: tuple[ConfigurationScope, ...], answer: Answer, configurations: Configurations
) -> Answer:
    """Remove notes of files whose configuration hides notes, if another one shows its own."""
    if len({scope.settings.show_notes for scope in scopes}) < 2:
        return answer
    findings = answer.result.findings
    shows = {
        path: isinstance(scope, ConfigurationScope) and scope.settings.show_notes
        for path in {finding.path for finding in findings}
        for scope in (configurations.found(path),)
    }
    return answer.with_findings(
        [n for n, one in enumerate(findings) if one.severity != "note" or shows[one.path]]
    )


def exit_code(result: RunResult, *, exit_zero: bool = False) -> int:
    """Return the exit code for a result."""
    if result.problems:
        return INCOMPLETE
    found = any(finding.severity != "note" for finding in result.findings)
    return FOUND if found and not exit_zero else CLEAN
