"""``embercoach trace``: the command's options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from embercoach.cli import shared_options
from embercoach.cli.option_types import files
from embercoach.cli.output import deliver
from embercoach.cli.programs import TRACE, program_of, run_recorded
from embercoach.cli.trace.static_check import checked_trace, configurations_here
from embercoach.cli.trace.traced import Traced, render
from embercoach.trace.trace_record import read
from embercoach.trace.trace_session import TIMELINE, VARIABLE

COMPARE = "compare"


class TraceCommand(click.Command):
    """Runs a program, whose name is never `compare`, or compares two reports."""

    def list_commands(self, _: click.Context | None) -> list[str]:
        """Return the names of subcommands, as of `click.Group`."""
        return [COMPARE]

    def get_command(self, _: click.Context | None, name: str) -> click.Command | None:
        """Return a subcommand by its name, as of `click.Group`."""
        if name != COMPARE:
            return None
        from embercoach.cli.trace import trace_comparison

        return trace_comparison.command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Get the context of a subcommand if the first argument is its name, else of this one."""
        inner = self.get_command(parent, args[0]) if args else None
        if inner is None:
            return super().make_context(info_name, args, parent, **extra)
        return inner.make_context(f"{info_name} {inner.name}", args[1:], parent, **extra)


@click.command(
    "trace",
    cls=TraceCommand,
    context_settings={"allow_interspersed_args": False},
    epilog="Exit code: the program's; 2 if it cannot be run. Requires MLX.",
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=files)
@shared_options.output_format(
    "text",
    "json",
    "html",
    "perfetto",
    help_text="Output format. Without -o, all but text move the output of the program to stderr.",
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

    PROGRAM is `script.py ...`, `python ...`, `pytest ...`, or `-- -m module ...`, after all options
    of this command. `python` and `pytest` are those of the environment that embercoach is in.

    `embercoach trace compare BEFORE.json AFTER.json` compares two saved reports of JSON.
    """
    ctx.exit(execute(TraceRequest(**options)))


class TraceRequest(Struct, frozen=True, kw_only=True):
    """The command line of ``trace``."""

    program: tuple[str, ...]
    output_format: str
    output_file: Path | None
    lines: int
    no_check: bool


def execute(request: TraceRequest) -> int:
    """Run the program and return its exit code."""
    program = program_of(request.program, TRACE)
    configurations = None if request.no_check else configurations_here()
    timeline = {TIMELINE: "1"} if request.output_format == "perfetto" else {}
    quiet = request.output_format != "text" and request.output_file is None
    code, record = run_recorded(
        program, lambda file: {VARIABLE: str(file), **timeline}, read, quiet=quiet
    )
    if record is None:
        return code
    checked = None if configurations is None else checked_trace(record, configurations)
    traced = Traced(record, program.shown, request.lines, code, checked)
    deliver(lambda stream: render(traced, request.output_format, stream), request.output_file)
    return code
