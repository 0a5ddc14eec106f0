"""``embercoach merge``: saved reports of shards or checkouts as one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from embercoach.cli import shared_options
from embercoach.cli.commands.check import COUNTING, FORMATS
from embercoach.cli.entry import CLEAN, FOUND, INCOMPLETE

if TYPE_CHECKING:
    from embercoach.report.merging import Merged


@click.command(
    "merge",
    epilog="Exit code: 0 only notes found, 1 errors or warnings, 2 a run or a shard is missing.",
)
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE.json..."
)
@shared_options.output_format(*FORMATS, default="json")
@shared_options.output_file
@click.option(
    "--show-notes/--no-notes", default=False, help="List notes (default: only count them)."
)
@click.option("--statistics", is_flag=True, help="Count findings by rule instead of listing them.")
@click.option("-q", "--quiet", is_flag=True, help="Print no warnings about the reports.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even with findings.")
@shared_options.plugins
@click.pass_context
def command(
    ctx: click.Context,
    /,
    files: tuple[Path, ...],
    output_format: str,
    output_file: Path | None,
    show_notes: bool,
    statistics: bool,
    quiet: bool,
    exit_zero: bool,
) -> None:
    """Merge reports that `embercoach check --output-format json` wrote.

    All shards of a run together give the report of the whole run, which `embercoach report --from`
    accepts. A finding in several reports is listed once.
    """
    from embercoach.cli.output import deliver

    if statistics and output_format not in COUNTING:
        raise click.UsageError(
            f"--output-format must be text or json with --statistics, got {output_format}"
        )
    merged = merged_files(files, quiet=quiet)
    write = partial(
        _write, merged, output_format, show_notes=show_notes, with_statistics=statistics
    )
    deliver(write, output_file)
    ctx.exit(_exit_code(merged.document, exit_zero=exit_zero))


def merged_files(files: Sequence[Path], *, quiet: bool) -> Merged:
    """Merge saved reports; print warnings about them on standard error.

    Raises:
        UserError: one of them can't be read or is not a report.
    """
    from embercoach.cli.recovered import read_saved
    from embercoach.report.html.saved import parse
    from embercoach.report.merging import Saved, merge
    from embercoach.report.styled import print_text

    merged = merge([Saved(str(file), read_saved(file, parse)) for file in files])
    for remark in merged.remarks:
        if not quiet:
            print_text(f"embercoach: {remark}", sys.stderr)
    return merged


def _exit_code(document: dict[str, Any], *, exit_zero: bool) -> int:
    summary = document["summary"]
    if summary["problems"]:
        return INCOMPLETE
    found = summary["errors"] or summary["warnings"]
    return FOUND if found and not exit_zero else CLEAN


def _write(
    merged: Merged, form: str, stream: TextIO, *, show_notes: bool, with_statistics: bool
) -> None:
    if form == "json" and not with_statistics:
        from embercoach.report import json_report

        stream.write(json_report.written(merged.document))
        return
    from embercoach.cli.recovered import write

    write(merged.document, form, stream, statistics=with_statistics, show_notes=show_notes)
