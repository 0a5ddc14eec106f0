"""The engine of ``check``, kept warm for the texts of an editor; lives in a worker process.

Garbage is collected in pauses alone, as it takes longer than a keystroke may.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from embercoach import checks
from embercoach.checks.programs.generated_signatures import (
    WrittenKernel,
    mentions_kernels,
    written_kernels,
)
from embercoach.engine.budget import size_problem
from embercoach.engine.check_run import RunResult, joined, reported
from embercoach.engine.file_discovery import SourceFile
from embercoach.engine.fixing import FixedFile, Fixer
from embercoach.engine.inspection import Inspector
from embercoach.engine.languages import NOTEBOOK, PYTHON, language_of, relevant
from embercoach.engine.name_shapes import name_shapes_if_sound
from embercoach.engine.noqa_writing import annotated
from embercoach.engine.verdict import Judge
from embercoach.files import read_bytes
from embercoach.finding import Finding, Problem
from embercoach.fixes.source_file import DecodingError, bytes_of, decode, newline_of
from embercoach.report import baseline_file
from embercoach.report.outcome import SourceTexts
from embercoach.server.diagnostics import CellPlaces, cell_places
from embercoach.server.editor import Positions
from embercoach.server.projects import Projects, Stamp, stamp_of
from embercoach.server.shaped_names import MOST_NAMES, ShapedName, placed_names
from embercoach.server.wire import Document

if TYPE_CHECKING:
    from embercoach.config import ConfigError, Settings

#: Texts checked before it is worth while to tidy up in a pause, and before it can't wait: the
#: modules of imported files hold on to those that imported them, 1 to 2 MB a text.
ROUNDS = 16
MOST_ROUNDS = 256
#: Documents whose latest result is kept.
MOST_RECENT = 32


class Checked(Struct, frozen=True):
    """The result of a document; empty where ``settings`` are None or exclude it.

    Attributes:
        document: that was checked, or a cell of it.
        positions: in its text.
        settings: in force.
        result: the findings and problems.
        error: in the configuration.
        cells: the places of all cells, for an open notebook and for each of its cells.
        notebook: that the document is a cell of.
        dependencies: other files, present or absent, that the result depends on.
    """

    document: Document
    positions: Positions
    settings: Settings | None
    result: RunResult
    error: ConfigError | None
    cells: tuple[CellPlaces, ...] = ()
    notebook: Document | None = None
    dependencies: tuple[str, ...] = ()


class Analysis:
    """Checks documents one after the other, with what was learned of the files they import."""

    def __init__(self, encoding: str, folders: Iterable[Path]) -> None:
        """Give the encoding that columns count by, and the folders that the editor shows."""
        self._encoding = encoding
        self._projects = Projects(folders)
        self._inspector = Inspector()
        self._judges: tuple[Settings, Judge] | None = None
        self._stamps: dict[str, Stamp] = {}
        self._baselines = Baselines()
        self._rounds = 0
        self._last: Document | None = None
        self._recent: OrderedDict[str, Checked] = OrderedDict()

    def latest(self, document: Document) -> Checked:
        """Return the result of a document's last check, or check it if its text is another."""
        known = self._recent.get(document.uri)
        return self.check(document) if known is None or known.document != document else known

    def check(self, document: Document) -> Checked:
        """Check a document as `embercoach check` would, were it saved."""
        self._last = document
        # The cells of a notebook say more than its file, which some editors send as a text.
        is_file = language_of(document.path.name) == NOTEBOOK and not document.cells
        checked = self._checked(document, None if is_file else bytes_of(document.text))
        self._recent[document.uri] = checked
        self._recent.move_to_end(document.uri)
        if len(self._recent) > MOST_RECENT:
            self._recent.popitem(last=False)
        return checked

    def check_file(self, path: Path) -> Checked:
        """Check a file on disk, whose latest result is not kept.

        Raises:
            OSError: it cannot be read.
        """
        data = read_bytes(path)
        try:
            text = decode(data).text
        except DecodingError:
            text = data.decode("utf-8", "replace")  # the inspection reports the place
        return self._checked(Document(path.as_uri(), path, None, text), data)

    def tidy(self) -> None:
        """Free the modules of earlier texts and warm up for the next; takes a second."""
        if self._rounds < ROUNDS or self._last is None:
            return
        self._renew()
        self.check(self._last)
        gc.collect()
        self._rounds = 0

    def fixed(self, checked: Checked) -> FixedFile:
        """Return the document as `--fix` would write it."""
        assert checked.settings is not None
        fixer = Fixer(checked.settings, unsafe=False, debug=False, inspector=self._inspector)
        document = checked.document
        return fixer((str(document.path), bytes_of(document.text)))

    def kernels(self, checked: Checked, line: int) -> list[WrittenKernel]:
        """Return the kernels that a line belongs to."""
        document, settings = checked.document, checked.settings
        if settings is None or language_of(document.path.name) != PYTHON:
            return []
        if not mentions_kernels(document.text, settings.kernel_builders):
            return []
        project = self._inspector.project(settings.kernel_builders)
        try:
            written = written_kernels(document.text, document.path, project)
        except checks.SyntaxProblem:
            return []  # a diagnostic reports it
        return [kernel for kernel in written if kernel.covers(line)]

    def shaped_names(self, document: Document) -> list[ShapedName]:
        """The names of a document that are arrays, at most `MOST_NAMES`; of Python files alone."""
        settings = self.latest(document).settings
        text, language = document.text, language_of(document.path.name)
        if settings is None or language != PYTHON or "mlx" not in text:
            return []
        if size_problem(len(text), language, settings.max_file_size) is not None:
            return []  # a diagnostic reports it
        self._look_again()
        project = self._inspector.project(settings.kernel_builders)
        found = name_shapes_if_sound(text, document.path, project, with_reads=True)
        return placed_names(found[:MOST_NAMES], Positions(text, self._encoding))

    def _checked(self, document: Document, data: bytes | None) -> Checked:
        """Check the bytes of a document; without bytes there is nothing to find."""
        configured = self._projects.of(document.path)
        settings = configured.settings
        result = RunResult()
        dependencies: tuple[str, ...] = ()
        if settings is not None and data is not None and not configured.excludes(document.path):
            result, dependencies = self._result(document.path, data, settings)
            if settings.baseline is not None:
                result = self._baselines.new_in(
                    result, document.path, document.text, settings.baseline
                )
        positions = Positions(document.text, self._encoding)
        cells = cell_places(document, self._encoding)
        return Checked(
            document,
            positions,
            settings,
            result,
            configured.error,
            cells,
            dependencies=dependencies,
        )

    def _result(
        self, path: Path, data: bytes, settings: Settings
    ) -> tuple[RunResult, tuple[str, ...]]:
        """Return the result of a file's bytes, and the files that it depends on."""
        if not relevant(data, language_of(path.name), settings.kernel_builders):
            return RunResult(files_skipped=1), ()
        if self._judges is None or self._judges[0] != settings:
            self._judges = (settings, Judge(settings))
        self._look_again()
        inspection = self._inspector.inspect(
            data, path, settings.kernel_builders, settings.max_file_size
        )
        self._stamps |= {
            name: stamp_of(Path(name))
            for name in inspection.dependencies
            if name not in self._stamps
        }
        result = joined([reported(self._judges[1], SourceFile(path, str(path)), inspection)])
        return result, inspection.dependencies

    def _look_again(self) -> None:
        """Forget what was learned of imported files if one changed."""
        self._rounds += 1
        if any(stamp_of(Path(name)) != stamp for name, stamp in self._stamps.items()):
            self._renew()
        if self._rounds >= MOST_ROUNDS:
            self._renew()
            gc.collect()
            self._rounds = 0

    def _renew(self) -> None:
        self._stamps.clear()
        self._inspector.refresh()


