"""Fetch and unpack the pinned packages that the accuracy labels talk about.

Run as a program, it fetches all of them: ``python -m tests.accuracy.corpus``.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CACHE = Path(__file__).resolve().parents[2] / ".embercoach_corpus"
LABELS = Path(__file__).with_name("labels.json")
LEFT_OUT = frozenset({"build"})  # mlx-whisper's wheel ships nested copies of itself there


class CorpusError(RuntimeError):
    """A package could not be fetched, or holds no Python files."""


def package_root(name: str, version: str, dist: str, cache: Path = CACHE) -> Path:
    """Return the folder of an unpacked package, fetched with pip on first use.

    `dist` is `wheel` or `sdist`; for an sdist the archive's single top folder is dropped.
    """
    root = cache / f"{name}-{version}-{dist}"
    if not (root / ".complete").exists():
        archive = _download(name, version, dist, cache)
        count = _unpack(archive, root, drop_top=dist == "sdist")
        if not count:
            raise CorpusError(f"{archive.name} holds no Python files")
        (root / ".complete").touch()
    return root


def corpus_roots(packages: Mapping[str, Mapping[str, str]], cache: Path = CACHE) -> dict[str, Path]:
    """Return each package's unpacked folder, by package name."""
    return {
        name: package_root(name, pin["version"], pin["dist"], cache)
        for name, pin in packages.items()
    }


def _download(name: str, version: str, dist: str, cache: Path) -> Path:
    cache.mkdir(parents=True, exist_ok=True)
    ignore = cache / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    choice = ["--no-binary" if dist == "sdist" else "--only-binary", name]
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *choice]
        command += ["--dest", folder, f"{name}=={version}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        archives = list(Path(folder).iterdir())
        if done.returncode or len(archives) != 1:
            raise CorpusError(f"pip could not fetch {name} {version} ({dist}):\n{done.stderr}")
        kept = cache / archives[0].name
        archives[0].replace(kept)
    return kept


def _unpack(archive: Path, root: Path, *, drop_top: bool) -> int:
    count = 0
    for member, content in _python_members(archive):
        parts = PurePosixPath(member).parts[1 if drop_top else 0 :]
        if not parts or ".." in parts or LEFT_OUT & set(parts):
            continue
        target = root.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        count += 1
    return count


def _python_members(archive: Path) -> Iterator[tuple[str, bytes]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                if name.endswith(".py"):
                    yield name, packed.read(name)
        return
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as packed:
        for info in packed.getmembers():
            if info.isfile() and info.name.endswith(".py"):
                stream = packed.extractfile(info)
                assert stream is not None
                yield info.name, stream.read()


if __name__ == "__main__":
    corpus_roots(json.loads(LABELS.read_text(encoding="utf-8"))["packages"])
