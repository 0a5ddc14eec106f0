"""``embercoach report``: an HTML report of a run, or of a saved one."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from embercoach.cli import codes, shared_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.config import Overrides

DEFAULT_FILE = Path("embercoach-report.html")


@click.command(
    "report",
    epilog="Exit code: 0 the report is written, 2 it is not, or the run is incomplete.",
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=str))
@click.option(
    "--from",
    "saved",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.json",
    help="Report what `embercoach check --output-format json` has written, and check nothing; "
    "several are put together as by `embercoach merge`.",
)
@click.option(
    "-o",
    "--output-file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_FILE,
    show_default=True,
    help="Where to write the report.",
)
@shared_options.profile
@shared_options.select
@shared_options.ignore
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False),
    help="Report what is new beside this file of `embercoach baseline update`, and what is fixed.",
)
@shared_options.no_baseline
@click.option(
    "--against",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OLD.json",
    help="Compare with what a run of before has written (`--output-format json`); several, the "
    "oldest first, are shown run by run, and the last one is compared with.",
)
@shared_options.source
@shared_options.running
@click.option("-q", "--quiet", is_flag=True, help="Don't tell where the report is.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    saved: tuple[Path, ...],
    against: tuple[Path, ...],
    output_file: Path,
    quiet: bool,
    **options: Any,
) -> None:
    """Write an HTML report: charts, a list to search, every file with its findings.

    PATHS are files and folders (default: the current one). The report is one file that needs no
    network; it holds the sources of files with findings.
    """
    earlier = _earlier(against)
    if not saved:
        document, render = _of_run(quiet=quiet, marked=bool(against), **options)
    else:
        _refuse_beside_saved(ctx)
        document, render = _of_files(saved, quiet=quiet)
        if against:
            _require_fingerprints(document, "what --from names")
    _require_alike(document, earlier)
    _write(render(earlier=earlier), output_file)
    _tell(document, output_file, quiet=quiet)
    ctx.exit(codes.INCOMPLETE if document["problems"] else codes.CLEAN)


def _earlier(files: tuple[Path, ...]) -> list[tuple[str, dict[str, Any]]]:
    """The reports of runs before, by the names of their files."""
    from embercoach.cli.commands.merge import merged_files

    found = [(str(file), merged_files([file], quiet=True).document) for file in files]
    for name, document in found[-1:]:
        _require_fingerprints(document, name)
    return found


def _require_fingerprints(document: dict[str, Any], name: str) -> None:
    from embercoach.cli.flow import UserError
    from embercoach.report.html.changes import has_fingerprints

    if not has_fingerprints(document):
        raise UserError(
            f"{name}: its findings have no fingerprints to be known again by: write it again with "
            "`embercoach check --output-format json`"
        )


def _require_alike(document: dict[str, Any], earlier: list[tuple[str, dict[str, Any]]]) -> None:
    """Refuse to compare all findings with those that a baseline doesn't know."""
    from embercoach.cli.flow import UserError

    made = {True: "with a baseline", False: "without a baseline"}
    now = "baseline" in document["summary"]
    for name, before in earlier:
        if ("baseline" in before["summary"]) != now:
            raise UserError(
                f"{name} was made {made[not now]}, and what it is compared with {made[now]}: "
                "make both with the same one, or with --no-baseline"
            )


def _refuse_beside_saved(ctx: click.Context) -> None:
    own = {"saved", "against", "output_file", "quiet"}
    given = click.core.ParameterSource.COMMANDLINE
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if name not in own and ctx.get_parameter_source(name) is given and ctx.params[name]:
            shown = "PATHS" if name == "paths" else parameter.opts[-1]
            raise click.UsageError(
                f"--from reports a run of before: {shown} has no place beside it"
            )


