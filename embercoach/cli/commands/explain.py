"""``embercoach explain``: a rule's page, or what is found at a place."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from embercoach import rulebook
from embercoach.cli import shared_options
from embercoach.cli.option_types import Code
from embercoach.config.errors import suggestion
from embercoach.report.page_lines import page_lines
from embercoach.report.styled import WIDTH, print_lines, width_of
from embercoach.terminal_text import json_text


@click.command("explain")
@click.argument("code", type=Code(), metavar="CODE|FILE:LINE[:COLUMN]")
@shared_options.output_format("text", "json")
@click.option("--full", is_flag=True, help="Show the rule's whole page, with the evidence.")
@shared_options.color
@shared_options.plugins
@click.pass_context
def command(ctx: click.Context, code: str, output_format: str, *, full: bool) -> None:
    """Explain a rule: the harm, examples, the fix, and where it is silent.

    CODE is a rule's code, or its name as `embercoach rules` shows it.

    With a location such as `kernels.py:12`, explain the findings there, notes included, and show
    the signature that MLX generates for a Metal kernel, and the shapes of assigned arrays.
    """
    if code.rpartition(":")[2].isdecimal():
        from embercoach.cli.place import explain, place_of

        if full:
            raise click.UsageError("--full needs a rule, got a location")
        ctx.exit(explain(place_of(code), output_format))
    rule = _find(code)
    if output_format == "json":
        click.echo(json_text(rulebook.described(rule, page=True)))
    else:
        width = min(width_of(sys.stdout), WIDTH)
        print_lines(page_lines(rule, width, full=full), sys.stdout)


def _find(word: str) -> rulebook.Rule:
    if word.upper() in rulebook.codes():
        return rulebook.rule(word.upper())
    rules = rulebook.rules()
    names = {rule.name: rule for rule in rules.values()}
    if word.lower() in names:
        return names[word.lower()]
    if Path(word).is_file():
        raise click.UsageError(f"'{word}' is a file; add a line, as in '{word}:12'")
    if rulebook.codes_about(word):
        raise click.UsageError(f"no rule '{word}'; `embercoach rules {word}` lists those like it")
    hint = suggestion(word, {*rules, *names}) or "; `embercoach rules` lists them"
    raise click.UsageError(f"unknown rule '{word}'{hint}")
