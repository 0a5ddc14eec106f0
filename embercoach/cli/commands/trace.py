"""``embercoach trace``: the command's options."""

from __future__ import annotations

from typing import Any

import click

from embercoach.cli import shared_options
from embercoach.cli.option_types import files


@click.command(
    "trace",
    context_settings={"allow_interspersed_args": False},
    epilog="Exit code: the program's; 2 if it cannot be run. Requires MLX.",
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=files)
@shared_options.output_format(
    "text",
    "json",
    "html",
    help_text="Output format. All but text move the program's output to standard error.",
)
@shared_options.output_file
@click.option(
    "--lines",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Number of rows of each table that text lists.",
)
@click.option(
    "--no-check",
    is_flag=True,
    help="Do not compare the trace with the findings of `embercoach check`.",
)
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Run a program and list where it waits for MLX: evaluations, host copies, retraces.

    PROGRAM is `python script.py ...`, `python -m module ...`, `pytest ...`, or `-m module ...`,
    after `--`. `python` and `pytest` are those of the environment that embercoach is in.
    """
    from embercoach.cli.trace.trace_run import TraceRequest, execute

    ctx.exit(execute(TraceRequest(**options)))
