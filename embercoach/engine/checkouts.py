"""A run over several checkouts: one pool of processes, a result for each; or a shard of it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.config.checkouts import Checkouts
from embercoach.engine.run import RunResult, check, joined, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from embercoach.config.load import Scope
    from embercoach.engine.files import SourceFile
    from embercoach.engine.shard import Shard


@dataclass(frozen=True, slots=True)
class Checked:
    """What a run found in one checkout.

    Attributes:
        checkout: its top, absolute.
        shown: its top as the user named it.
        scope: the number of the scope that holds for it.
        result: of its files, those of the shard where there is one.
        files: how many that are; and all files, other shards' too.
    """

    checkout: Path
    shown: str
    scope: int
    result: RunResult
    files: int
    all_files: int


class Division:
    """Which checkout, and which shard, each file is in."""

    def __init__(self, scopes: Sequence[Scope], shard: Shard | None = None) -> None:
        """Look at the paths of some scopes."""
        self._shard = shard
        checkouts = Checkouts()
        #: The scope's number and the paths, by checkout.
        self.paths: dict[Path, tuple[int, list[str]]] = {}
        self._given: dict[str, Path] = {}
        self._divided: set[str] = set()
        for number, scope in enumerate(scopes):
            for path in scope.paths:
                checkout = checkouts.of(path)
                self.paths.setdefault(checkout, (number, []))[1].append(path)
                self._given[os.path.abspath(path)] = checkout  # noqa: PTH100

    def checkout(self, place: str) -> Path | None:
        """The innermost checkout of the paths that a file, given as an absolute path, lies in."""
        found: Path | None = None
        while True:
            checkout = self._given.get(place)
            if checkout is not None and (found is None or len(checkout.parts) > len(found.parts)):
                found = checkout
            above = os.path.dirname(place)  # noqa: PTH120  (hot)
            if above == place:
                return found
            place = above

    def parted(
        self, found: Iterable[Sequence[SourceFile]]
    ) -> list[tuple[list[SourceFile], list[SourceFile]]]:
        """Of the files found for the paths of each checkout, its own, and those in the shard.

        A folder goes to a shard whole, as its files import each other and others in common, unless
        it is so large that the shards would differ much.
        """
        own = [
            [file for file in files if self._is_in(str(file.path), checkout)]
            for checkout, files in zip(self.paths, found, strict=True)
        ]
        if self._shard is None:
            return [(files, files) for files in own]
        folders = Counter(str(file.path.parent) for files in own for file in files)
        most = self._shard.most(sum(folders.values()))
        self._divided = {folder for folder, files in folders.items() if files > most}
        return [(files, [f for f in files if self.in_shard(str(f.path))]) for files in own]

    def in_shard(self, place: str) -> bool:
        """Whether a file of any checkout is in the shard; it need not be there any more."""
        checkout = self.checkout(place)
        if checkout is None or self._shard is None:
            return checkout is not None
        folder = os.path.dirname(place)  # noqa: PTH120  (hot)
        unit = place if folder in self._divided else folder
        # Where checkouts lie differs between machines; what their folders are called does less.
        inside = os.path.relpath(unit, checkout).replace(os.sep, "/")
        return self._shard.holds(f"{checkout.name}/{inside}")

    def _is_in(self, place: str, checkout: Path) -> bool:
        return len(self.paths) == 1 or self.checkout(place) == checkout


def run_together(
    scopes: Sequence[Scope],
    division: Division,
    *,
    jobs: int | None = None,
    cache: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
    force_exclude: bool = False,
    debug: bool = False,
) -> tuple[Checked, ...]:
    """Check the paths of all scopes at once; the other arguments are those of ``run``.

    A file that lies in the paths of two checkouts is the inner one's, as are its settings.
    """
    given = [(scopes[number].settings, paths) for number, paths in division.paths.values()]
    parts = prepare(given, cache=cache, force_exclude=force_exclude)
    parted = division.parted([[file for file, _ in part.files] for part in parts])
    for part, (_, files) in zip(parts, parted, strict=True):
        part.files = [(file, None) for file in files]
    check(parts, jobs=jobs, on_progress=on_progress, debug=debug)
    return tuple(
        Checked(
            checkout,
            _shown(checkout, paths[0]),
            number,
            part.tally.result(),
            len(part.files),
            len(own),
        )
        for (checkout, (number, paths)), part, (own, _) in zip(
            division.paths.items(), parts, parted, strict=True
        )
    )


def _shown(checkout: Path, path: str) -> str:
    return str(checkout) if Path(path).is_absolute() else os.path.relpath(checkout)


def by_scope(checked: Sequence[Checked], scopes: Sequence[Scope]) -> list[RunResult]:
    """The results of each scope's checkouts as one."""
    results: list[list[RunResult]] = [[] for _ in scopes]
    for one in checked:
        results[one.scope].append(one.result)
    return [joined(group) for group in results]
