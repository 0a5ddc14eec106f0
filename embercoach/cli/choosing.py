"""The options that override settings, and where settings are read: for every command with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from embercoach.cli.values import Codes, Commas, joined
from embercoach.config import Overrides
from embercoach.rulebook import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Option = Callable[[Callable[..., Any]], Callable[..., Any]]

_Function = TypeVar("_Function", bound="Callable[..., Any]")

_CHOICE = (
    click.option("--profile", type=click.Choice(PROFILES), help="How loudly: severities of rules."),
    click.option("--select", type=Codes(), multiple=True, help="Only these rules (or beginnings)."),
    click.option("--extend-select", type=Codes(), multiple=True, help="These rules too."),
    click.option("--ignore", type=Codes(), multiple=True, help="Not these rules."),
    click.option("--exclude", type=Commas(), multiple=True, help="Pass over these patterns only."),
    click.option("--extend-exclude", type=Commas(), multiple=True, help="Pass over these, too."),
    click.option(
        "--respect-gitignore/--no-respect-gitignore",
        default=None,
        help="Pass over what git ignores (the default), or don't.",
    ),
)
_SHOWN = (
    click.option(
        "--show-notes/--no-notes",
        default=None,
        help="List notes, or only count them (the default). JSON and SARIF always hold them.",
    ),
    click.option(
        "--baseline",
        type=click.Path(dir_okay=False),
        help="Pass over the findings that `embercoach baseline update` has written into this file.",
    ),
    click.option("--no-baseline", is_flag=True, help="Use no baseline, not the configuration's."),
)
_SOURCE = (
    click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Use this configuration file and search for no other.",
    ),
    click.option("--isolated", is_flag=True, help="Use no configuration file."),
)
#: The parameters that `overrides` makes one of.
MERGED = {
    "profile",
    "select",
    "extend_select",
    "ignore",
    "exclude",
    "extend_exclude",
    "show_notes",
    "respect_gitignore",
    "baseline",
    "no_baseline",
}


def choice(function: _Function) -> _Function:
    """Add the options for what is checked."""
    return _with(function, _CHOICE)


def shown(function: _Function) -> _Function:
    """Add the options for what is listed of it."""
    return _with(function, _SHOWN)


def source(function: _Function) -> _Function:
    """Add the options for where settings are read."""
    return _with(function, _SOURCE)


def _with(function: _Function, options: Sequence[Option]) -> _Function:
    for option in reversed(options):
        option(function)
    return function


def overrides(options: dict[str, Any]) -> Overrides:
    """What the command line says of settings.

    Raises:
        click.UsageError: options that exclude each other, or a name that is none.
    """
    if options["config"] is not None and options["isolated"]:
        raise click.UsageError("--config and --isolated exclude each other")
    if options["baseline"] is not None and options["no_baseline"]:
        raise click.UsageError("--no-baseline excludes --baseline")
    if options["baseline"] == "":
        raise click.UsageError("--baseline needs a file's name; --no-baseline is for none")
    return Overrides(
        profile=options["profile"],
        select=joined(options["select"]) or None,
        extend_select=joined(options["extend_select"]),
        ignore=joined(options["ignore"]),
        exclude=joined(options["exclude"]) or None,
        extend_exclude=joined(options["extend_exclude"]),
        show_notes=options["show_notes"],
        respect_gitignore=options["respect_gitignore"],
        baseline="" if options["no_baseline"] else options["baseline"],
    )
