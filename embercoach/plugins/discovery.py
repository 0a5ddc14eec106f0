"""Find the entry points of plugins in the environment's ``site-packages``, or in given folders.

``importlib.metadata.entry_points`` also looks into the current folder, where ``python -m`` puts it
on ``sys.path``: a linted tree could name a plugin. It also takes 50 ms to import and to run. Here
a file that names the group is looked for first, which takes 1 ms for 130 packages.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.files import read_bytes

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "embercoach.rules"
_MARK = GROUP.encode()
#: Bytes of a file with entry points at most; a larger one is not read.
_MOST_READ = 1_000_000


class PluginError(Exception):
    """A plugin that cannot be used: names it, and says why."""


def plugin_error(name: str, problem: str) -> PluginError:
    """Return the error of a plugin, with what helps."""
    return PluginError(f"plugin {name}: {problem} (--no-plugins loads none)")


class FoundPlugin(Struct, frozen=True):
    """An entry point of an installed distribution.

    Attributes:
        name: of the distribution.
        version: of the distribution.
        entry_point: names the ``RuleSet``.
    """

    name: str
    version: str
    entry_point: EntryPoint


def site_folders() -> list[str]:
    """The ``site-packages`` folders that this interpreter imports from, in the order of its path.

    Not other entries of ``sys.path``: the current folder and ``PYTHONPATH`` may be linted.
    """
    folders = set(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        folders.add(site.getusersitepackages())
    return [entry for entry in dict.fromkeys(sys.path) if entry in folders]


def find(folders: Iterable[str]) -> Iterator[FoundPlugin]:
    """Yield the plugins in folders with installed packages; of a distribution, the first one.

    Raises:
        PluginError: the metadata of one is malformed.
    """
    seen: set[str] = set()
    for folder in folders:
        for info in _infos(folder):
            distribution = os.path.basename(info).partition("-")[0].lower()  # noqa: PTH119
            if distribution not in seen:
                yield from _entry_points(info)
                seen.add(distribution)


def _infos(folder: str) -> list[str]:
    """Return the ``.dist-info`` folders whose entry points name the group, sorted."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".dist-info")]  # noqa: PTH208
    except OSError:
        return []
    return [os.path.join(folder, name) for name in sorted(names) if _names_group(folder, name)]  # noqa: PTH118


def _names_group(folder: str, name: str) -> bool:
    try:
        return _MARK in read_bytes(f"{folder}/{name}/entry_points.txt", limit=_MOST_READ)
    except OSError:
        return False


def _entry_points(info: str) -> Iterator[FoundPlugin]:
    from importlib.metadata import Distribution
    from pathlib import Path

    distribution = Distribution.at(Path(info))
    try:
        points = [point for point in distribution.entry_points if point.group == GROUP]
        name, version = distribution.metadata["Name"], distribution.version
        if not name or not version:
            raise ValueError("it lacks the name or the version")
    # The parsers of `importlib.metadata` raise what they come across.
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise plugin_error(Path(info).name, f"malformed metadata: {error}") from error
    for point in points:
        yield FoundPlugin(name, version, point)
