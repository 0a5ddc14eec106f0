"""Fixing the files of a run: which fixes count, round by round, then to disk."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.engine.budget import Exceeded
from embercoach.engine.file_discovery import SourceFile
from embercoach.engine.inspection import Inspector, digest_of
from embercoach.engine.verdict import Judge
from embercoach.engine.workers import Crash, spread
from embercoach.files import read_bytes
from embercoach.finding import Finding, Fix, Problem
from embercoach.fixes.application import BrokenSourceError, settle
from embercoach.fixes.source_file import DecodingError, SourceText, decode, encode
from embercoach.fixes.writing import distinct, replace_file
from embercoach.notebooks import is_notebook
from embercoach.plugins.loading import with_plugins

if TYPE_CHECKING:
    from embercoach.config import Settings
    from embercoach.engine.check_run import RunResult

#: A fix in one file may open a fix in another: how often to look again.
PASSES = 5


class FixedFile(Struct, frozen=True):
    """A fixed file; ``before`` is the digest of the bytes that were read."""

    shown: str
    before: str
    old: str
    new: str
    data: bytes
    applied: int
    trouble: str | None


class FixSummary(Struct, frozen=True):
    """The number of fixes and files, and the problems."""

    fixes: int = 0
    files: int = 0
    problems: tuple[Problem, ...] = ()


def _unfixed(shown: str, trouble: str) -> FixedFile:
    return FixedFile(shown, "", "", "", b"", 0, trouble)


def applicable(finding: Finding, settings: Settings, *, unsafe: bool) -> bool:
    """Return whether ``--fix`` applies a finding's fix; only listed findings are fixed."""
    listed = finding.severity != "note" or settings.show_notes
    return finding.is_fixed_safely or (unsafe and listed and finding.fix is not None)


class Fixer:
    """Fixes files without writing them; one a process."""

    def __init__(
        self,
        settings: Settings,
        *,
        unsafe: bool,
        debug: bool,
        inspector: Inspector | None = None,
    ) -> None:
        """Make one for some settings.

        Args:
            settings: of the run.
            unsafe: also apply fixes that may change what the program computes.
            debug: add tracebacks of internal errors.
            inspector: to use; None for a new one.
        """
        self._settings = settings
        self._debug = debug
        self._unsafe = unsafe
        self._judge = Judge(settings)
        self._inspector = inspector or Inspector(debug=debug)

    def __call__(self, task: tuple[str, bytes | None]) -> FixedFile:
        """Fix a file by its path as shown, from the bytes given or those on disk."""
        shown, data = task
        try:
            return self._fixed(shown, data)
        except (OSError, DecodingError, BrokenSourceError) as error:
            return _unfixed(shown, f"cannot be fixed: {error}")
        except Exception as error:  # noqa: BLE001  (a fix's bug must not end the run)
            details = f"\n{traceback.format_exc()}" if self._debug else ""
            kind = type(error).__name__
            return _unfixed(shown, f"internal error while fixing: {kind}: {error}{details}")

    def _fixed(self, shown: str, data: bytes | None) -> FixedFile:
        file = SourceFile(Path(os.path.abspath(shown)), shown)  # noqa: PTH100
        if data is None:
            data = read_bytes(file.path)
        source = decode(data)
        proposals = partial(self._proposals, file, source)
        settled = settle(source.text, proposals, source.newline)
        new = encode(settled.text, source)
        applied = len(settled.applied)
        trouble = settled.trouble
        return FixedFile(shown, digest_of(data), source.text, settled.text, new, applied, trouble)

    def _proposals(self, file: SourceFile, source: SourceText, text: str) -> list[Fix]:
        try:
            data = encode(text, source)
        except UnicodeEncodeError as error:
            raise BrokenSourceError(f"{source.encoding} cannot hold it: {error}") from error
        settings = self._settings
        inspection = self._inspector.inspect(
            data, file.path, settings.kernel_builders, settings.max_file_size
        )
        if inspection.problem is not None:
            raise BrokenSourceError(inspection.problem.message)
        found = self._judge.judge(file.path, file.shown, inspection).findings
        applied = [one for one in found if applicable(one, settings, unsafe=self._unsafe)]
        fixes = [finding.fix for finding in applied if finding.fix]
        return _in_file(fixes, text) if is_notebook(file.path.name) else fixes


def _in_file(fixes: Iterable[Fix], text: str) -> list[Fix]:
    """Fixes of a notebook's module as those of its file."""
    from embercoach.notebooks.cell_module import parse
    from embercoach.notebooks.editing import fixes_in_file

    notebook = parse(text)
    return [] if notebook is None else fixes_in_file(fixes, notebook)


def troubles(files: Iterable[FixedFile]) -> tuple[Problem, ...]:
    """Return the problems that prevented fixes."""
    return tuple(Problem(file.shown, 1, 1, file.trouble) for file in files if file.trouble)


def fix_once(
    result: RunResult,
    settings: Settings,
    *,
    unsafe: bool,
    jobs: int | None,
    debug: bool,
    stdin: tuple[str, bytes] | None = None,
) -> list[FixedFile]:
    """Fix the files in which a run found something to fix, without writing them."""
    shown = sorted({f.path for f in result.findings if applicable(f, settings, unsafe=unsafe)})
    if stdin is None:
        shown = distinct(shown)
    tasks = [(path, stdin[1] if stdin else None) for path in shown]
    sizes = [len(stdin[1]) if stdin else _size(path) for path in shown]
    make = with_plugins(partial(Fixer, settings, unsafe=unsafe, debug=debug))
    fixed: list[FixedFile] = []
    for number, outcome in spread(make, tasks, sizes, [Path(path).parent for path in shown], jobs):
        if isinstance(outcome, Crash):
            fixed.append(_unfixed(shown[number], f"internal error while fixing: {outcome}"))
        elif isinstance(outcome, Exceeded):
            fixed.append(_unfixed(shown[number], str(outcome)))
        else:
            fixed.append(outcome)
    return sorted(fixed, key=lambda file: file.shown)


def fix_files(
    result: RunResult,
    settings: Settings,
    check: Callable[[], RunResult],
    *,
    unsafe: bool,
    jobs: int | None,
    debug: bool,
) -> tuple[RunResult, FixSummary]:
    """Fix the files of a run on disk, until a run finds nothing more to fix.

    Args:
        result: of the run that found what to fix.
        settings: of that run.
        check: runs it again.
        unsafe: also apply fixes that may change what the program computes.
        jobs: processes at most.
        debug: add tracebacks of internal errors.

    Returns:
        The last run's result, and what was done.
    """
    fixes = 0
    files: set[str] = set()
    problems: set[Problem] = set()
    for _ in range(PASSES):
        changed = False
        for fixed in fix_once(result, settings, unsafe=unsafe, jobs=jobs, debug=debug):
            trouble = fixed.trouble
            if fixed.applied:
                failure = _write(fixed)
                if failure is None:
                    fixes += fixed.applied
                    files.add(fixed.shown)
                    changed = True
                trouble = failure or trouble
            if trouble:
                problems.add(Problem(fixed.shown, 1, 1, trouble))
        if not changed:
            break
        result = check()
    return result, FixSummary(
        fixes, len(files), tuple(sorted(problems, key=lambda problem: problem.sort_key))
    )


def _write(fixed: FixedFile) -> str | None:
    """Write a fixed file; return the error, if any."""
    path = Path(fixed.shown)
    try:
        if digest_of(read_bytes(path)) != fixed.before:
            return "changed while it was being fixed, so it was not written"
        replace_file(path, fixed.data)
    except OSError as error:
        return f"cannot be written: {error.strerror or error}"
    return None


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
