"""The jobs of a worker, of one document and of all files, called in a worker with its analysis."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from embercoach.server.wire import FIX_ALL, QUICK_FIX, Document

if TYPE_CHECKING:
    from embercoach.config import Settings
    from embercoach.server import wire
    from embercoach.server.analysis import Analysis, Checked
    from embercoach.server.shaped_names import ShapedName

#: Files of a workspace that are reported at most.
MOST_FILES = 5000


class ListedFile(Struct, frozen=True):
    """A file to report; ``key`` changes with its settings."""

    path: Path
    key: str


class Listing(Struct, frozen=True):
    """The files of a workspace, the number of those above the limit, and problems."""

    files: tuple[ListedFile, ...]
    omitted: int
    problems: tuple[str, ...]


class FileOutcome(Struct, frozen=True):
    """The diagnostics of a file, and the other files that they depend on."""

    diagnostics: list[wire.Diagnostic]
    dependencies: tuple[str, ...]


class ListFiles(Struct, frozen=True):
    """List the files that `embercoach check FOLDER` would check."""

    folders: tuple[Path, ...]

    def __call__(self, _: Analysis) -> Listing:
        """Return the files, sorted by path."""
        from embercoach.config import Configurations
        from embercoach.engine.file_discovery import discover

        found = discover(sorted({str(folder) for folder in self.folders}), Configurations())
        keys = {scope: _key(scope.settings) for scope in {scope for _, scope in found.files}}
        files = sorted(
            (ListedFile(file.path, keys[scope]) for file, scope in found.files), key=_path
        )
        problems = [f"{problem.path}: {problem.message}" for problem in found.problems]
        problems += map(str, found.mistakes.values())
        return Listing(tuple(files[:MOST_FILES]), max(len(files) - MOST_FILES, 0), tuple(problems))


def _path(file: ListedFile) -> Path:
    return file.path


def _key(settings: Settings) -> str:
    """Return a text that two settings share if they give the same findings."""
    from embercoach.server.projects import stamp_of

    codes = sorted(settings.enabled)
    known = settings.baseline and stamp_of(settings.baseline)
    text = repr((replace(settings, enabled=frozenset()), codes, known))
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


class CheckFile(Struct, frozen=True):
    """Check a file on disk."""

    path: Path

    def __call__(self, analysis: Analysis) -> FileOutcome:
        """Return the diagnostics, at the places in the file.

        Raises:
            ValueError: the file cannot be read.
        """
        from embercoach.notebooks import is_notebook
        from embercoach.server.diagnostics import diagnostics, in_file

        try:
            checked = analysis.check_file(self.path)
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror or error}") from error
        if is_notebook(self.path.name):
            checked = in_file(checked)
        return FileOutcome(diagnostics(checked), checked.dependencies)


class Mistake(Struct, frozen=True):
    """A mistake in a configuration file; ``shown`` is the message with its place."""

    path: Path
    line: int | None
    message: str
    shown: str


class CheckOutcome(Struct, frozen=True):
    """The result of a check: the diagnostics of a document, or those of each cell."""

    diagnostics: list[wire.Diagnostic]
    mistake: Mistake | None
    cells: tuple[list[wire.Diagnostic], ...] = ()


class CheckJob(Struct, frozen=True):
    """Check a document."""

    document: Document

    def __call__(self, analysis: Analysis) -> CheckOutcome:
        """Return what the editor shows of the document."""
        from embercoach.server.diagnostics import diagnostics, parts

        checked = analysis.check(self.document)
        error = checked.error
        mistake = None
        if error is not None and error.path is not None:
            mistake = Mistake(error.path, error.line, error.message, str(error))
        found = [diagnostics(part) for part in parts(checked)]
        if self.document.cells:
            return CheckOutcome([], mistake, tuple(found))
        return CheckOutcome(found[0], mistake)


class HoverJob(Struct, frozen=True):
    """Explain a position of a document, or of the cell with a URI."""

    document: Document
    position: wire.Position
    uri: str

    def __call__(self, analysis: Analysis) -> wire.Hover | None:
        """Return the pages of the findings there, and the signatures of the kernels."""
        from embercoach.server.diagnostics import part_of
        from embercoach.server.editor_answers import found_at, hover

        checked = part_of(analysis.latest(self.document), self.uri)
        line, column = checked.positions.place(self.position)
        kernels = analysis.kernels(checked, line)
        return hover(checked, found_at(checked, line, column), kernels)


class ShapesJob(Struct, frozen=True):
    """Infer the shapes of a document's arrays."""

    document: Document

    def __call__(self, analysis: Analysis) -> list[ShapedName]:
        """Return the names that are arrays, in the order of the text."""
        return analysis.shaped_names(self.document)


class SignatureJob(Struct, frozen=True):
    """Write the signatures of the kernels at a position of a document, or of a cell."""

    document: Document
    position: wire.Position
    uri: str

    def __call__(self, analysis: Analysis) -> str | None:
        """Return Markdown; None if no kernel is there."""
        from embercoach.server.diagnostics import part_of
        from embercoach.server.editor_answers import signatures

        checked = part_of(analysis.latest(self.document), self.uri)
        line, _ = checked.positions.place(self.position)
        return signatures(analysis.kernels(checked, line))


class Actions(Struct, frozen=True):
    """List the code actions of a range.

    Attributes:
        document: the text.
        uri: of the document, or of the cell.
        range: where.
        only: the kinds that the editor asks for; None for all.
        versioned: the editor takes edits that name the version they are for.
        resolves: the editor asks for an action's edit when it is chosen.
    """

    document: Document
    uri: str
    range: wire.Range
    only: tuple[str, ...] | None
    versioned: bool
    resolves: bool

    def __call__(self, analysis: Analysis) -> list[wire.CodeAction]:
        """Return quick fixes, suppressions, and the action that applies all safe fixes."""
        from embercoach.server import editor_answers
        from embercoach.server.diagnostics import part_of

        checked = analysis.latest(self.document)
        found: list[wire.CodeAction] = []
        if editor_answers.wanted(QUICK_FIX, self.only):
            part = part_of(checked, self.uri)
            found += editor_answers.quick_fixes(part, self.range, versioned=self.versioned)
        if editor_answers.wanted(FIX_ALL, self.only) and editor_answers.fixable(checked):
            edit = None if self.resolves else _edit(analysis, checked, versioned=self.versioned)
            found.append(editor_answers.fix_all(self.uri, edit))
        return found


class FixAll(Struct, frozen=True):
    """Apply all safe fixes of a document."""

    document: Document
    versioned: bool

    def __call__(self, analysis: Analysis) -> wire.WorkspaceEdit:
        """Return the edit.

        Raises:
            ValueError: fixing failed; says why.
        """
        return _edit(analysis, analysis.latest(self.document), versioned=self.versioned)


def _edit(analysis: Analysis, checked: Checked, *, versioned: bool) -> wire.WorkspaceEdit:
    from embercoach.server import editor_answers

    fixed = analysis.fixed(checked)
    if fixed.trouble and not fixed.applied:
        raise ValueError(fixed.trouble)
    return editor_answers.change_to(fixed.new, checked, versioned=versioned)
