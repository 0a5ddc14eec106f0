"""A run over checkouts and their configurations: one pool of processes; or a shard of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.config import ConfigError, Configurations
from embercoach.config.configuration_files import folder_of
from embercoach.engine.check_run import RunResult, check, joined, prepare
from embercoach.engine.file_discovery import Shard, SourceFile, discover
from embercoach.files import CHECKOUT_FOLDERS, OWN_FILE, PROJECT_FILES, relative_path, upward

if TYPE_CHECKING:
    from embercoach.config.load import ConfigurationScope
    from embercoach.finding import Problem

    Found = tuple[SourceFile, ConfigurationScope]


#: What stands at the top of a checkout.
MARKS = (*PROJECT_FILES, *CHECKOUT_FOLDERS, OWN_FILE)


class CheckoutDivision:
    """Which checkout, and which shard, each file is in."""

    def __init__(self, paths: Iterable[str], shard: Shard | None = None) -> None:
        """Look at the paths of a run."""
        self._shard = shard
        self._marked: dict[Path, bool] = {}
        #: The paths, by checkout.
        self.paths: dict[Path, list[str]] = {}
        self._given: dict[str, Path] = {}
        self._divided: set[str] = set()
        for path in paths:
            checkout = self._top(path)
            self.paths.setdefault(checkout, []).append(path)
            self._given[os.path.abspath(path)] = checkout  # noqa: PTH100

    @property
    def is_whole(self) -> bool:
        """Return whether other shards have no files."""
        return self._shard is None

    def _top(self, path: str) -> Path:
        """Return the nearest folder at or above a path that looks like a checkout's top, absolute.

        Where there is none it is the folder itself, so that unpacked packages count each by itself,
        and for a file the current folder if it lies there.
        """
        folder = folder_of(path)
        for candidate in (folder, *folder.parents):
            if self._is_marked(candidate):
                return candidate
        here = Path.cwd()
        is_file = Path(path).is_file()
        return here if is_file and folder.is_relative_to(here) else folder

    def _is_marked(self, folder: Path) -> bool:
        marked = self._marked.get(folder)
        if marked is None:
            marked = self._marked[folder] = any((folder / name).exists() for name in MARKS)
        return marked

    def checkout(self, place: str) -> Path | None:
        """The innermost checkout of the paths that a file, given as an absolute path, lies in."""
        found: Path | None = None
        for folder in upward(place):
            checkout = self._given.get(folder)
            if checkout is not None and (found is None or len(checkout.parts) > len(found.parts)):
                found = checkout
        return found

    def parted(self, found: Iterable[Sequence[Found]]) -> list[tuple[list[Found], list[Found]]]:
        """Of the files found for the paths of each checkout, its own, and those in the shard.

        A folder goes to a shard whole, as its files import each other and others in common, unless
        it is so large that the shards would differ much.
        """
        own = [
            [pair for pair in files if self._is_in(str(pair[0].path), checkout)]
            for checkout, files in zip(self.paths, found, strict=True)
        ]
        if self._shard is None:
            return [(files, files) for files in own]
        folders = Counter(str(file.path.parent) for files in own for file, _ in files)
        most = self._shard.most(sum(folders.values()))
        self._divided = {folder for folder, files in folders.items() if files > most}
        return [(files, [f for f in files if self.in_shard(str(f[0].path))]) for files in own]

    def in_shard(self, place: str) -> bool:
        """Return whether a file of any checkout is in the shard; it need not be there any more."""
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


class Plan:
    """The files of a run, each with its checkout and its configuration.

    Attributes:
        division: which checkout and shard each file is in.
        configurations: of all folders.
        given: the paths, by their configuration.
        scopes: the configurations of paths and of folders below them, those of the paths first.
        problems: by checkout, what could not be examined.
        dangling: links found in folders that lead nowhere.
        walked: the folders that were searched from, absolute.
        mistakes: in configurations, each once; the other files are checked nevertheless.
    """

    def __init__(
        self,
        paths: Sequence[str],
        configurations: Configurations,
        shard: Shard | None = None,
        *,
        force_exclude: bool = False,
    ) -> None:
        """Find the files.

        Raises:
            ConfigError: a mistake in a configuration, and no path has another one.
        """
        self.configurations = configurations
        self.given: dict[ConfigurationScope, list[str]] = {}
        mistakes: dict[str, ConfigError] = {}
        for path in paths:
            scope = configurations.found(path)
            if isinstance(scope, ConfigError):
                mistakes.setdefault(str(scope), scope)
            else:
                self.given.setdefault(scope, []).append(path)
        if mistakes and not self.given:
            raise next(iter(mistakes.values()))
        scopes = dict.fromkeys(self.given)
        self.division = CheckoutDivision(
            (path for given in self.given.values() for path in given), shard
        )
        found = [
            discover(given, configurations, force_exclude=force_exclude)
            for given in self.division.paths.values()
        ]
        #: By checkout: all files, and those in the shard.
        self._parted = self.division.parted([one.files for one in found])
        self.problems = tuple(tuple(one.problems) for one in found)
        self.dangling = tuple(sorted(path for one in found for path in one.dangling))
        for one in found:
            mistakes |= one.mistakes
            scopes |= one.scopes
        self.mistakes = tuple(mistakes.values())
        self.walked = frozenset(folder for one in found for folder in one.folders)
        self._groups: list[tuple[int, ConfigurationScope, list[SourceFile]]] = []
        for number, (_, files) in enumerate(self._parted):
            groups: dict[ConfigurationScope, list[SourceFile]] = {}
            for file, scope in files:
                groups.setdefault(scope, []).append(file)
            self._groups += [(number, scope, group) for scope, group in groups.items()]
        self.scopes = tuple(scopes)

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """The files that could not be examined."""
        return tuple(problem for some in self.problems for problem in some)

    def files(self, scope: ConfigurationScope | None = None) -> Iterator[SourceFile]:
        """Yield the files, or those that a configuration holds for, checkout by checkout."""
        for _, files in self._parted:
            yield from (file for file, own in files if scope in (None, own))

    def run(
        self,
        scopes: Collection[ConfigurationScope] | None = None,
        *,
        jobs: int | None = None,
        cache: bool = True,
        on_progress: Callable[[int, int], None] | None = None,
        debug: bool = False,
    ) -> CheckoutsOutcome:
        """Check the files, or those of some configurations; the others are as in `run.check`."""
        groups = [group for group in self._groups if scopes is None or group[1] in scopes]
        parts = prepare([(scope.settings, files) for _, scope, files in groups], cache=cache)
        check(parts, jobs=jobs, on_progress=on_progress, debug=debug)
        results = [
            (number, scope, part.results)
            for (number, scope, _), part in zip(groups, parts, strict=True)
        ]
        return CheckoutsOutcome(self, results)

    def files_of(self, number: int) -> tuple[str, int, int]:
        """Return a checkout as the user named it, its files in the shard, and all of its files."""
        checkout, paths = [*self.division.paths.items()][number]
        own, in_shard = self._parted[number]
        return _shown(checkout, paths[0]), len(in_shard), len(own)


class CheckoutsOutcome(Struct, frozen=True):
    """The results of a run.

    Attributes:
        plan: of the run.
        parts: the number of a checkout, a configuration, and the results of their files.
    """

    plan: Plan
    parts: list[tuple[int, ConfigurationScope, list[RunResult]]]

    @property
    def scopes(self) -> dict[ConfigurationScope, RunResult]:
        """The results of the files of each configuration that has some."""
        groups: dict[ConfigurationScope, list[RunResult]] = {}
        for _, scope, results in self.parts:
            groups.setdefault(scope, []).extend(results)
        return {scope: joined(results) for scope, results in groups.items()}

    @property
    def checkouts(self) -> Iterator[tuple[int, list[RunResult]]]:
        """The number of each checkout, and the results of its files."""
        for number in range(len(self.plan.division.paths)):
            yield number, [one for at, _, some in self.parts if at == number for one in some]

    def result(self, problems: Iterable[Problem] = ()) -> RunResult:
        """Return all results and these problems as one result."""
        found = RunResult(problems=(*problems, *self.plan.all_problems))
        return joined([found, *(one for _, _, some in self.parts for one in some)])


def _shown(checkout: Path, path: str) -> str:
    return str(checkout) if Path(path).is_absolute() else relative_path(checkout)
