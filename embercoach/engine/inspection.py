"""Inspect one file: from its bytes to the findings of the checks, in a notebook by cell."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from embercoach.analysis.work import WorkExceededError
from embercoach.engine.budget import size_problem
from embercoach.engine.languages import (
    METAL,
    NOTEBOOK,
    OBJECTIVE_C,
    language_of,
    may_hold_directives,
)
from embercoach.files import read_bytes, read_text
from embercoach.finding import Finding, PlacedError, Problem, Step
from embercoach.terminal_text import bounded

if TYPE_CHECKING:
    from embercoach.checks import Project
    from embercoach.engine.suppressions import Directive
    from embercoach.kernel_builder import KernelBuilder
    from embercoach.notebooks.cell_module import CellTable, Notebook

_WHOLE_FILE = ("ignore-file", "skip-file")


def fitted(findings: Iterable[Finding], notebook: Notebook) -> tuple[Finding, ...]:
    """Return findings without the fixes that can't be made in the notebook's file."""
    from embercoach.notebooks.editing import fix_in_file

    return tuple(
        finding
        if finding.fix is None or fix_in_file(finding.fix, notebook)
        else replace(finding, fix=None)
        for finding in findings
    )


def kept_within(directives: Iterable[Directive], table: CellTable) -> tuple[Directive, ...]:
    """Suppressions that end with their cell: one in its last line is not for the next cell."""
    return tuple(
        directive if directive.kind in _WHOLE_FILE else _kept_within(directive, table)
        for directive in directives
    )


def _kept_within(directive: Directive, table: CellTable) -> Directive:
    cell, _ = table.place(directive.line)
    spans = tuple(
        (low, high)
        for low, high in directive.spans
        if table.place(low)[0] == cell == table.place(high)[0]
    )
    return replace(directive, spans=spans)


def placed(findings: Iterable[Finding], table: CellTable) -> list[Finding]:
    """Return findings at lines of a notebook's module as findings at lines of its cells."""

    def in_cell(one: Finding | Step) -> Finding | Step:
        cell, line = table.place(one.line)
        end_line, end_column = table.end(one.line, one.end_line, one.end_column)
        return replace(one, cell=cell, line=line, end_line=end_line, end_column=end_column)

    return [finding.with_steps(in_cell) for finding in findings]


#: ``skipped`` by its own comment; ``checked``; ``broken`` source; a check ``failed``.
Kind = Literal["skipped", "checked", "broken", "failed"]


class Inspection(Struct, frozen=True):
    """The result of one file, independent of settings and of how its path is shown.

    Attributes:
        digest: of the file's bytes.
        dependencies: other files, present or absent, that the result depends on.
        findings: without path and severity; in a notebook at the lines of ``Notebook.source``.
        directives: the suppressions.
        cells: of a notebook.
        problem: why the file is not checked, or findings may be missing; without path.
        has_plugin_error: a check of a plugin raised, which may depend on more than the file.
    """

    kind: Kind
    digest: str
    dependencies: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    directives: tuple[Directive, ...] = ()
    cells: CellTable | None = None
    problem: Problem | None = None
    has_plugin_error: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Return whether another run certainly gives the same, so that it may be cached."""
        return self.kind != "failed" and not self.has_plugin_error


def digest_of(data: bytes) -> str:
    """Return the digest of a file's content, as in the cache."""
    return blake2b(data, digest_size=16).hexdigest()


#: A file's absolute path and its bytes, or None to read it; kernel builders; max-file-size.
Task = tuple[str, bytes | None, "tuple[KernelBuilder, ...]", float | None]


