"""``embercoach rules``: the table of rules."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from embercoach import rulebook
from embercoach.cli import shared_options
from embercoach.cli.option_types import RuleFamily
from embercoach.config.errors import suggestion
from embercoach.report.styled import print_lines
from embercoach.rulebook import PROFILES
from embercoach.terminal_text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.report.styled import Line


@click.command("rules")
@click.option(
    "--family", type=RuleFamily(), help="Only the rules of a family, such as `host-pull`."
)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="recommended",
    show_default=True,
    help="Whose severities to show.",
)
@click.option(
    "--severity",
    type=click.Choice(["error", "warning", "note"]),
    help="Only the rules of this severity in the profile, where no context changes it.",
)
@click.option("--plugins", "lists_plugins", is_flag=True, help="List the plugins and exit.")
@shared_options.output_format("text", "json", help_text="How to print the table.")
@shared_options.plugins
def command(
    family: str | None,
    profile: str,
    severity: str | None,
    lists_plugins: bool,
    output_format: str,
) -> None:
    """List the rules: code, name, severity in a profile, fix, and what it is about."""
    if lists_plugins:
        _list_plugins(output_format)
        return
    chosen = list(rulebook.rules().values())
    if family is not None:
        families = {rule.family for rule in chosen}
        family = family.lower()
        if family not in families:
            hint = suggestion(family, families) or f" (there are {', '.join(sorted(families))})"
            raise click.UsageError(f"there is no family '{family}'{hint}")
        chosen = [rule for rule in chosen if rule.family == family]
    if severity is not None:
        chosen = [rule for rule in chosen if rule.severity_in(profile, "default") == severity]
    if output_format == "json":
        click.echo(json_text([rulebook.described(rule, page=False) for rule in chosen]))
    else:
        print_lines(_table(chosen, profile), sys.stdout)


def _list_plugins(output_format: str) -> None:
    """Print the loaded plugins: distribution, version, rules, and the folder of their pages."""
    from embercoach.plugins.loading import loaded

    rows = [
        {
            "name": plugin.name,
            "version": plugin.version,
            "rules": sorted(plugin.pages),
            "pages": str(plugin.rules.pages),
        }
        for plugin in loaded()
    ]
    if output_format == "json":
        click.echo(json_text(rows))
        return
    for row in rows:
        codes = ", ".join(row["rules"])
        print_lines(
            [[(f"{row['name']} {row['version']}: {codes} ({row['pages']})", "")]], sys.stdout
        )


def _table(chosen: Sequence[rulebook.Rule], profile: str) -> Iterator[Line]:
    code = max((len(rule.code) for rule in chosen), default=4)
    name = max((len(rule.name) for rule in chosen), default=4)
    yield [(f"{'code':<{code}}  {'name':<{name}}  severity  fix     about", "head")]
    for rule in chosen:
        severity = rule.severity_in(profile, "default")
        yield [
            (f"{rule.code:<{code}}", "code"),
            (f"  {rule.name:<{name}}  ", ""),
            (f"{severity:<8}", severity),
            (f"  {'' if rule.fix == 'none' else rule.fix:<6}  {rule.summary}", ""),
        ]
