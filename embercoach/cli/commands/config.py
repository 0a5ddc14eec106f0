"""``embercoach config``: what applies to a file, and why."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from embercoach.cli import shared_options
from embercoach.terminal_text import json_text


@click.command("config", epilog="Exit code: 0, or 2 for a mistake in options or configuration.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=str))
@shared_options.choice
@shared_options.shown
@shared_options.source
@click.option("--all", "everything", is_flag=True, help="Defaults too, and every rule.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print it. JSON always holds everything.",
)
@click.option(
    "--schema", is_flag=True, help="Print the JSON Schema of configuration files, and stop."
)
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], **options: Any) -> None:
    """Show what applies to files, and why: settings, rules, what is passed over.

    Whether a run over the project checks them, and what passes over them if not; their profile;
    which rules are on, how loud, and what turns the others off; every setting, and where it comes
    from. PATHS default to the current folder. Options are those of `check`, to be tried out.
    """
    if options["schema"]:
        from embercoach.config.json_schema import rendered

        click.echo(rendered(), nl=False)
        return
    from embercoach.cli.effective_config import document
    from embercoach.cli.flow import UserError
    from embercoach.config import ConfigError, Configurations
    from embercoach.config.load import compiler_allowed

    # Shown as `simulate` takes it: what it leaves out is among the warnings.
    allowed = compiler_allowed()
    overrides = replace(shared_options.overrides(options), allow_compiler=allowed)
    try:
        configurations = Configurations(
            overrides, config=options["config"], isolated=options["isolated"]
        )
        applied = document(paths or (".",), configurations)
    except ConfigError as error:
        raise UserError(str(error)) from error
    if options["output_format"] == "json":
        click.echo(json_text(applied))
        return
    from embercoach.cli.effective_config_text import lines
    from embercoach.report.styled import print_lines

    print_lines(lines(applied, everything=options["everything"]), sys.stdout)
