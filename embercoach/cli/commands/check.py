"""``embercoach check``: the command's options."""

from __future__ import annotations

from typing import Any

import click

from embercoach.cli import shared_options
from embercoach.cli.option_types import ShardNumber

FORMATS = ("text", "concise", "json", "github", "gitlab", "sarif", "junit", "markdown")
#: Of them, those that can count by rule.
COUNTING = ("text", "concise", "json")


@click.command(
    "check",
    epilog="Exit code: 0 nothing found but notes, 1 errors or warnings, 2 the run is incomplete.",
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=str, allow_dash=True))
# What to check
@shared_options.choice
@click.option("--force-exclude", is_flag=True, help="Exclude even files that are named.")
@click.option(
    "--shard",
    type=ShardNumber(),
    metavar="N/COUNT",
    help="Check this part of the files only; `embercoach merge` puts the parts together.",
)
# What to show
@click.option(
    "--output-format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="How findings are written.",
)
@shared_options.output_file
@shared_options.shown
@click.option("--statistics", is_flag=True, help="Count findings by rule instead of listing them.")
@click.option("-q", "--quiet", is_flag=True, help="List findings and nothing else.")
@click.option(
    "-w",
    "--watch",
    is_flag=True,
    help="Check again whenever something changes, until Ctrl-C. Needs embercoach[watch].",
)
# What to change
@click.option("--fix", is_flag=True, help="Apply safe fixes of what is listed.")
@click.option("--unsafe-fixes", is_flag=True, help="Let --fix and --diff apply unsafe fixes too.")
@click.option(
    "--diff",
    is_flag=True,
    help="Show what --fix would change, and change nothing; exit 1 if anything.",
)
@click.option(
    "--add-noqa",
    is_flag=True,
    help="Suppress every error and warning of today, with `# embercoach: ignore[CODE]` comments "
    "(which, unlike `# noqa: CODE`, other linters leave alone).",
)
# Where from
@click.option(
    "--stdin-filename",
    type=click.Path(path_type=str),
    help="The name of what `-` reads from standard input: for settings, imports and reports.",
)
@shared_options.source
@shared_options.running
# What to answer
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something was found.")
@click.option(
    "--baseline-strict",
    is_flag=True,
    help="Exit with 1, too, if something of the baseline is fixed and still listed there.",
)
@click.option("--show-files", is_flag=True, help="List the files that would be checked, and stop.")
@click.option("--show-settings", is_flag=True, help="Show the settings in force, and stop.")
@click.option("--debug", is_flag=True, hidden=True, help="Show tracebacks of internal errors.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Find what hurts in MLX and Metal code.

    PATHS are files, folders and checkouts, each with its own configuration (default: the current
    folder); `-` is standard input, and `@FILE` stands for the lines of a file.
    """
    from embercoach.cli.flow import Request, execute

    watched = options.pop("watch")
    request = Request(
        paths=options["paths"],
        overrides=shared_options.overrides(options),
        **{name: options[name] for name in options.keys() - shared_options.MERGED - {"paths"}},
    )
    _refuse_contradictions(request)
    if options["no_baseline"] and options["baseline_strict"]:
        raise click.UsageError("--no-baseline excludes --baseline-strict")
    if watched:
        _refuse_beside_watch(request)
        from embercoach.cli.watching import watch

        ctx.exit(watch(request))
    ctx.exit(execute(request))


def _refuse_contradictions(request: Any) -> None:
    for one, other in (
        ("fix", "add_noqa"),
        ("diff", "add_noqa"),
        ("diff", "baseline_strict"),
        ("show_files", "show_settings"),
    ):
        if getattr(request, one) and getattr(request, other):
            names = f"--{one} and --{other}".replace("_", "-")
            raise click.UsageError(f"{names} exclude each other")
    if request.statistics and request.output_format not in COUNTING:
        raise click.UsageError(
            f"--statistics has no {request.output_format} form; use text or json"
        )
    if request.reads_stdin and [*request.paths] not in ([], ["-"]):
        raise click.UsageError("standard input (-) and other paths exclude each other")
    changes = next((name for name in ("fix", "diff", "add_noqa") if getattr(request, name)), None)
    if request.shard is not None and (changes or request.reads_stdin):
        other = f"--{changes}".replace("_", "-") if changes else "standard input (-)"
        raise click.UsageError(f"--shard and {other} exclude each other")
    if request.reads_stdin and request.add_noqa:
        raise click.UsageError("--add-noqa needs files to write to")


def _refuse_beside_watch(request: Any) -> None:
    from embercoach.cli.output import FOR_PEOPLE

    if request.reads_stdin:
        raise click.UsageError("--watch needs files: standard input comes once")
    for other in ("diff", "add_noqa", "output_file", "show_files", "show_settings"):
        if getattr(request, other):
            name = f"--{other}".replace("_", "-")
            raise click.UsageError(f"--watch and {name} exclude each other")
    if request.output_format not in FOR_PEOPLE:
        raise click.UsageError(f"--watch has no {request.output_format} form; use text or concise")
