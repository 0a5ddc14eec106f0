"""``embercoach check``: the command's options."""

from __future__ import annotations

from typing import Any

import click

from embercoach.cli import shared_options
from embercoach.cli.option_types import ShardNumber

#: `full` is ruff's name for `text`.
FORMATS = (
    *("text", "full", "concise", "grouped"),
    *("json", "github", "gitlab", "sarif", "junit", "markdown"),
)
#: Of them, those that can count by rule.
COUNTING = ("text", "full", "concise", "grouped", "json")


@click.command(
    "check",
    epilog="Exit code: 0 only notes found, 1 errors or warnings, 2 the run is incomplete.",
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=str, allow_dash=True))
# What to check
@shared_options.choice
@click.option("--force-exclude", is_flag=True, help="Exclude even files that are named.")
@click.option(
    "--shard",
    type=ShardNumber(),
    metavar="N/COUNT",
    help="Check only this part of the files; `embercoach merge` merges the reports.",
)
# What to show
@shared_options.output_format(*FORMATS)
@shared_options.output_file
@shared_options.shown
@click.option("--statistics", is_flag=True, help="Count findings by rule instead of listing them.")
@click.option("-q", "--quiet", is_flag=True, help="Print findings only.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also print the configuration, files, cache and time to standard error.",
)
@shared_options.color
@click.option(
    "-w",
    "--watch",
    is_flag=True,
    help="Check again after every change, until Ctrl-C. Requires embercoach[watch].",
)
# What to change
@click.option("--fix", is_flag=True, help="Apply safe fixes of listed findings.")
@click.option("--fix-only", is_flag=True, help="Like --fix, and do not report what is left.")
@click.option("--unsafe-fixes", is_flag=True, help="Also apply unsafe fixes with --fix and --diff.")
@click.option(
    "--diff",
    is_flag=True,
    help="Print the diff of --fix without a change; exit with 1 if there is one.",
)
@click.option(
    "--add-noqa",
    is_flag=True,
    help="Suppress today's errors and warnings with `# embercoach: ignore[CODE]` comments.",
)
# Where from
@click.option(
    "--stdin-filename",
    type=click.Path(path_type=str),
    help="File name of standard input (`-`), for settings, imports and reports.",
)
@shared_options.source
@shared_options.running
@shared_options.plugins
# What to answer
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even with findings.")
@click.option(
    "--baseline-strict",
    is_flag=True,
    help="Also exit with 1 if the baseline lists fixed findings.",
)
@click.option("--show-files", is_flag=True, help="List the files that would be checked and exit.")
@click.option("--show-settings", is_flag=True, help="Print the effective settings and exit.")
@click.option("--debug", is_flag=True, hidden=True, help="Print tracebacks of internal errors.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Check MLX and Metal code for bugs and slow code.

    PATHS are files, folders and checkouts, each with its own configuration (default: the current
    folder). `-` is standard input, `@FILE` the lines of a file.
    """
    from embercoach.cli.flow import CheckRequest, execute

    watched = options.pop("watch")
    options["fix"] |= options["fix_only"]
    request = CheckRequest(
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
        ("fix_only", "add_noqa"),
        ("fix", "add_noqa"),
        ("diff", "add_noqa"),
        ("diff", "baseline_strict"),
        ("fix_only", "baseline_strict"),
        ("quiet", "verbose"),
        ("show_files", "show_settings"),
    ):
        if getattr(request, one) and getattr(request, other):
            names = f"--{one} and --{other}".replace("_", "-")
            raise click.UsageError(f"{names} exclude each other")
    if request.statistics and request.output_format not in COUNTING:
        raise click.UsageError(
            f"--output-format must be text or json with --statistics, got {request.output_format}"
        )
    if request.reads_stdin and [*request.paths] not in ([], ["-"]):
        raise click.UsageError("standard input (-) and other paths exclude each other")
    changes = next((name for name in ("fix", "diff", "add_noqa") if getattr(request, name)), None)
    if request.shard is not None and (changes or request.reads_stdin):
        other = f"--{changes}".replace("_", "-") if changes else "standard input (-)"
        raise click.UsageError(f"--shard and {other} exclude each other")
    if request.reads_stdin and request.add_noqa:
        raise click.UsageError("--add-noqa and standard input (-) exclude each other")


def _refuse_beside_watch(request: Any) -> None:
    from embercoach.cli.output import FOR_PEOPLE

    if request.reads_stdin:
        raise click.UsageError("--watch and standard input (-) exclude each other")
    for other in ("diff", "fix_only", "add_noqa", "output_file", "show_files", "show_settings"):
        if getattr(request, other):
            name = f"--{other}".replace("_", "-")
            raise click.UsageError(f"--watch and {name} exclude each other")
    if request.output_format not in FOR_PEOPLE:
        raise click.UsageError(
            "--output-format must be text, concise or grouped with --watch, "
            f"got {request.output_format}"
        )
