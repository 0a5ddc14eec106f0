"""A run: from paths and settings to findings."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from embercoach.config import Configurations, Settings
from embercoach.engine.budget import size_problem
from embercoach.engine.cache import Cache, States, fingerprint
from embercoach.engine.file_discovery import SourceFile, discover
from embercoach.engine.inspection import Inspection, Inspector, digest_of
from embercoach.engine.languages import METAL, NOTEBOOK, language_of, relevant
from embercoach.engine.verdict import Judge
from embercoach.files import is_inside, read_bytes, relative_path
from embercoach.finding import Finding, Problem
from embercoach.plugins.loading import loaded, with_plugins
from embercoach.rulebook import RulePageError

if TYPE_CHECKING:
    from embercoach.kernel_builder import KernelBuilder


class RunResult(Struct, frozen=True):
    """The result of a run. Suppressed findings are counted, not listed.

    Attributes:
        findings: sorted by place, notes included.
        problems: what could not be checked, sorted.
        files_checked: files that were analysed, cached ones included.
        files_skipped: files that mention no MLX or Metal, or say ``embercoach: skip-file``.
        suppressed: findings that a comment suppresses.
        cached: of the files that were not skipped, those whose result came from the cache.
    """

    findings: tuple[Finding, ...] = ()
    problems: tuple[Problem, ...] = ()
    files_checked: int = 0
    files_skipped: int = 0
    suppressed: int = 0
    cached: int = 0


def joined(results: Iterable[RunResult]) -> RunResult:
    """Return the results as one, sorted; a finding of several results is in it once.

    So is one in a kernel's body that several files read, which the second line of the help names.
    """
    results = tuple(results)
    found = {finding for result in results for finding in result.findings}
    findings = {
        one if "\n" not in one.help else replace(one, help=one.help.partition("\n")[0]): one
        for one in sorted(found, key=attrgetter("sort_key", "help"), reverse=True)
    }.values()
    problems = {problem for result in results for problem in result.problems}
    return RunResult(
        tuple(sorted(findings, key=attrgetter("sort_key"))),
        tuple(sorted(problems, key=attrgetter("sort_key"))),
        sum(result.files_checked for result in results),
        sum(result.files_skipped for result in results),
        sum(result.suppressed for result in results),
        sum(result.cached for result in results),
    )


def reported(
    judge: Judge, file: SourceFile, inspection: Inspection, root: Path | None = None
) -> RunResult:
    """Return the result of one file, unsorted.

    Findings in a file that it reads are placed there if that is in the folder ``root``.
    """
    bodies = {str(body.path): body.shown for body in file.bodies}
    if bodies and bodies.keys().isdisjoint(inspection.dependencies):
        return RunResult()
    if inspection.kind == "skipped":
        return RunResult(files_skipped=1)
    problems: tuple[Problem, ...] = ()
    if inspection.problem is not None:
        is_unchecked = inspection.kind != "checked"
        problems = (replace(inspection.problem, path=file.shown, is_unchecked=is_unchecked),)
    if inspection.kind != "checked":
        return RunResult(problems=problems)
    try:
        findings, suppressed = judge.judge(file.path, file.shown, inspection)
    except (KeyError, RulePageError) as error:
        message = f"internal error: the page of a rule is missing or invalid: {error}"
        return RunResult(problems=(*problems, Problem(file.shown, 1, 1, message)))
    if inspection.cells is not None:
        from embercoach.engine.inspection import placed

        findings = placed(findings, inspection.cells)
    if file.bodies:
        findings = [one for one in findings if one.within and one.within.path in bodies]
    placed_within = tuple([_within(one, file, root, bodies) for one in findings])
    return RunResult(placed_within, problems, files_checked=1, suppressed=suppressed)


def _within(
    finding: Finding, file: SourceFile, root: Path | None, bodies: Mapping[str, str]
) -> Finding:
    """Return a finding at its line of the file that the checked one reads, or naming that."""
    within = finding.within
    if within is None:
        return finding
    path = relative_path(within.path, file.path.parent)
    takes_comments = language_of(within.path) == METAL
    if root is None or not takes_comments or not is_inside(within.path, str(root)):
        message = f"{Path(path).as_posix()}:{within.line}: {finding.message}"
        return replace(finding, message=message, within=None)
    return replace(
        finding,
        path=bodies.get(within.path) or os.path.normpath(Path(file.shown).parent / path),
        line=within.line,
        column=within.column,
        end_line=within.end_line,
        end_column=within.end_column,
        help=f"{finding.help}\n{file.shown}:{finding.line} reads this file",
        flow=(),
        related=within.related,
        within=None,
    )


def run(
    paths: Sequence[str],
    settings: Settings,
    *,
    jobs: int | None = None,
    cache: bool = True,
    stdin: tuple[str, bytes] | None = None,
    debug: bool = False,
) -> RunResult:
    """Check files.

    Args:
        paths: files and folders, as the user named them; findings show them so.
        settings: what to check and how loudly, for all files; configurations are not read.
        jobs: processes at most; None decides by cores and work.
        cache: whether to read and write the project's cache.
        stdin: a file's name and bytes to check instead of ``paths``; the name decides on per-file
            settings and is where imports start.
        debug: add tracebacks to the messages of internal errors.
    """
    if stdin is None:
        found = discover(paths, Configurations.fixed(settings))
        (part,) = prepare([(settings, [file for file, _ in found.files])], cache=cache)
        part.results.append(RunResult(problems=tuple(found.problems)))
    else:
        name, data = stdin
        file = SourceFile(Path(os.path.abspath(name)), name)  # noqa: PTH100
        part = RunPart(settings, None, [(file, data)])
        jobs = 1
    check([part], jobs=jobs, debug=debug)
    return joined(part.results)


def prepare(
    groups: Iterable[tuple[Settings, Iterable[SourceFile]]], *, cache: bool = True
) -> list[RunPart]:
    """Return a part of a run for each group of files with the same settings; parts share caches."""
    states: States | None = None
    caches: dict[tuple[Path, tuple[KernelBuilder, ...]], Cache] = {}
    parts = []
    for settings, files in groups:
        key = (settings.root, settings.kernel_builders)
        if cache and key not in caches:
            states = states or States(time.time_ns())
            digests = tuple(plugin.digest for plugin in loaded())
            program = fingerprint(settings.kernel_builders, digests)
            caches[key] = Cache(settings.root, program, states)
        parts.append(RunPart(settings, caches.get(key), [(file, None) for file in files]))
    return parts


def check(
    parts: Sequence[RunPart],
    *,
    jobs: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    debug: bool = False,
) -> None:
    """Check the files of all parts in one pool of processes.

    The arguments are those of ``run``; ``on_progress`` is called with the files done and in all.
    """
    collecting = gc.isenabled()
    gc.disable()  # plain data without cycles, and much of it
    try:
        tasks = [(part, *task) for part in parts for task in part.begin()]
        total = sum(len(part.files) for part in parts)
        try:
            if tasks:
                _spread(tasks, total, jobs, on_progress, debug=debug)
        finally:
            read = frozenset().union(*(part.read for part in parts))
            for part in parts:
                part.count_bodies(read)
            # What is done is kept, even if the user has had enough.
            for cache in {id(part.cache): part.cache for part in parts if part.cache}.values():
                cache.save()
    finally:
        if collecting:
            gc.enable()


def _spread(
    tasks: Sequence[tuple[RunPart, SourceFile, bytes | None, int]],
    total: int,
    jobs: int | None,
    on_progress: Callable[[int, int], None] | None,
    *,
    debug: bool,
) -> None:
    import embercoach.checks  # noqa: F401  (before processes fork, so that they share it)
    from embercoach.engine.budget import Exceeded
    from embercoach.engine.workers import Crash, spread

    work = [(str(file.path), data, part.builders, part.max_size) for part, file, data, _ in tasks]
    sizes = [size for _, _, _, size in tasks]
    folders = [file.path.parent for _, file, _, _ in tasks]
    done = total - len(tasks)
    make = with_plugins(partial(Inspector, debug=debug))
    for number, result in spread(make, work, sizes, folders, jobs):
        part, file, _, _ = tasks[number]
        if isinstance(result, Crash):
            part.fail(file, f"internal error while checking: {result}")
        elif isinstance(result, Exceeded):
            part.fail(file, str(result))
        else:
            part.keep(file, result)
        done += 1
        if on_progress is not None:
            on_progress(done, total)


class RunPart:
    """The files of a run that share settings, and their results."""

    def __init__(
        self,
        settings: Settings,
        cache: Cache | None,
        files: Sequence[tuple[SourceFile, bytes | None]],
    ) -> None:
        """Take files with their bytes, or None for what is on disk."""
        self.files = files
        self.builders = settings.kernel_builders
        self.max_size = settings.max_file_size
        self.cache = cache
        self.results: list[RunResult] = []
        #: Metal files that the files read, and those that are bodies of kernels.
        self.read: set[str] = set()
        self._bodies: list[str] = []
        self._root = settings.root
        self._judge = Judge(settings, None if cache is None else cache.severities)

    def begin(self) -> list[tuple[SourceFile, bytes | None, int]]:
        """Report the files that are skipped or cached; return the others with their sizes."""
        known: list[tuple[SourceFile, str, int]] = []
        unknown: list[tuple[SourceFile, bytes | None, int]] = []
        for file, given in self.files:
            data = self._read(file) if given is None else given
            if data is None:
                continue
            language = language_of(file.path.name)
            if not relevant(data, language, self.builders):
                if language == METAL:
                    self._bodies.append(str(file.path))
                else:
                    self.results.append(RunResult(files_skipped=not file.bodies))
            # The outputs of a notebook don't count, so that its size is known once it is parsed.
            elif language != NOTEBOOK and (
                message := size_problem(len(data), language, self.max_size)
            ):
                self.fail(file, message)
            elif self.cache is not None:
                digest = digest_of(data)
                self.cache.learn(str(file.path), digest)
                known.append((file, digest, len(data)))
            else:
                unknown.append((file, given, len(data)))
        if self.cache is not None:
            unknown += self._uncached(known, self.cache)
        return unknown

    def keep(self, file: SourceFile, inspection: Inspection) -> None:
        """Report an inspection, and cache it."""
        if self.cache is not None and inspection.is_repeatable:
            self.cache.put(str(file.path), inspection)
        self._report(file, inspection)

    def count_bodies(self, read: frozenset[str]) -> None:
        """Count bodies of kernels as checked if a file of the run reads them, else as skipped."""
        for body in self._bodies:
            is_read = body in read
            self.results.append(RunResult(files_checked=is_read, files_skipped=not is_read))

    def _report(self, file: SourceFile, inspection: Inspection, *, cached: int = 0) -> None:
        is_metal = language_of(file.path.name) == METAL
        if inspection.kind == "skipped" and is_metal:
            self._bodies.append(str(file.path))
            return
        self.read.update(one for one in inspection.dependencies if language_of(one) == METAL)
        result = reported(self._judge, file, inspection, self._root)
        self.results.append(replace(result, cached=cached and 1 - result.files_skipped))

    def fail(self, file: SourceFile, message: str) -> None:
        """Report that a file could not be checked."""
        problem = Problem(file.shown, 1, 1, message, is_unchecked=True)
        self.results.append(RunResult(problems=(problem,)))

    def _read(self, file: SourceFile) -> bytes | None:
        try:
            return read_bytes(file.path)
        except OSError as error:
            self.fail(file, f"cannot be read: {error.strerror or error}")
            return None

    def _uncached(
        self, files: list[tuple[SourceFile, str, int]], cache: Cache
    ) -> Iterator[tuple[SourceFile, None, int]]:
        """Report the files that the cache has; yield the others."""
        for file, digest, size in files:
            inspection = cache.get(str(file.path), digest)
            if inspection is None:
                yield file, None, size
            else:
                self._report(file, inspection, cached=1)
