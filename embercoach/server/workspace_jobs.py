"""The jobs of workspace diagnostics: list the files of the editor's folders, and check one."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from pathlib import Path

    from embercoach.config import Settings
    from embercoach.server import wire
    from embercoach.server.analysis import Analysis

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
    """A text that two settings share if they give the same findings."""
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
        from embercoach.server.cell_results import in_file
        from embercoach.server.diagnostics import diagnostics

        try:
            checked = analysis.check_file(self.path)
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror or error}") from error
        if is_notebook(self.path.name):
            checked = in_file(checked)
        return FileOutcome(diagnostics(checked), checked.dependencies)