def _of_run(
    *, quiet: bool, marked: bool, **options: Any
) -> tuple[dict[str, Any], Callable[..., str]]:
    """The findings of a run, and what makes the page of them."""
    from contextlib import closing
    from dataclasses import replace

    from embercoach.cli.baseline_filter import guards, judge
    from embercoach.cli.config_warnings import idle_patterns, warn
    from embercoach.cli.flow import UserError
    from embercoach.cli.progress import ProgressBar
    from embercoach.cli.run_origin import origin_of, problems_of
    from embercoach.config import ConfigError, Configurations
    from embercoach.engine.checkouts import Plan
    from embercoach.engine.run import RunResult, joined
    from embercoach.report import json_report
    from embercoach.report.fingerprints import fingerprints
    from embercoach.report.html.rendering import render
    from embercoach.report.outcome import Sources

    overrides = _overrides(options)
    try:
        configurations = Configurations(
            overrides, config=options["config"], isolated=options["isolated"]
        )
        plan = Plan(options["paths"] or (".",), configurations)
    except ConfigError as error:
        raise UserError(str(error)) from error
    if not quiet:
        warn([*configurations.warnings, *idle_patterns(plan)])
    problems = list(problems_of(plan.mistakes))
    several = len(plan.scopes) > 1 and overrides.baseline is None
    watching = guards(
        plan.scopes, configurations, plan.division, problems=problems if several else None
    )
    with closing(ProgressBar(wanted=not quiet)) as progress:
        outcome = plan.run(
            jobs=options["jobs"], cache=not options["no_cache"], on_progress=progress
        )
    result = joined([outcome.result, RunResult(problems=tuple(problems))])
    if not (result.files_checked or result.files_skipped or result.problems):
        raise UserError(
            "there are no Python, notebook, Metal or Objective-C files under the given paths"
        )
    sources, comparison = Sources(), None
    marks = fingerprints(result.findings, sources) if marked else None
    if watching:
        judged = judge(watching, result, sources)
        marks = marks and tuple(marks[number] for number in judged.numbers)
        result, comparison = replace(result, findings=judged.findings), judged.comparison
    document = json_report.document(
        result,
        sources,
        show_notes=True,
        comparison=comparison,
        marks=marks,
        origin=origin_of(outcome.checkouts, None),
    )
    return document, partial(render, document, readable=lambda _: True)


def _overrides(options: dict[str, Any]) -> Overrides:
    if options["baseline"] is not None and options["no_baseline"]:
        raise click.UsageError("--baseline and --no-baseline exclude each other")
    return shared_options.overrides(options | {"show_notes": True})


def _of_files(saved: tuple[Path, ...], *, quiet: bool) -> tuple[dict[str, Any], Callable[..., str]]:
    """The findings of saved runs, and what makes the page of them."""
    from embercoach.cli.commands.merge import merged_files
    from embercoach.engine.languages import SUFFIXES
    from embercoach.report.html.rendering import render

    document = merged_files(saved, quiet=quiet).document
    saved_at = min(file.stat().st_mtime for file in saved)

    def readable(path: str) -> bool:
        # Who wrote the list of files is not always who passes the report on: no other secrets.
        return path.endswith(SUFFIXES)

    return document, partial(render, document, readable=readable, saved_at=saved_at)


def _write(text: str, file: Path) -> None:
    from embercoach.cli.flow import UserError

    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror or error}") from error


def _tell(document: dict[str, Any], file: Path, *, quiet: bool) -> None:
    from embercoach.report.styled import print_text
    from embercoach.report.text import plural

    summary = document["summary"]
    counted = (plural(summary[f"{name}s"], name) for name in ("error", "warning", "note"))
    if not quiet:
        print_text(f"Wrote {file}: {', '.join(counted)}.", sys.stdout)
        _tell_absent(document)
    for problem in document["problems"]:
        place = f"{problem['path']}:{problem['line']}:{problem['column']}"
        print_text(f"{place}: {problem['message']}", sys.stderr)


def _tell_absent(document: dict[str, Any]) -> None:
    """Say which sources a report of saved findings lacks: it was made elsewhere, or they went."""
    from embercoach.report.html import sources
    from embercoach.report.styled import print_text
    from embercoach.report.text import plural

    paths = sorted({finding["path"] for finding in document["findings"]})
    absent = [path for path in paths if not sources.is_there(path)]
    if absent:
        some = f"{absent[0]} and others" if len(absent) > 1 else absent[0]
        message = (
            f"The sources of {len(absent)} of {plural(len(paths), 'file')} with findings are not "
            f"here, so not shown ({some}): write the report in the folder where "
            "`embercoach check` ran"
        )
        print_text(message, sys.stderr)
