"""The options that several commands have: what overrides settings, where they are read, the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from embercoach.cli.option_types import Codes, Commas, joined
from embercoach.config import Overrides
from embercoach.rulebook import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Option = Callable[[Callable[..., Any]], Callable[..., Any]]

_Function = TypeVar("_Function", bound="Callable[..., Any]")

profile = click.option(
    "--profile", type=click.Choice(PROFILES), help="How loudly: severities of rules."
)
select = click.option(
    "--select", type=Codes(), multiple=True, help="Only these rules (or beginnings)."
)
ignore = click.option("--ignore", type=Codes(), multiple=True, help="Not these rules.")
no_baseline = click.option(
    "--no-baseline", is_flag=True, help="Use no baseline, not the configuration's."
)
output_file = click.option(
    "-o",
    "--output-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report to a file instead of standard output.",
)
_CHOICE = (
    profile,
    select,
    click.option("--extend-select", type=Codes(), multiple=True, help="These rules too."),
    ignore,
    click.option("--exclude", type=Commas(), multiple=True, help="Pass over these patterns only."),
    click.option("--extend-exclude", type=Commas(), multiple=True, help="Pass over these, too."),
    click.option(
        "--respect-gitignore/--no-respect-gitignore",
        default=None,
        help="Pass over what git ignores (the default), or don't.",
    ),
    click.option(
        "--max-file-size",
        type=click.FloatRange(min=0, min_open=True),
        metavar="MEGABYTES",
        help="Report larger files as problems (default: 4 for Python, 1 for Metal).",
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
    no_baseline,
)
_SOURCE = (
    click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Use this configuration file and search for no other.",
    ),
    click.option("--isolated", is_flag=True, help="Use no configuration file."),
)
_RUNNING = (
    click.option("--no-cache", is_flag=True, help="Neither read nor write the cache."),
    click.option(
        "-j", "--jobs", type=click.IntRange(min=1), help="Processes at most (default: one a core)."
    ),
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
    "max_file_size",
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


def running(function: _Function) -> _Function:
    """Add the options for how a run is done."""
    return _with(function, _RUNNING)


def _with(function: _Function, options: Sequence[Option]) -> _Function:
    for option in reversed(options):
        option(function)
    return function


def overrides(options: dict[str, Any]) -> Overrides:
    """What the command line says of settings; of those that a command lacks, nothing.

    Raises:
        click.UsageError: options that exclude each other, or a name that is none.
    """
    refuse_two_sources(options)
    if options["baseline"] is not None and options["no_baseline"]:
        raise click.UsageError("--no-baseline excludes --baseline")
    if options["baseline"] == "":
        raise click.UsageError("--baseline needs a file's name; --no-baseline is for none")
    return Overrides(
        profile=options["profile"],
        select=joined(options["select"]) or None,
        extend_select=joined(options.get("extend_select", ())),
        ignore=joined(options["ignore"]),
        exclude=joined(options.get("exclude", ())) or None,
        extend_exclude=joined(options.get("extend_exclude", ())),
        show_notes=options.get("show_notes"),
        respect_gitignore=options.get("respect_gitignore"),
        max_file_size=options.get("max_file_size"),
        baseline="" if options["no_baseline"] else options["baseline"],
    )


def refuse_two_sources(options: dict[str, Any]) -> None:
    """Settings are read in one place.

    Raises:
        click.UsageError: a configuration file, and none.
    """
    if options["config"] is not None and options["isolated"]:
        raise click.UsageError("--config and --isolated exclude each other")
