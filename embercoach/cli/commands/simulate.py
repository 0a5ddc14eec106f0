"""``embercoach simulate``: the command's options."""

from __future__ import annotations

from typing import Any

import click

from embercoach.cli import shared_options
from embercoach.cli.option_types import files
from embercoach.simulator.profile.gpus import DEFAULT, GPUS


@click.command(
    "simulate",
    context_settings={"allow_interspersed_args": False},
    epilog="Exit code: the program's if it is not 0; else 0 only notes found, 1 errors or "
    "warnings; 2 if the program cannot be run. Requires the extra `simulator`.",
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=files)
# How to run
@click.option("--no-checks", is_flag=True, help="Run kernels without checks, several times faster.")
@click.option(
    "--compile-only",
    is_flag=True,
    help="Only compile launched kernels, also for other dtypes; launches return zeros.",
)
@click.option(
    "--profile",
    is_flag=True,
    help="Count what each line costs, in place of the checks, and predict the time on a GPU.",
)
@click.option(
    "--gpu",
    type=click.Choice(list(GPUS), case_sensitive=False),
    help=f"The GPU of --profile (default: {DEFAULT}).",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Timeout of a launch in seconds (default: the configured one, else 60).",
)
@click.option(
    "--allow-compiler",
    is_flag=True,
    help="Allow the configured compiler (also: EMBERCOACH_ALLOW_COMPILER=1).",
)
# What to show
@shared_options.output_format(
    "text",
    "json",
    "sarif",
    "html",
    help_text="Output format; html takes --profile. All but text move the program's output to "
    "standard error.",
)
@shared_options.output_file
@click.option(
    "--show-notes/--no-notes", default=None, help="List notes (default: only count them)."
)
# Where from, what to answer
@shared_options.source
@click.option("--exit-zero", is_flag=True, help="Ignore findings in the exit code.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Run a program whose Metal kernels run on the CPU and are checked.

    PROGRAM is `script.py ...`, `python ...`, `pytest ...`, or `-- -m module ...`, after all options
    of this command. `python` and `pytest` are those of the environment that embercoach is in.
    """
    from embercoach.cli.simulation import SimulationRequest, execute

    shared_options.refuse_two_sources(options)
    if options["compile_only"] and options["no_checks"]:
        raise click.UsageError("--compile-only and --no-checks exclude each other: nothing is run")
    if options["profile"] and (options["compile_only"] or options["no_checks"]):
        other = "--compile-only" if options["compile_only"] else "--no-checks"
        raise click.UsageError(f"--profile and {other} exclude each other")
    if options["gpu"] and not options["profile"]:
        raise click.UsageError("--gpu needs --profile")
    if options["output_format"] == "html" and not options["profile"]:
        raise click.UsageError("--output-format html needs --profile")
    ctx.exit(execute(SimulationRequest(**options)))
