"""Settings for several checkouts, of which some may have a configuration that is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.config.errors import ConfigError
from embercoach.config.load import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from embercoach.config.load import Overrides, Scope


def load_several(
    paths: Sequence[str],
    overrides: Overrides | None = None,
    *,
    config: Path | None = None,
    isolated: bool = False,
) -> tuple[tuple[Scope, ...], tuple[ConfigError, ...]]:
    """What ``load`` gives for the paths whose configuration is right, and what is wrong elsewhere.

    Raises:
        ConfigError: no path has a configuration that is right, or the command line is wrong.
    """
    try:
        return load(paths, overrides, config=config, isolated=isolated), ()
    except ConfigError as error:
        if len(paths) == 1 or config is not None or error.path is None:
            raise
        first = error
    wrong = {path: _mistake(path, overrides) for path in paths}
    right = [path for path in paths if wrong[path] is None]
    if not right:
        raise first
    # Paths may share a configuration file.
    mistakes = {str(error): error for error in wrong.values() if error is not None}
    return load(right, overrides), tuple(mistakes.values())


def _mistake(path: str, overrides: Overrides | None) -> ConfigError | None:
    try:
        load((path,), overrides)
    except ConfigError as error:
        return error
    return None