class Inspector:
    """Inspects files; one a process, as it keeps the parsed modules of the projects."""

    def __init__(self, *, debug: bool = False) -> None:
        """Set ``debug`` to add the traceback to the message of an internal error."""
        self._debug = debug
        self._projects: dict[tuple[KernelBuilder, ...], Project] = {}

    def __call__(self, task: Task) -> Inspection:
        """Inspect a file."""
        path, data, builders, max_size = task
        try:
            data = read_bytes(path) if data is None else data
        except OSError as error:
            return _problem("failed", "", f"cannot be read: {error.strerror or error}")
        return self.inspect(data, Path(path), builders, max_size)

    def project(self, builders: tuple[KernelBuilder, ...] = ()) -> Project:
        """Return the modules that are known so far of projects with these kernel builders."""
        if builders not in self._projects:
            from embercoach import checks

            self._projects[builders] = checks.Project(builders)
        return self._projects[builders]

    def refresh(self) -> None:
        """Read imported files again: they may have changed on disk."""
        for project in self._projects.values():
            project.refresh()

    def inspect(
        self,
        data: bytes,
        path: Path,
        builders: tuple[KernelBuilder, ...] = (),
        max_size: float | None = None,
    ) -> Inspection:
        """Check a file's bytes. Whatever a check raises becomes a ``failed`` inspection.

        Args:
            data: the bytes to check, which need not be those on disk.
            path: where the file is or would be, absolute; imports are resolved from there.
            builders: wrappers of ``mx.fast.metal_kernel`` in its project.
            max_size: the setting ``max-file-size``.
        """
        # Not at the top, here and below: a run from the cache alone needs none of it.
        from embercoach.fixes.source_file import decode

        digest = digest_of(data)
        try:
            text = decode(data).text
            with warnings.catch_warnings():
                # Python warns about escapes in the linted code while parsing it.
                warnings.simplefilter("ignore")
                return self._checked(data, text, digest, path, builders, max_size)
        except PlacedError as error:
            return _problem("broken", digest, error.message, error.line, error.column)
        except WorkExceededError as error:
            return _problem("failed", digest, f"analysis exceeded its budget: {error}")
        except Exception as error:  # noqa: BLE001  (a check's bug must not end the run)
            message = bounded(f"internal error while checking: {_describe(error)}")
            if self._debug:
                import traceback

                message = f"{message}\n{traceback.format_exc()}"
            else:
                message = f"{message} (please report it with the output of --debug)"
            return Inspection("failed", digest, problem=Problem("", 1, 1, message))

    def _checked(
        self,
        data: bytes,
        text: str,
        digest: str,
        path: Path,
        builders: tuple[KernelBuilder, ...],
        max_size: float | None,
    ) -> Inspection:
        language = language_of(path.name)
        notebook = None
        if language == NOTEBOOK:
            from embercoach.notebooks.cell_module import parse

            notebook = parse(text)
            if notebook is None:
                return Inspection("skipped", digest)
            text = notebook.source
        # Characters instead of bytes where the text was decoded: the difference is negligible.
        too_large = size_problem(len(text), language, max_size)
        if too_large is not None:
            return _problem("failed", digest, too_large)
        directives: tuple[Directive, ...] = ()
        if may_hold_directives(data):
            from embercoach.engine.suppressions import read_directives

            directives = read_directives(text, language)
        if any(directive.kind == "skip-file" for directive in directives):
            return Inspection("skipped", digest)
        from embercoach import checks

        try:
            if language == METAL:
                report = checks.check_metal(text)
            elif language == OBJECTIVE_C:
                report = checks.check_objective_c(text)
            else:
                report = checks.check_source(text, path, self.project(builders))
        except checks.SyntaxProblem as error:
            line, column, message = python_error(text) or (error.line, error.column, error.message)
            cell, line = (None, line) if notebook is None else notebook.table.place(line)
            return _problem("broken", digest, f"syntax error: {message}", line, column, cell)
        found = tuple([_judged_within(finding.bounded()) for finding in report.findings])
        if language == METAL and (directives or not found):
            from embercoach.analysis.syntax.parse import deep_recursion
            from embercoach.metal.program.written_facts import read_unit

            # A kernel's body is checked with the file that reads it.
            with deep_recursion():
                unit = read_unit(text)
                elsewhere = unit.is_fragment
            if elsewhere and unit.parse_ok and not found:
                return Inspection("skipped", digest)
            directives = tuple(replace(one, quoted=elsewhere) for one in directives)
        problem = None if report.problem is None else Problem("", 1, 1, report.problem)
        if notebook is None:
            cells = None
        else:
            cells = notebook.table
            found, directives = fitted(found, notebook), kept_within(directives, cells)
        return Inspection(
            *("checked", digest, report.dependencies, found, directives, cells, problem),
            has_plugin_error=report.has_plugin_error,
        )


def _judged_within(finding: Finding) -> Finding:
    """Return a finding with what comments say of it in a file that the checked one reads."""
    if finding.within is None:
        return finding
    from embercoach.engine.suppressions import read_directives
    from embercoach.engine.verdict import CoveredLines

    within = finding.within
    try:
        covered = CoveredLines(read_directives(read_text(within.path), METAL))
    except (OSError, ValueError):
        return finding
    suppressed = covered.covers(finding.code, within.line, within.end_line)
    return replace(finding, within=replace(within, suppressed=suppressed))


def _problem(
    kind: Kind,
    digest: str,
    message: str,
    line: int = 1,
    column: int = 1,
    cell: int | None = None,
) -> Inspection:
    return Inspection(kind, digest, problem=Problem("", line, column, bounded(message), cell))


def python_error(text: str) -> tuple[int, int, str] | None:
    """Python's own message for a syntax error, which is clearer than libcst's."""
    import ast

    try:
        ast.parse(text)
    except SyntaxError as error:
        if error.lineno and error.msg:
            return error.lineno, max(error.offset or 1, 1), error.msg
    except (ValueError, RecursionError, MemoryError):
        pass
    return None


def _describe(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
