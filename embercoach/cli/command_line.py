"""A command line from the parameters of a click context, for reports that others read."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

GIVEN = click.core.ParameterSource.COMMANDLINE


def command_line(ctx: click.Context, without: frozenset[str]) -> str:
    """The command line of a context, with relative paths.

    Args:
        ctx: of a command; its options have no negative forms.
        without: names of parameters to leave out.
    """
    words: list[str] = []
    for parameter in sorted(ctx.command.params, key=lambda one: one.param_type_name == "argument"):
        name = parameter.name or ""
        if name not in without and ctx.get_parameter_source(name) is GIVEN:
            words += _words(parameter, ctx.params[name])
    return shlex.join([*ctx.command_path.split(), *words])


def _words(parameter: click.Parameter, value: Any) -> Iterator[str]:
    for one in value if parameter.multiple or parameter.nargs != 1 else (value,):
        if parameter.param_type_name == "option":
            yield parameter.opts[-1]
        if not isinstance(one, bool):
            yield ",".join(one) if isinstance(one, tuple) else _relative(parameter, str(one))


def _relative(parameter: click.Parameter, text: str) -> str:
    if not isinstance(parameter.type, click.Path) or not Path(text).is_absolute():
        return text
    inside = os.path.relpath(text)
    return Path(text).name if inside.startswith(os.pardir) else inside
