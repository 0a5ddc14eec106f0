"""One file's inspection: from bytes to what the checks found, as plain data."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from embercoach.analysis.work import WorkExceededError
from embercoach.engine.languages import METAL, NOTEBOOK, OBJECTIVE_C, language_of
from embercoach.engine.parallel.budget import size_problem
from embercoach.engine.verdict import raw_to_tuple
from embercoach.finding import PlacedError
from embercoach.quoting import bounded
from embercoach.safe_read import read_bytes

if TYPE_CHECKING:
    from embercoach.checks import Project
    from embercoach.kernel_builder import KernelBuilder

#: ``skipped`` by its own comment, ``checked``, ``broken`` source, or a check that ``failed``.
Kind = Literal["skipped", "checked", "broken", "failed"]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is known of a file; all that does not depend on settings.

    ``payload`` is JSON text: for a checked file ``[findings, suppressions, cells, problem]``: the
    first two as their tuples, the lines of a notebook's module, and why findings may be missing;
    else ``[line, column, message, cell]``.
    """

    kind: Kind
    digest: str
    dependencies: tuple[str, ...]
    payload: str
    #: The payload as lists, where it was parsed before.
    parsed: Any = field(default=None, compare=False, repr=False)

    def content(self) -> Any:
        """The payload as lists."""
        return json.loads(self.payload) if self.parsed is None else self.parsed


def digest_of(data: bytes) -> str:
    """A file's content as the cache knows it."""
    return blake2b(data, digest_size=16).hexdigest()


class Inspector:
    """Inspects files; one a process, as it keeps the parsed modules of the project."""

    def __init__(
        self,
        builders: tuple[KernelBuilder, ...] = (),
        *,
        debug: bool = False,
        max_size: float | None = None,
    ) -> None:
        """Make one for projects with these wrappers of ``mx.fast.metal_kernel``.

        Set ``debug`` to add the traceback to the message of a failure. ``max_size`` is the setting
        ``max-file-size``.
        """
        self._max_size = max_size
        self._builders = builders
        self._debug = debug
        self._project: Project | None = None

    def __call__(self, task: tuple[str, bytes | None]) -> Inspection:
        """Inspect a file by its absolute path, from the bytes given or those on disk."""
        path, data = task
        try:
            data = read_bytes(path) if data is None else data
        except OSError as error:
            return _without("failed", "", 1, 1, f"cannot be read: {error.strerror or error}")
        return self.inspect(data, Path(path))

    def project(self) -> Project:
        """The modules that are known so far."""
        if self._project is None:
            from embercoach import checks

            self._project = checks.Project(self._builders)
        return self._project

    def refresh(self) -> None:
        """Look at imported files anew: they may have changed on disk."""
        if self._project is not None:
            self._project.refresh()

    def inspect(self, data: bytes, path: Path) -> Inspection:
        """Check a file's bytes. Whatever a check raises becomes a ``failed`` inspection.

        Args:
            data: the bytes to check, which need not be those on disk.
            path: where the file is or would be, absolute; imports start there.
        """
        # Not at the top, here and below: a run from the cache alone needs none of it.
        from embercoach.fixes.source_file import decode

        digest = digest_of(data)
        try:
            text = decode(data).text
            with warnings.catch_warnings():
                # Python warns of the linted code's escapes while parsing it: not our news.
                warnings.simplefilter("ignore")
                return self._checked(data, text, digest, path)
        except PlacedError as error:
            return _without("broken", digest, error.line, error.column, bounded(error.message))
        except WorkExceededError as error:
            return _without("failed", digest, 1, 1, f"analysis exceeded its budget: {error}")
        except Exception as error:  # noqa: BLE001  (a check's bug must not end the run)
            message = f"internal error while checking: {_describe(error)}"
            if self._debug:
                import traceback

                return _without("failed", digest, 1, 1, f"{message}\n{traceback.format_exc()}")
            return _without("failed", digest, 1, 1, bounded(message))

    def _checked(self, data: bytes, text: str, digest: str, path: Path) -> Inspection:
        from embercoach.engine.suppression.suppressions import may_hold_directives, read_directives

        language = language_of(path.name)
        notebook = None
        if language == NOTEBOOK:
            from embercoach.notebooks.cell_module import parse

            notebook = parse(text)
            if notebook is None:
                return Inspection("skipped", digest, (), "[]")
            text = notebook.source
        # Not in bytes where some were decoded: the difference does not matter here.
        too_large = size_problem(len(text), language, self._max_size)
        if too_large is not None:
            return _without("failed", digest, 1, 1, too_large)
        directives = read_directives(text, language) if may_hold_directives(data) else ()
        if any(directive.kind == "skip-file" for directive in directives):
            return Inspection("skipped", digest, (), "[]")
        from embercoach import checks

        try:
            if language == METAL:
                report = checks.check_metal(text)
            elif language == OBJECTIVE_C:
                report = checks.check_objective_c(text)
            else:
                report = checks.check_source(text, path, self.project())
        except checks.SyntaxProblem as error:
            line, column, message = _python_says(text) or (error.line, error.column, error.message)
            cell, line = (None, line) if notebook is None else notebook.table.place(line)
            return _without(
                "broken", digest, line, column, bounded(f"syntax error: {message}"), cell
            )
        found = report.findings
        if notebook is not None:
            from embercoach.engine.cells import fitted, kept_within

            found, directives = fitted(found, notebook), kept_within(directives, notebook.table)
        cells = notebook and notebook.table.to_tuple()
        content = [
            [raw_to_tuple(one) for one in found],
            [d.to_tuple() for d in directives],
            cells,
            report.problem,
        ]
        payload = json.dumps(content, separators=(",", ":"))
        return Inspection("checked", digest, report.dependencies, payload)


#: A file's absolute path and its bytes, if they are given; wrappers of kernels, and max-file-size.
Task = tuple[str, bytes | None, "tuple[KernelBuilder, ...]", float | None]


class Inspectors:
    """Inspects files of several projects, with an inspector for each one's settings."""

    def __init__(self, *, debug: bool = False) -> None:
        self._debug = debug
        self._inspectors: dict[tuple[tuple[KernelBuilder, ...], float | None], Inspector] = {}

    def __call__(self, task: Task) -> Inspection:
        """Inspect a file by its absolute path, from the bytes given or those on disk."""
        path, data, builders, max_size = task
        key = (builders, max_size)
        if (known := self._inspectors.get(key)) is None:
            known = Inspector(builders, debug=self._debug, max_size=max_size)
            self._inspectors[key] = known
        return known((path, data))


def _without(
    kind: Kind, digest: str, line: int, column: int, message: str, cell: int | None = None
) -> Inspection:
    return Inspection(kind, digest, (), json.dumps([line, column, message, cell]))


def _python_says(text: str) -> tuple[int, int, str] | None:
    """Python's own words on a syntax error, which are clearer than a parser generator's."""
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
