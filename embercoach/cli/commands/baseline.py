"""``embercoach baseline``: write the file of known findings."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from embercoach.cli import shared_options
from embercoach.cli.entry import CLEAN, INCOMPLETE
from embercoach.files import shown_path
from embercoach.report import baseline_file
from embercoach.report.baseline_file import DEFAULT_FILE
from embercoach.report.outcome import SourceTexts
from embercoach.report.styled import print_lines, print_text
from embercoach.report.text import plural, problem_lines

if TYPE_CHECKING:
    from embercoach.cli.baseline_filter import Guard
    from embercoach.engine.check_run import RunResult
    from embercoach.engine.checkouts import Plan
    from embercoach.finding import Finding, Problem


@click.group("baseline")
def command() -> None:
    """Record today's findings, so that checks report only new ones."""


@command.command("update", epilog="Exit code: 0 if written, 2 if some files could not be checked.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=str))
@click.option(
    "--baseline",
    "file",
    type=click.Path(dir_okay=False),
    help=f"File to write (default: the configured one, else {DEFAULT_FILE}).",
)
@shared_options.profile
@shared_options.source
@click.option("--show-notes/--no-notes", default=None, help="Also write notes (default: no).")
@shared_options.running
@shared_options.plugins
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.pass_context
def update(ctx: click.Context, /, paths: tuple[str, ...], **options: Any) -> None:
    """Write today's errors and warnings to the baseline, and remove fixed entries.

    PATHS are files and folders (default: the current folder). Entries of other files are kept.
    """
    from embercoach.cli.baseline_filter import guards
    from embercoach.cli.effective_config import warn, warnings_of
    from embercoach.config import Configurations, Overrides
    from embercoach.engine.checkouts import Plan

    shared_options.refuse_two_sources(options)
    overrides = Overrides(
        profile=options["profile"], baseline=options["file"], show_notes=options["show_notes"]
    )
    configurations = Configurations(
        overrides, config=options["config"], isolated=options["isolated"]
    )
    plan = Plan(paths or (".",), configurations)
    if plan.mistakes:
        raise plan.mistakes[0]
    if not options["quiet"]:
        warn([*configurations.warnings, *warnings_of(plan)])
    default = Path(os.path.abspath(DEFAULT_FILE))  # noqa: PTH100
    watching = guards(plan.scopes, configurations, plan.division, default=default)
    found = {one for guard in watching for one in _update(guard, plan, options)}
    problems = sorted(found, key=lambda one: one.sort_key)
    print_lines(problem_lines(problems), sys.stderr)
    ctx.exit(INCOMPLETE if problems else CLEAN)


def _update(guard: Guard, plan: Plan, options: dict[str, Any]) -> tuple[Problem, ...]:
    """Check the files of a baseline and write it; return the problems."""
    from embercoach.cli.progress import progress_of

    listed: set[Finding] = set()
    with progress_of(quiet=options["quiet"]) as progress:
        outcome = plan.run(
            guard.scopes,
            jobs=options["jobs"],
            cache=not options["no_cache"],
            on_progress=progress,
        )
    for scope, part in outcome.scopes.items():
        notes = scope.settings.show_notes
        listed.update(f for f in part.findings if notes or f.severity != "note")
    result = outcome.result()
    _write(guard, result, listed, quiet=options["quiet"])
    return result.problems


def _write(guard: Guard, result: RunResult, listed: set[Finding], *, quiet: bool) -> None:
    before = guard.baseline
    entries = baseline_file.entries_of(result.findings, SourceTexts(), before.file)
    now = {e for e, finding in zip(entries, result.findings, strict=True) if finding in listed}
    kept = before.entries - guard.covered(result)
    created = not before.file.exists()
    after = baseline_file.Baseline(before.file, kept | now)
    try:
        baseline_file.write(after)
    except baseline_file.BaselineError as error:
        raise click.ClickException(str(error)) from error
    if not quiet:
        new, gone = after.entries - before.entries, before.entries - after.entries
        print_text(
            f"Wrote {plural(len(after.entries), 'finding')} to {shown_path(after.file)}: "
            f"{len(new)} new, {len(gone)} gone.",
            sys.stdout,
        )
        if created and any(scope.settings.baseline is None for scope in guard.scopes):
            name = shown_path(after.file)
            print_text(f"Use it with `embercoach check --baseline {name}`.", sys.stdout)
