"""``embercoach report``: an HTML report of a run, or of a saved one."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from embercoach.cli import shared_options
from embercoach.cli.entry import CLEAN, INCOMPLETE
from embercoach.files import relative_path

if TYPE_CHECKING:
    from embercoach.config import Overrides

DEFAULT_FILE = Path("embercoach-report.html")


@click.command(
    "report",
    epilog="Exit code: 0 if the report is written, 2 if not or if the run is incomplete.",
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=str))
@click.option(
    "--from",
    "saved",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.json",
    help="Render a saved JSON report instead of a run; several are merged.",
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
    help="Report new findings only, and count those of this baseline that are fixed.",
)
@shared_options.no_baseline
@click.option(
    "--against",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OLD.json",
    help="Compare with an earlier JSON report; of several, the oldest first, with the last.",
)
@shared_options.source
@shared_options.running
@shared_options.plugins
@click.option("-q", "--quiet", is_flag=True, help="Do not print the report's path.")
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
    """Write an HTML report: charts, a searchable list, annotated sources.

    PATHS are files and folders (default: the current folder). The report is one file that needs no
    network; it contains the sources of files with findings.
    """
    from embercoach.cli.output import save

    earlier = _earlier(against)
    line = _command_line(ctx, without=frozenset(("output_file", "quiet")))
    if not saved:
        document, render, covers = _of_run(line, quiet=quiet, **options)
        for _, before in earlier[-1:]:  # what is not checked is not fixed
            before["findings"] = list(filter(covers, before["findings"]))
    else:
        _refuse_beside_saved(ctx)
        document, render = _of_files(saved, line, quiet=quiet)
        if against:
            _require_fingerprints(document, "what --from names")
    _require_alike(document, earlier)
    save(render(earlier=earlier).encode(), output_file)
    _tell(document, output_file, saved=bool(saved), quiet=quiet)
    ctx.exit(INCOMPLETE if document["problems"] else CLEAN)


def _command_line(ctx: click.Context, without: frozenset[str]) -> str:
    """Return the command line of a context, with relative paths.

    Args:
        ctx: of a command; its options have no negative forms.
        without: names of parameters to leave out.
    """
    given = click.core.ParameterSource.COMMANDLINE
    words: list[str] = []
    for parameter in sorted(ctx.command.params, key=lambda one: one.param_type_name == "argument"):
        name = parameter.name or ""
        if name not in without and ctx.get_parameter_source(name) is given:
            words += _words(parameter, ctx.params[name])
    return shlex.join([*ctx.command_path.split(), *words])


def _words(parameter: click.Parameter, value: Any) -> Iterator[str]:
    for one in value if parameter.multiple or parameter.nargs != 1 else (value,):
        if parameter.param_type_name == "option":
            yield _option(parameter)
        if not isinstance(one, bool):
            yield ",".join(one) if isinstance(one, tuple) else _relative(parameter, str(one))


def _option(parameter: click.Parameter) -> str:
    """Return the first long name of an option."""
    return next(name for name in parameter.opts if name.startswith("--"))


def _relative(parameter: click.Parameter, text: str) -> str:
    if not isinstance(parameter.type, click.Path) or not Path(text).is_absolute():
        return text
    inside = relative_path(text)
    is_outside = inside.startswith(os.pardir) or Path(inside).is_absolute()
    return Path(text).name if is_outside else inside


def _earlier(files: tuple[Path, ...]) -> list[tuple[str, dict[str, Any]]]:
    """Earlier reports by the names of their files."""
    from embercoach.cli.commands.merge import merged_files

    found = [(str(file), merged_files([file], quiet=True).document) for file in files]
    for name, document in found[-1:]:
        _require_fingerprints(document, name)
    return found


def _require_fingerprints(document: dict[str, Any], name: str) -> None:
    from embercoach.cli.entry import UserError
    from embercoach.report.html.changes import has_fingerprints

    if not has_fingerprints(document):
        raise UserError(f"{name}: findings have no fingerprints; run the check again")


def _require_alike(document: dict[str, Any], earlier: list[tuple[str, dict[str, Any]]]) -> None:
    """Refuse to compare a report made with a baseline with one made without."""
    from embercoach.cli.entry import UserError

    made = {True: "with a baseline", False: "without a baseline"}
    now = "baseline" in document["summary"]
    for name, before in earlier:
        if ("baseline" in before["summary"]) != now:
            raise UserError(
                f"{name} was made {made[not now]}, the other report {made[now]}; use the same one"
            )


def _refuse_beside_saved(ctx: click.Context) -> None:
    own = {"saved", "against", "output_file", "quiet", "rules_from", "no_plugins"}
    given = click.core.ParameterSource.COMMANDLINE
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if name not in own and ctx.get_parameter_source(name) is given and ctx.params[name]:
            shown = "PATHS" if name == "paths" else _option(parameter)
            raise click.UsageError(f"--from and {shown} exclude each other")


def _of_run(
    line: str, *, quiet: bool, **options: Any
) -> tuple[dict[str, Any], Callable[..., str], Callable[[dict[str, Any]], bool]]:
    """Return the document of a run, a function that renders it, and one for what it looks for."""
    from embercoach.cli.baseline_filter import guards
    from embercoach.cli.effective_config import problems_of, warn, warnings_of
    from embercoach.cli.entry import UserError
    from embercoach.cli.flow import Answer, origin_of, without_known
    from embercoach.cli.progress import progress_of
    from embercoach.config import Configurations
    from embercoach.engine.checkouts import Plan
    from embercoach.report import json_report
    from embercoach.report.html.rendering import render, run_details
    from embercoach.report.outcome import SourceTexts

    seconds = time.time()
    overrides = _overrides(options)
    configurations = Configurations(
        overrides, config=options["config"], isolated=options["isolated"]
    )
    plan = Plan(options["paths"] or (".",), configurations)
    if not quiet:
        warn([*configurations.warnings, *warnings_of(plan)])
    problems = list(problems_of(plan.mistakes))
    several = len(plan.scopes) > 1 and overrides.baseline is None
    watching = guards(
        plan.scopes, configurations, plan.division, problems=problems if several else None
    )
    with progress_of(quiet=quiet) as progress:
        outcome = plan.run(
            jobs=options["jobs"], cache=not options["no_cache"], on_progress=progress
        )
    result = outcome.result(problems)
    if not (result.files_checked or result.files_skipped or result.problems):
        raise UserError(
            "no Python, notebook, Metal or Objective-C files found under the given paths"
        )
    answer, _ = without_known(Answer(result=result, sources=SourceTexts()), watching)
    document = json_report.document(
        answer.result,
        answer.sources,
        show_notes=any(scope.settings.show_notes for scope in plan.scopes),
        comparison=answer.comparison,
        marks=answer.marks,
        origin=origin_of(outcome),
    )
    details = run_details(document, seconds=seconds, command=line)
    rules_url = plan.scopes[0].settings.rules_url
    enabled = frozenset().union(*(scope.settings.enabled for scope in plan.scopes))
    given = [os.path.normpath(path) for path in options["paths"] or (".",)]

    def covers(finding: dict[str, Any]) -> bool:
        path = os.path.normpath(finding["path"])
        is_given = any(one in (os.curdir, path) or path.startswith(one + os.sep) for one in given)
        return is_given and finding["code"] in enabled

    rendered = partial(
        render, document, readable=lambda _: True, details=details, rules_url=rules_url
    )
    return document, rendered, covers


def _overrides(options: dict[str, Any]) -> Overrides:
    if options["baseline"] is not None and options["no_baseline"]:
        raise click.UsageError("--baseline and --no-baseline exclude each other")
    return shared_options.overrides(options)


def _of_files(
    saved: tuple[Path, ...], line: str, *, quiet: bool
) -> tuple[dict[str, Any], Callable[..., str]]:
    """Return the document of saved runs, and a function that renders it."""
    from embercoach.cli.commands.merge import merged_files
    from embercoach.cli.recovered import current_rules_url, quoted_root
    from embercoach.engine.languages import SUFFIXES
    from embercoach.report.html.rendering import render, run_details

    document = merged_files(saved, quiet=quiet).document
    saved_at = min(file.stat().st_mtime for file in saved)

    def readable(path: str) -> bool:
        # Who wrote the list of files is not always who passes the report on: sources alone, also
        # where a link leads to another file of the project.
        try:
            return path.endswith(SUFFIXES) and os.path.realpath(path).endswith(SUFFIXES)
        except (OSError, ValueError):
            return False

    details = run_details(document, seconds=saved_at, command=line)
    return document, partial(
        render,
        document,
        readable=readable,
        root=quoted_root(),
        saved_at=saved_at,
        details=details,
        rules_url=current_rules_url(),
    )


def _tell(document: dict[str, Any], file: Path, *, saved: bool, quiet: bool) -> None:
    from embercoach.report.styled import print_text
    from embercoach.report.text import plural

    summary = document["summary"]
    counted = (plural(summary[f"{name}s"], name) for name in ("error", "warning", "note"))
    if not quiet:
        print_text(f"Wrote {file}: {', '.join(counted)}.", sys.stdout)
        _tell_absent(document, saved=saved)
    for problem in document["problems"]:
        place = f"{problem['path']}:{problem['line']}:{problem['column']}"
        print_text(f"{place}: {problem['message']}", sys.stderr)


def _tell_absent(document: dict[str, Any], *, saved: bool) -> None:
    """Say which sources a report lacks: they are gone, or a saved report was made elsewhere."""
    from embercoach.cli.recovered import quoted_root
    from embercoach.report.html import sources
    from embercoach.report.styled import print_text
    from embercoach.report.text import plural

    paths = sorted({finding["path"] for finding in document["findings"]})
    root = quoted_root()
    outside = [path for path in paths if saved and sources.is_outside(path, root)]
    if outside:
        print_text(f"Source not shown: {outside[0]} is outside the project", sys.stderr)
    absent = [path for path in paths if path not in outside and not sources.is_there(path)]
    if absent:
        some = f"{absent[0]} and others" if len(absent) > 1 else absent[0]
        message = (
            f"Sources of {len(absent)} of {plural(len(paths), 'file')} not found: {some}; run "
            "`embercoach report` in the folder of the check"
        )
        print_text(message, sys.stderr)
