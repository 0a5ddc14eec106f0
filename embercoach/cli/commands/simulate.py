"""``embercoach simulate``: the command's options."""

from __future__ import annotations

from typing import Any

import click

from embercoach.cli import shared_options
from embercoach.cli.option_types import files

FORMATS = ("text", "json", "sarif")


@click.command(
    "simulate",
    context_settings={"allow_interspersed_args": False},
    epilog="Exit code: that of the program where it is not 0; else 1 if something was found but "
    "notes, and 0 if not; 2 if the program could not be run. The simulator's packages: "
    "python -m pip install 'embercoach[simulator]'.",
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=files)
# How to run
@click.option("--no-checks", is_flag=True, help="Run kernels, several times faster, unchecked.")
@click.option(
    "--compile-only",
    is_flag=True,
    help="Run no kernel: compile each that is launched, also for small inputs, scalars and other "
    "floating dtypes, and tell what does not compile. Launches give zeros.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds that one launch may run (default: 60, or what the configuration says).",
)
@click.option(
    "--allow-compiler",
    is_flag=True,
    help="Run the compiler that the configuration file names; EMBERCOACH_ALLOW_COMPILER=1 too.",
)
# What to show
@click.option(
    "--output-format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="How findings are written. For json and sarif without -o, what the program prints goes to "
    "standard error.",
)
@shared_options.output_file
@click.option("--show-notes/--no-notes", default=None, help="List notes, or only count them.")
# Where from, what to answer
@shared_options.source
@click.option("--exit-zero", is_flag=True, help="Don't let findings change the exit code.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Run a program whose Metal kernels run on the CPU and are checked.

    PROGRAM is `python script.py ...`, `python -m module ...`, `pytest ...`, or `-m module ...`,
    after `--`. `python` and `pytest` are those of the environment that embercoach is in.
    """
    from embercoach.cli.simulation import Request, execute

    shared_options.refuse_two_sources(options)
    if options["compile_only"] and options["no_checks"]:
        raise click.UsageError("--compile-only and --no-checks exclude each other: nothing is run")
    ctx.exit(execute(Request(**options)))
