"""``embercoach config``: the effective configuration of files."""

from __future__ import annotations

import sys
from typing import Any

import click
from msgspec.structs import replace

from embercoach.cli import shared_options
from embercoach.terminal_text import json_text


@click.command("config", epilog="Exit code: 0, or 2 if options or configuration are invalid.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=str))
@shared_options.choice
@shared_options.shown
@shared_options.source
@click.option("--all", "everything", is_flag=True, help="Also show defaults and all rules.")
@shared_options.output_format(
    "text", "json", help_text="Output format. JSON always contains everything."
)
@click.option(
    "--schema", is_flag=True, help="Print the JSON Schema of configuration files and exit."
)
@shared_options.plugins
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], **options: Any) -> None:
    """Show the effective configuration of files: settings, rules, exclusions.

    For each path: whether a run over the project checks it, and the reason if not; its profile; the
    enabled rules with their severities, and what disables the others; every setting with its
    origin. PATHS default to the current folder. Options have the same effect as in `check`.
    """
    if options["schema"]:
        from embercoach.config.schema import rendered_json_schema

        click.echo(rendered_json_schema(), nl=False)
        return
    from embercoach.cli.effective_config import document
    from embercoach.config import Configurations
    from embercoach.config.load import compiler_allowed

    # As in `simulate`: a compiler that is not allowed is among the warnings.
    allowed = compiler_allowed()
    overrides = replace(shared_options.overrides(options), allow_compiler=allowed)
    configurations = Configurations(
        overrides, config=options["config"], isolated=options["isolated"]
    )
    applied = document(paths or (".",), configurations)
    if options["output_format"] == "json":
        click.echo(json_text(applied))
        return
    from embercoach.cli.effective_config import lines
    from embercoach.report.styled import print_lines

    print_lines(lines(applied, everything=options["everything"]), sys.stdout)
