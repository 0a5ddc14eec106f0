"""``embercoach rules``: the table of rules."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

import click

from embercoach import rulebook
from embercoach.cli import shared_options
from embercoach.cli.option_types import Code
from embercoach.config.errors import suggestion
from embercoach.report.styled import Line, print_lines
from embercoach.rulebook import PROFILES
from embercoach.terminal_text import json_text


@click.command("rules")
@click.argument("prefixes", nargs=-1, type=Code(), metavar="[PREFIX]...")
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
@shared_options.color
@shared_options.plugins
def command(
    prefixes: tuple[str, ...],
    profile: str,
    severity: str | None,
    lists_plugins: bool,
    output_format: str,
) -> None:
    """List the rules: code, name, severity in a profile, fix, and what it is about.

    With prefixes such as `KERNEL` or `host-pull`, only the rules whose codes begin with one; where
    there is none, those with that word in their code or name, such as `race`.
    """
    if lists_plugins:
        _list_plugins(output_format)
        return
    chosen = _beginning(prefixes) if prefixes else [*rulebook.rules().values()]
    if severity is not None:
        chosen = [rule for rule in chosen if rule.severity_in(profile, "default") == severity]
    if output_format == "json":
        click.echo(json_text([rulebook.described(rule, page=False) for rule in chosen]))
    else:
        print_lines(_table(chosen, profile), sys.stdout)


def _beginning(prefixes: Iterable[str]) -> list[rulebook.Rule]:
    """Return the rules whose codes begin with one of some prefixes, or that have it as a word.

    Raises:
        click.UsageError: there is none for one of them.
    """
    chosen: set[str] = set()
    for prefix in prefixes:
        named = rulebook.codes_about(prefix)
        if not named:
            hint = suggestion(prefix, rulebook.words(rulebook.codes()))
            hint = hint or "; `embercoach rules` lists all"
            raise click.UsageError(f"no rule begins with '{prefix}'{hint}")
        chosen |= named
    return [rulebook.rule(code) for code in sorted(chosen)]


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
