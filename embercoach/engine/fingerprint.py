"""The fingerprint of the program, on which cached results depend."""

from __future__ import annotations

import os
import sys
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.rulebook import pages_directory

if TYPE_CHECKING:
    from embercoach.kernel_builder import KernelBuilder

#: Raised when what the cache stores changes its meaning.
FORMAT = 3
#: Packages and modules that decide on findings.
DECISIVE = (
    "analysis",
    "checks",
    "metal",
    "plugins",
    "api.py",
    "finding.py",
    "kernel_builder.py",
    "project_files.py",
    "quoting.py",
    "safe_read.py",
    "fixes/source_file.py",
    "engine",
    "notebooks",
)
PARSERS = ("libcst", "tree_sitter", "tree_sitter_cpp")


@cache
def program() -> str:
    """A digest of the deciding modules' and the rule pages' contents: the same on every machine.

    Contents and not times: installers and archives set times to what they like.
    """
    digest = blake2b(digest_size=12)
    package = Path(__file__).resolve().parent.parent
    for name in DECISIVE:
        place = package / name
        for file in _files(str(place)) if place.is_dir() else [str(place)]:
            digest.update(file[len(str(package)) :].encode())
            digest.update(Path(file).read_bytes())
    for file in _files(str(pages_directory())):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()


@cache
def fingerprint(
    builders: tuple[KernelBuilder, ...] = (), plugin_digests: tuple[str, ...] = ()
) -> str:
    """A digest of the program, of the plugins, of the parsers and of this Python.

    Also of the setting that decides on findings and not only on their selection: ``builders``.
    """
    digest = blake2b(digest_size=12)
    digest.update(f"{FORMAT} {sys.version_info[:3]} {sys.implementation.name}".encode())
    digest.update(program().encode())
    if builders:
        digest.update(repr(builders).encode())
    if plugin_digests:
        digest.update(repr(plugin_digests).encode())
    for name in PARSERS:
        spec = find_spec(name)
        if spec is not None and spec.origin:
            stat = Path(spec.origin).stat()
            digest.update(f"{spec.origin} {stat.st_mtime_ns} {stat.st_size}".encode())
    return digest.hexdigest()


def _files(folder: str) -> list[str]:
    found = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                found += _files(entry.path)
        elif not entry.name.endswith(".pyc"):
            found.append(entry.path)
    return found