def suppressed(checked: Checked, finding: Finding) -> str:
    """Return a document's text, or that of a cell's notebook, with a suppression of a finding."""
    document = checked.notebook or checked.document
    language = language_of(document.path.name)
    return annotated(document.text, [finding], newline_of(document.text), language)


class Baselines:
    """Baselines by file, read again when they change."""

    def __init__(self) -> None:
        """Make one that has read none."""
        self._known: dict[Path, tuple[Stamp, baseline_file.Baseline]] = {}

    def new_in(self, result: RunResult, path: Path, text: str, file: Path) -> RunResult:
        """Return the findings that a baseline does not know; all, if it cannot be used."""
        try:
            entries = self._read(file).entries
        except baseline_file.BaselineError as error:
            problem = Problem(str(path), 1, 1, str(error))
            return replace(result, problems=(problem, *result.problems))
        found = baseline_file.entries_of(result.findings, SourceTexts({str(path): text}), file)
        pairs = zip(result.findings, found, strict=True)
        return replace(result, findings=tuple(one for one, entry in pairs if entry not in entries))

    def _read(self, file: Path) -> baseline_file.Baseline:
        stamp = stamp_of(file)
        known = self._known.get(file)
        if known is None or known[0] != stamp:
            known = self._known[file] = (stamp, baseline_file.read(file))
        return known[1]
