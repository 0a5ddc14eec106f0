"""Settings for the paths of a run: nearest file, then the command line on top."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.config.errors import ConfigError
from embercoach.config.files import ConfigFile, find, folder_of, read
from embercoach.config.patterns import check_pattern
from embercoach.config.schema import Layer, layer_of
from embercoach.config.selectors import Selection, check_selector, enabled_codes
from embercoach.config.settings import DEFAULT_EXCLUDE, Settings
from embercoach.config.values import check_profile

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Overrides:
    """The command line's say; None or empty where an option was not given."""

    profile: str | None = None
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    show_notes: bool | None = None
    respect_gitignore: bool | None = None
    max_file_size: float | None = None
    #: A file, from the current folder; the empty text for none at all.
    baseline: str | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """Settings and the paths, as given, that they hold for.

    Attributes:
        settings: those in force.
        paths: files and folders.
        file: the configuration file, None where there is none.
        base: what the file says.
        top: what the command line says.
    """

    settings: Settings
    paths: tuple[str, ...]
    file: ConfigFile | None = None
    base: Layer = field(default_factory=Layer)
    top: Layer = field(default_factory=Layer)


def load(
    paths: Sequence[str],
    overrides: Overrides | None = None,
    *,
    config: Path | None = None,
    isolated: bool = False,
) -> tuple[Scope, ...]:
    """Settings for each path, paths with the same configuration file together.

    Args:
        paths: files and folders, as given.
        overrides: the command line's options.
        config: a configuration file to use for all paths, instead of searching.
        isolated: use no configuration file.

    Raises:
        ConfigError: a mistake in a file or an option.
    """
    top = _layer(overrides or Overrides())
    files: dict[Path, ConfigFile | None] = {}
    groups: dict[Path | None, list[str]] = {}
    by_path: dict[Path | None, ConfigFile | None] = {None: None}
    for path in paths:
        folder = folder_of(path)
        if folder not in files:
            files[folder] = _configuration(folder, config, isolated=isolated)
        file = files[folder]
        key = file.path if file else None
        by_path[key] = file
        groups.setdefault(key, []).append(path)
    return tuple(
        _scope(by_path[key], top, tuple(group), named=config is not None)
        for key, group in groups.items()
    )


def _scope(file: ConfigFile | None, top: Layer, paths: tuple[str, ...], *, named: bool) -> Scope:
    base = layer_of(file) if file else Layer()
    # A file named with --config need not lie in the project: patterns start at the current folder.
    root = file.path.parent if file and not named else Path.cwd()
    settings = _settings(base, top, root, file.path if file else None)
    return Scope(settings, paths, file, base, top)


def _configuration(folder: Path, config: Path | None, *, isolated: bool) -> ConfigFile | None:
    if isolated:
        return None
    return find(folder) if config is None else read(config)


def _layer(overrides: Overrides) -> Layer:
    try:
        for pattern in (*(overrides.exclude or ()), *overrides.extend_exclude):
            mistake = check_pattern(pattern)
            if mistake:
                raise ConfigError(mistake)
        return Layer(
            selection=Selection(
                select=overrides.select and tuple(map(check_selector, overrides.select)),
                extend_select=tuple(map(check_selector, overrides.extend_select)),
                ignore=tuple(map(check_selector, overrides.ignore)),
            ),
            profile=overrides.profile and check_profile(overrides.profile),
            exclude=overrides.exclude,
            extend_exclude=overrides.extend_exclude,
            show_notes=overrides.show_notes,
            respect_gitignore=overrides.respect_gitignore,
            max_file_size=overrides.max_file_size,
            baseline=overrides.baseline,
        )
    except ConfigError as error:
        raise ConfigError(f"command line: {error.message}") from error


def _settings(base: Layer, top: Layer, root: Path, source: Path | None) -> Settings:
    exclude = top.exclude if top.exclude is not None else base.exclude
    if exclude is None:
        exclude = DEFAULT_EXCLUDE
    return Settings(
        root=root,
        source=source,
        profile=top.profile or base.profile or "recommended",
        enabled=enabled_codes((base.selection, top.selection)),
        per_file_ignores=base.per_file_ignores,
        # A profile on the command line is for every file.
        per_file_profiles=() if top.profile else base.per_file_profiles,
        exclude=(*exclude, *base.extend_exclude, *top.extend_exclude),
        respect_gitignore=_first(top.respect_gitignore, base.respect_gitignore, default=True),
        max_file_size=top.max_file_size or base.max_file_size,
        show_notes=_first(top.show_notes, base.show_notes, default=False),
        simulator=base.simulator,
        kernel_builders=base.kernel_builders,
        baseline=_baseline(top.baseline, base.baseline, root),
    )


def _baseline(named: str | None, configured: str | None, root: Path) -> Path | None:
    if named is not None:
        return Path(os.path.abspath(named)) if named else None  # noqa: PTH100
    return Path(os.path.normpath(root / configured)) if configured else None


def _first(*values: bool | None, default: bool) -> bool:
    return next((value for value in values if value is not None), default)
