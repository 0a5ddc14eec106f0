"""``embercoach trace compare``: the command's options, and its exit code."""

from __future__ import annotations

import os
from pathlib import Path

import click

from embercoach.cli import codes, shared_options
from embercoach.cli.flow import UserError
from embercoach.cli.output import deliver
from embercoach.cli.trace.compared import render
from embercoach.cli.trace.saved_trace import MOST_BYTES, SavedTrace, saved_trace
from embercoach.cli.trace.trace_comparison import compare
from embercoach.report.html.saved_json import SavedReportError
from embercoach.safe_read import read_bytes

_REPORT = click.Path(path_type=Path, dir_okay=False)


@click.command(
    "compare",
    epilog="Exit code: 0 if no site is new and none has more events or bytes, else 1; "
    "2 if a report cannot be read.",
)
@click.argument("before", type=_REPORT, metavar="BEFORE.json")
@click.argument("after", type=_REPORT, metavar="AFTER.json")
@click.option(
    "--renamed",
    type=(str, str),
    multiple=True,
    metavar="OLD NEW",
    help="OLD of the first report is the file NEW of the second.",
)
@shared_options.output_format("text", "json", help_text="Output format.")
@shared_options.output_file
@click.option(
    "--lines",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Number of sites that text lists.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    before: Path,
    after: Path,
    renamed: tuple[tuple[str, str], ...],
    output_format: str,
    output_file: Path | None,
    lines: int,
) -> None:
    """Compare two reports of `embercoach trace --output-format json`.

    A site is all events of one kind in one function of a file at lines of the same text, so that
    moved lines are the same site. Traces of a compiled function match by its name.
    """
    names = {os.path.normpath(old): os.path.normpath(new) for old, new in renamed}
    comparison = compare(_read(before), _read(after), names)
    deliver(lambda stream: render(comparison, output_format, lines, stream), output_file)
    ctx.exit(codes.FOUND if comparison.is_worse else codes.CLEAN)


def _read(file: Path) -> SavedTrace:
    try:
        return saved_trace(read_bytes(file, limit=MOST_BYTES))
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from error
    except SavedReportError as error:
        raise UserError(f"{file} {error}") from error
