"""A run: from paths and settings to findings."""

from __future__ import annotations

import gc
import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.engine.cache import Cache, States
from embercoach.engine.directives import Directive
from embercoach.engine.files import SourceFile, discover
from embercoach.engine.fingerprint import fingerprint
from embercoach.engine.inspection import Inspection, Inspector, digest_of
from embercoach.engine.languages import language_of, relevant
from embercoach.engine.problem import Problem
from embercoach.engine.verdict import Judge
from embercoach.rulebook import RulePageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from embercoach.config import Settings
    from embercoach.finding import Finding


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run found. Suppressed findings are counted, not listed.

    Attributes:
        findings: sorted by place; notes among them.
        problems: what could not be checked, sorted.
        files_checked: files that were analysed, now or from the cache, or failed to be.
        files_skipped: files that mention no MLX or Metal, or say ``embercoach: skip-file``.
        suppressed: findings that a comment suppresses.
        cached: of the checked files, those that came from the cache.
    """

    findings: tuple[Finding, ...] = ()
    problems: tuple[Problem, ...] = ()
    files_checked: int = 0
    files_skipped: int = 0
    suppressed: int = 0
    cached: int = 0

    def __add__(self, other: RunResult) -> RunResult:
        """Two runs' results as one."""
        return RunResult(
            tuple(sorted({*self.findings, *other.findings}, key=lambda f: f.sort_key)),
            tuple(sorted({*self.problems, *other.problems}, key=lambda p: p.sort_key)),
            self.files_checked + other.files_checked,
            self.files_skipped + other.files_skipped,
            self.suppressed + other.suppressed,
            self.cached + other.cached,
        )


class Tally:
    """A result in the making."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.findings: list[Finding] = []
        self.problems: list[Problem] = []
        self.checked = 0
        self.skipped = 0
        self.suppressed = 0
        self.cached = 0

    def add(self, file: SourceFile, inspection: Inspection) -> None:
        """Judge one file's inspection."""
        if inspection.kind == "skipped":
            self.skipped += 1
            return
        self.checked += 1
        content = inspection.content()
        if inspection.kind != "checked":
            line, column, message = content
            self.problems.append(Problem(file.shown, line, column, message))
            return
        found, directives = content
        try:
            verdict = self.judge.judge(
                file.path, file.shown, found, [Directive.from_tuple(d) for d in directives]
            )
        except (KeyError, RulePageError) as error:
            message = f"internal error: a rule's page is missing or wrong: {error}"
            self.problems.append(Problem(file.shown, 1, 1, message))
            return
        self.findings += verdict.findings
        self.suppressed += verdict.suppressed

    def result(self) -> RunResult:
        """All that was added, sorted."""
        self.findings.sort(key=lambda finding: finding.sort_key)
        return RunResult(
            tuple(self.findings),
            tuple(sorted(self.problems, key=lambda problem: problem.sort_key)),
            self.checked,
            self.skipped,
            self.suppressed,
            self.cached,
        )


def run(
    paths: Sequence[str],
    settings: Settings,
    *,
    jobs: int | None = None,
    cache: bool = True,
    stdin: tuple[str, bytes] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    force_exclude: bool = False,
    debug: bool = False,
) -> RunResult:
    """Check files.

    Args:
        paths: files and folders, as the user named them; findings show them so.
        settings: what to check and how loudly.
        jobs: processes at most; None decides by cores and work.
        cache: whether to read and write the project's cache.
        stdin: a file's name and bytes to check instead of ``paths``; the name decides on per-file
            settings and is where imports start.
        on_progress: called with the files done and the files in all.
        force_exclude: exclude even files that are named themselves.
        debug: add tracebacks to the messages of internal errors.
    """
    current = _Run(settings, cache and stdin is None, debug=debug, on_progress=on_progress)
    collecting = gc.isenabled()
    gc.disable()  # plain data without cycles, and much of it
    try:
        if stdin is not None:
            name, data = stdin
            file = SourceFile(Path(os.path.abspath(name)), name)  # noqa: PTH100
            current.check([(file, data)], jobs=1)
        else:
            found = discover(paths, settings, force_exclude=force_exclude)
            current.tally.problems += found.problems
            current.check([(file, None) for file in found.files], jobs)
    finally:
        if collecting:
            gc.enable()
    return current.tally.result()


