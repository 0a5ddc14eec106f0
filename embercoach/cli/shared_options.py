"""Options of several commands: settings, configuration files, the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from embercoach.cli.option_types import Codes, Commas, PatternCodes
from embercoach.config import Overrides
from embercoach.rulebook import PROFILES

if TYPE_CHECKING:
    from embercoach.plugins.loading import PluginRequest

    Option = Callable[[Callable[..., Any]], Callable[..., Any]]

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def _together(*options: Option) -> Callable[[_Function], _Function]:
    """Return a decorator that adds options, in this order."""

    def add(function: _Function) -> _Function:
        for option in reversed(options):
            option(function)
        return function

    return add


profile = click.option("--profile", type=click.Choice(PROFILES), help="Severities of rules.")
select = click.option(
    "--select", type=Codes(), multiple=True, help="Enable only these rules or prefixes."
)
ignore = click.option(
    "--ignore", "--extend-ignore", type=Codes(), multiple=True, help="Also disable these rules."
)
no_baseline = click.option("--no-baseline", is_flag=True, help="Ignore the configured baseline.")
output_file = click.option(
    "-o",
    "--output-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report to a file, in the format that its suffix names, if any.",
)


def _set_color(_: click.Context, __: click.Parameter, when: str) -> None:
    """Set the variables that `report.styled.wants_color`, and child processes, read."""
    if when == "never":
        os.environ["NO_COLOR"] = "1"
    elif when == "always":
        os.environ.pop("NO_COLOR", None)
        os.environ["FORCE_COLOR"] = "1"


color = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    expose_value=False,
    callback=_set_color,
    help="When to use colors; auto: on terminals, or as NO_COLOR and FORCE_COLOR say.",
)
#: The options that select files and rules.
choice = _together(
    profile,
    select,
    click.option("--extend-select", type=Codes(), multiple=True, help="Also enable these rules."),
    ignore,
    click.option(
        "--per-file-ignores",
        type=PatternCodes(),
        multiple=True,
        metavar="PATTERN:CODE,...",
        help="Disable rules in files, instead of the configured `per-file-ignores`.",
    ),
    click.option("--exclude", type=Commas(), multiple=True, help="Exclude only these patterns."),
    click.option(
        "--extend-exclude", type=Commas(), multiple=True, help="Also exclude these patterns."
    ),
    click.option(
        "--respect-gitignore/--no-respect-gitignore",
        default=None,
        help="Exclude files that git ignores (default: yes).",
    ),
    click.option(
        "--max-file-size",
        type=click.FloatRange(min=0, min_open=True),
        metavar="MEGABYTES",
        help="Do not check larger files (default: Python 4, notebooks 2, Metal 1).",
    ),
)
#: The options that select listed findings.
shown = _together(
    click.option(
        "--show-notes/--no-notes",
        default=None,
        help="List notes (default: only count them). JSON and SARIF always list them.",
    ),
    click.option(
        "--baseline",
        type=click.Path(dir_okay=False),
        help="Hide the findings in this file of `embercoach baseline update`.",
    ),
    no_baseline,
)
#: The options that name configuration files.
source = _together(
    click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Use only this configuration file.",
    ),
    click.option("--isolated", is_flag=True, help="Ignore configuration files."),
)
#: The options that are for the run itself.
running = _together(
    click.option("--no-cache", is_flag=True, help="Do not use the cache."),
    click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=1),
        help="Maximum number of processes (default: one per core).",
    ),
)
_plugin_options = _together(
    click.option(
        "--rules-from",
        type=click.Path(exists=True, file_okay=False, resolve_path=True),
        multiple=True,
        metavar="FOLDER",
        help="Also load the plugins that are installed in this folder.",
    ),
    click.option("--no-plugins", is_flag=True, help="Do not load installed plugins."),
)
#: The parameters that `overrides` makes one of.
MERGED = {*Overrides.__struct_fields__, "no_baseline"}


#: Formats by suffixes that are not their names.
_BY_SUFFIX = {"xml": "junit", "md": "markdown", "txt": "text"}


def output_format(
    *formats: str, default: str = "text", help_text: str = "Output format."
) -> Option:
    """Return the option for the format of what is printed; without it, a file's suffix decides."""

    def of_suffix(context: click.Context, option: click.Parameter, value: str) -> str:
        # Click converts what the command line has, such as -o, before defaults.
        file: Path | None = context.params.get("output_file")
        given = context.get_parameter_source(str(option.name)) is not ParameterSource.DEFAULT
        if given or file is None:
            return value
        suffix = _BY_SUFFIX.get(file.suffix[1:].lower(), file.suffix[1:].lower())
        if suffix == "html" and suffix not in formats:
            raise click.UsageError(
                "this command writes no HTML; `embercoach report` writes findings"
            )
        return suffix if suffix in formats else value

    return click.option(
        "--output-format",
        "--format",
        type=click.Choice(formats),
        default=default,
        show_default=True,
        callback=of_suffix,
        help=help_text,
    )


def plugins(function: _Function) -> _Function:
    """Add the options for plugins, and load them before the command runs."""

    @wraps(function)
    def with_plugins(
        *arguments: Any, rules_from: tuple[str, ...], no_plugins: bool, **options: Any
    ) -> Any:
        from embercoach.plugins.loading import PluginRequest

        load_plugins(PluginRequest(installed=not no_plugins, folders=rules_from))
        return function(*arguments, **options)

    return _plugin_options(cast("_Function", with_plugins))


def load_plugins(request: PluginRequest) -> None:
    """Load plugins.

    Raises:
        click.ClickException: one of them cannot be used.
    """
    from embercoach.plugins.discovery import PluginError
    from embercoach.plugins.loading import load

    try:
        load(request)
    except PluginError as error:
        raise click.ClickException(str(error)) from error


def overrides(options: dict[str, Any]) -> Overrides:
    """Return the settings on the command line.

    Raises:
        click.UsageError: options that exclude each other, or an empty name.
    """
    refuse_two_sources(options)
    if options["baseline"] is not None and options["no_baseline"]:
        raise click.UsageError("--no-baseline excludes --baseline")
    if options["baseline"] == "":
        raise click.UsageError("--baseline must be a file, got an empty text")
    given: dict[str, Any] = {"baseline": ""} if options["no_baseline"] else {}
    for name in Overrides.__struct_fields__:
        value = options.get(name)
        if isinstance(value, tuple):  # the lists of an option that is repeated
            value = tuple([word for words in value for word in words])
        if value is not None and value != ():
            given[name] = value
    return Overrides(**given)


def refuse_two_sources(options: dict[str, Any]) -> None:
    """Refuse --config with --isolated.

    Raises:
        click.UsageError: both are given.
    """
    if options["config"] is not None and options["isolated"]:
        raise click.UsageError("--config and --isolated exclude each other")
