"""``check --show-files`` and ``check --show-settings``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from embercoach import rulebook
from embercoach.cli import codes
from embercoach.engine.files import discover
from embercoach.kernel_builder import Fixed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.config import Settings
    from embercoach.config.load import Scope
    from embercoach.config.settings import SimulatorSettings
    from embercoach.engine.checkouts import Division
    from embercoach.kernel_builder import Origin


def show_files(scopes: tuple[Scope, ...], division: Division, *, force_exclude: bool) -> int:
    """Print the files that would be checked."""
    code = codes.CLEAN
    for checkout, (number, paths) in division.paths.items():
        found = discover(paths, scopes[number].settings, force_exclude=force_exclude)
        for file in found.files:
            if division.holds(str(file.path), checkout):
                click.echo(file.shown)
        for problem in found.problems:
            click.echo(f"{problem.path}: {problem.message}", err=True)
            code = codes.INCOMPLETE
    return code


def show_settings(scopes: tuple[Scope, ...]) -> int:
    """Print the settings for the paths, after files and options have been merged."""
    for number, scope in enumerate(scopes):
        if number:
            click.echo()
        for line in _lines(scope.settings, scope.paths):
            click.echo(line)
    return codes.CLEAN


def _lines(settings: Settings, paths: tuple[str, ...]) -> Iterator[str]:
    yield f"# for {', '.join(paths)}"
    yield f"# from {settings.source or 'no configuration file'}"
    yield f"# project {settings.root}"
    yield f"profile = {_quoted(settings.profile)}"
    off = sorted(rulebook.static_codes() - settings.enabled)
    yield f"select = {_list(sorted(settings.enabled))}"
    yield f"ignore = {_list(off)}"
    yield f"exclude = {_list(settings.exclude)}"
    yield f"respect-gitignore = {_boolean(settings.respect_gitignore)}"
    yield f"show-notes = {_boolean(settings.show_notes)}"
    if settings.baseline is not None:
        yield f"baseline = {_quoted(str(settings.baseline))}"
    yield "[per-file-ignores]"
    for pattern, selectors in settings.per_file_ignores:
        yield f"{_quoted(pattern)} = {_list(selectors)}"
    yield "[per-file-profiles]"
    for pattern, profile in settings.per_file_profiles:
        yield f"{_quoted(pattern)} = {_quoted(profile)}"
    yield from _simulator(settings.simulator)
    for builder in settings.kernel_builders:
        yield f"[kernel-builders.{_quoted(builder.symbol)}]"
        for parameter, origin in builder.origins:
            yield f"{parameter} = {_origin(origin)}"


def _simulator(settings: SimulatorSettings) -> Iterator[str]:
    yield "[simulator]"
    if settings.compiler is not None:
        yield f"compiler = {_quoted(settings.compiler)}"
    yield f"timeout = {settings.timeout:g}"
    yield f"memory = {settings.memory / (1 << 30)!r}"
    yield f"checks = {_boolean(settings.checks)}"
    yield f"allow = {_list(settings.allow)}"


def _origin(origin: Origin) -> str:
    if not isinstance(origin, Fixed):
        return _quoted(origin) if isinstance(origin, str) else str(origin)
    value = origin.value
    if isinstance(value, bool):
        return f"{{ value = {_boolean(value)} }}"
    shown = _quoted(value) if isinstance(value, str) else f"[{', '.join(map(_quoted, value))}]"
    return f"{{ value = {shown} }}"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


def _list(words: tuple[str, ...] | list[str]) -> str:
    if len(words) < 4:
        return f"[{', '.join(map(_quoted, words))}]"
    return "[\n" + "".join(f"    {_quoted(word)},\n" for word in words) + "]"