class _Run:
    """The state of one run."""

    def __init__(
        self,
        settings: Settings,
        cache: bool,
        *,
        debug: bool,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        self._states = States(time.time_ns())
        self._cache = Cache(settings.root, fingerprint(settings.kernel_builders)) if cache else None
        known = self._cache.severities if self._cache is not None else None
        self.tally = Tally(Judge(settings, known))
        self._builders = settings.kernel_builders
        self._debug = debug
        self._on_progress = on_progress

    def check(self, files: Sequence[tuple[SourceFile, bytes | None]], jobs: int | None) -> None:
        """Check files, from the bytes given or those on disk."""
        known: list[tuple[SourceFile, str, int]] = []
        unknown: list[tuple[SourceFile, bytes | None, int]] = []
        for file, given in files:
            data = self._read(file) if given is None else given
            if data is None:
                continue
            if not relevant(data, language_of(file.path.name), self._builders):
                self.tally.skipped += 1
            elif self._cache is not None:
                digest = digest_of(data)
                self._states.learn(str(file.path), digest)
                known.append((file, digest, len(data)))
            else:
                unknown.append((file, given, len(data)))
        unknown += self._check_cached(known)
        self._check_now(unknown, len(files), jobs)

    def _read(self, file: SourceFile) -> bytes | None:
        try:
            with open(file.path, "rb", buffering=0) as stream:  # noqa: PTH123  (hot)
                return stream.read()
        except OSError as error:
            message = f"cannot be read: {error.strerror or error}"
            self.tally.problems.append(Problem(file.shown, 1, 1, message))
            return None

    def _check_cached(
        self, files: list[tuple[SourceFile, str, int]]
    ) -> list[tuple[SourceFile, None, int]]:
        """Use what the cache has; return the others."""
        assert self._cache is not None or not files
        missing: list[tuple[SourceFile, None, int]] = []
        for file, digest, size in files:
            inspection = self._cache and self._cache.get(str(file.path), digest, self._states)
            if inspection:
                self.tally.add(file, inspection)
                self.tally.cached += inspection.kind != "skipped"
            else:
                missing.append((file, None, size))
        return missing

    def _check_now(
        self, files: list[tuple[SourceFile, bytes | None, int]], total: int, jobs: int | None
    ) -> None:
        if not files:
            self._save()
            return
        try:
            self._spread(files, total, jobs)
        finally:
            self._save()  # what is done is kept, even if the user has had enough

    def _spread(
        self, files: list[tuple[SourceFile, bytes | None, int]], total: int, jobs: int | None
    ) -> None:
        import embercoach.checks  # noqa: F401  (before processes fork, so that they share it)
        from embercoach.engine.workers import Crash, spread

        tasks = [(str(file.path), data) for file, data, _ in files]
        sizes = [size for _, _, size in files]
        done = total - len(files)
        folders = [file.path.parent for file, _, _ in files]
        make = partial(Inspector, self._builders, debug=self._debug)
        for number, result in spread(make, tasks, sizes, folders, jobs):
            file = files[number][0]
            if isinstance(result, Crash):
                message = f"internal error while checking: {result}"
                self.tally.problems.append(Problem(file.shown, 1, 1, message))
            else:
                self._keep(file, result)
            done += 1
            if self._on_progress is not None:
                self._on_progress(done, total)

    def _save(self) -> None:
        if self._cache is not None:
            self._cache.save()

    def _keep(self, file: SourceFile, inspection: Inspection) -> None:
        if self._cache is not None and inspection.kind != "failed":
            self._cache.put(str(file.path), inspection, self._states)
        self.tally.add(file, inspection)
