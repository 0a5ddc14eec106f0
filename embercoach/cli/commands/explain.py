"""``embercoach explain``: a rule's page, or what is found at a place."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from embercoach import rulebook
from embercoach.cli import shared_options
from embercoach.cli.option_types import Code
from embercoach.config.errors import suggestion
from embercoach.report.styled import wants_color
from embercoach.terminal_text import json_text


@click.command("explain")
@click.argument("code", type=Code(), metavar="CODE|FILE:LINE[:COLUMN]")
@shared_options.output_format("text", "json")
@shared_options.color
@shared_options.plugins
@click.pass_context
def command(ctx: click.Context, code: str, output_format: str) -> None:
    """Explain a rule: what it reports, why, evidence and examples.

    CODE is a rule's code, or its name as `embercoach rules` shows it.

    With a location such as `kernels.py:12`, explain the findings there, notes included, and show
    the signature that MLX generates for a Metal kernel, and the shapes of assigned arrays.
    """
    if code.rpartition(":")[2].isdecimal():
        from embercoach.cli.place import explain, place_of

        ctx.exit(explain(place_of(code), output_format))
    rule = _find(code)
    if output_format == "json":
        click.echo(json_text(rulebook.described(rule, page=True)))
    elif wants_color(sys.stdout):
        from rich.console import Console
        from rich.markdown import Markdown

        Console(file=sys.stdout, force_terminal=True).print(Markdown(rule.page))
    else:
        click.echo(rule.page, nl=False)


def _find(word: str) -> rulebook.Rule:
    if word.upper() in rulebook.codes():
        return rulebook.rule(word.upper())
    rules = rulebook.rules()
    names = {rule.name: rule for rule in rules.values()}
    if word.lower() in names:
        return names[word.lower()]
    if word.upper() in rulebook.words(rules):
        raise click.UsageError(f"'{word}' names several rules: `embercoach rules {word}`")
    if Path(word).is_file():
        raise click.UsageError(f"'{word}' is a file; add a line, as in '{word}:12'")
    hint = suggestion(word, {*rules, *names}) or "; `embercoach rules` lists them"
    raise click.UsageError(f"unknown rule '{word}'{hint}")
