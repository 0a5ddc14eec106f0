"""Results of a run as reports see them, counts, and the origin that merging needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, to_builtins

from embercoach.files import read_bytes
from embercoach.notebooks import is_notebook

if TYPE_CHECKING:
    from embercoach.finding import Finding, Problem
    from embercoach.fixes.source_file import LineIndex
    from embercoach.notebooks.cell_module import Notebook


class Checkout(Struct, frozen=True):
    """The counts of one checkout; ``path`` is its root, as the user named it."""

    path: str
    files_checked: int
    files_skipped: int
    suppressed: int


class Portion(Struct, frozen=True):
    """A shard: its number, from 1, of how many, its files, and those of all shards."""

    number: int
    count: int
    files: int
    all_files: int


class RunOrigin(Struct, frozen=True):
    """A run.

    Attributes:
        version: of EmberCoach.
        program: a digest of what decides on findings, the rules among it.
        checkouts: sorted by path.
        portion: the shard, where the run was one.
    """

    version: str
    program: str
    checkouts: tuple[Checkout, ...]
    portion: Portion | None = None

    def members(self) -> dict[str, Any]:
        """Return its members in the JSON report."""
        return {
            "run": {
                "version": self.version,
                "program": self.program,
                "shard": to_builtins(self.portion),
            },
            "checkouts": to_builtins(self.checkouts),
        }


class Outcome(Protocol):
    """A run's result."""

    @property
    def findings(self) -> Sequence[Finding]:
        """The findings, sorted, without suppressed ones."""

    @property
    def problems(self) -> Sequence[Problem]:
        """The problems, sorted."""

    @property
    def files_checked(self) -> int:
        """Files analysed."""

    @property
    def files_skipped(self) -> int:
        """Files skipped, as they do not use MLX or Metal."""

    @property
    def suppressed(self) -> int:
        """Findings suppressed by a comment."""


class Counts(Struct, frozen=True):
    """How many findings of each severity there are, and how many listed ones can be fixed."""

    errors: int
    warnings: int
    notes: int
    safe_fixes: int
    unsafe_fixes: int


class RuleChange(Struct, frozen=True, order=True):
    """How many findings of a rule in a file the baseline knows, and how many of its are fixed."""

    path: str
    code: str
    known: int
    fixed: int


class Comparison(Struct, frozen=True):
    """A run compared with its baseline: known findings, and fixed entries.

    ``changes`` are the same by file and rule, where that is known.
    """

    known: int
    fixed: int
    changes: tuple[RuleChange, ...] = ()


def counts(outcome: Outcome, *, show_notes: bool) -> Counts:
    """Count a run's findings; fixes only of those that are listed, as ``--fix`` takes no others."""
    severities = [finding.severity for finding in outcome.findings]
    shown = listed(outcome, show_notes=show_notes)
    fixes = [finding.is_fixed_safely for finding in shown if finding.fix]
    return Counts(
        errors=severities.count("error"),
        warnings=severities.count("warning"),
        notes=severities.count("note"),
        safe_fixes=fixes.count(True),
        unsafe_fixes=fixes.count(False),
    )


def listed(outcome: Outcome, *, show_notes: bool) -> list[Finding]:
    """Return the findings to list."""
    return [f for f in outcome.findings if show_notes or f.severity != "note"]


class SourceTexts:
    """The text of reported files, read when first needed."""

    def __init__(self, given: Mapping[str, str] | None = None, root: str | None = None) -> None:
        """Make one that has read nothing.

        Args:
            given: texts that stand for files, such as standard input.
            root: the folder that all other files must lie in; None where this run found them.
        """
        self._given = dict(given or {})
        self._root = root
        self._indexes: dict[str, LineIndex] = {}
        self._notebooks: dict[str, Notebook | None] = {}

    def index(self, path: str, cell: int | None = None) -> LineIndex:
        """Get a file's text, or that of a notebook's cell; empty if it cannot be read any more."""
        from embercoach.fixes.source_file import LineIndex

        if cell is not None:
            notebook = self.notebook(path)
            if notebook is None or not notebook.holds(cell):
                return LineIndex("")
            return notebook.lines(cell)
        if path not in self._indexes:
            text = self._given[path] if path in self._given else _text(path, self._root)
            self._indexes[path] = LineIndex(text)
        return self._indexes[path]

    def notebook(self, path: str) -> Notebook | None:
        """Return a notebook; None for other files, and if it cannot be read any more."""
        if path not in self._notebooks:
            text = self.index(path).text if is_notebook(path) else ""
            self._notebooks[path] = _notebook(text) if text else None
        return self._notebooks[path]


def _notebook(text: str) -> Notebook | None:
    from embercoach.notebooks.cell_module import parse
    from embercoach.notebooks.notebook_document import NotebookError

    try:
        return parse(text)
    except NotebookError:
        return None


def _text(path: str, root: str | None) -> str:
    from embercoach.fixes.source_file import DecodingError, decode

    try:
        return decode(read_bytes(path, root=root)).text
    except (OSError, ValueError, DecodingError):  # a saved report may contain an invalid path
        return ""
