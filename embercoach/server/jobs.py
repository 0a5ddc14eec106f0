"""The jobs of a worker, called with its analysis: findings, hovers, code actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach import rulebook
from embercoach.checks.programs.generated_signatures import MALFORMED
from embercoach.engine.fixing import applicable
from embercoach.engine.suppressions import CODES
from embercoach.fixes.application import apply
from embercoach.report.locations import fix_in_file
from embercoach.report.outcome import SourceTexts
from embercoach.server.analysis import suppressed
from embercoach.server.diagnostics import diagnostic
from embercoach.server.documents import cell_texts
from embercoach.server.wire import FIX_ALL, QUICK_FIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from embercoach.checks.programs.generated_signatures import WrittenKernel
    from embercoach.finding import Finding, Fix
    from embercoach.server import wire
    from embercoach.server.analysis import Analysis, Checked
    from embercoach.server.documents import Cell, Document
    from embercoach.server.shaped_names import ShapedName
    from embercoach.server.wire import CodeAction, Hover, Range, TextEdit, WorkspaceEdit


def wanted(kind: str, only: Sequence[str] | None) -> bool:
    """Return whether the editor asks for a kind of actions, by its name or a prefix."""
    return not only or any(kind == one or kind.startswith(f"{one}.") for one in only)


def quick_fixes(checked: Checked, place: Range, *, versioned: bool) -> Iterator[CodeAction]:
    """Fixes and suppressions of what is found in a range of the document."""
    first, last = checked.positions.place(place["start"]), checked.positions.place(place["end"])
    found = [
        finding
        for finding in checked.result.findings
        if (finding.line, finding.column) <= last
        and first <= (finding.end_line, finding.end_column)
    ]
    for finding in found:
        if finding.fix is not None:
            yield _fix(finding, checked, versioned=versioned)
    for finding in found:
        if finding.code not in CODES:
            yield _suppression(finding, checked, versioned=versioned)


def _fix(finding: Finding, checked: Checked, *, versioned: bool) -> CodeAction:
    fix = finding.fix
    assert fix is not None
    action: CodeAction = {
        "title": f"{finding.code}: {fix.title}{'' if fix.safe else ' (unsafe)'}",
        "kind": QUICK_FIX,
        "diagnostics": [diagnostic(finding, checked)],
        "edit": _fixed(fix, checked, versioned=versioned),
    }
    if fix.safe:
        action["isPreferred"] = True
    return action


def _suppression(finding: Finding, checked: Checked, *, versioned: bool) -> CodeAction:
    return {
        "title": f"{finding.code}: add a suppression comment",
        "kind": QUICK_FIX,
        "diagnostics": [diagnostic(finding, checked)],
        "edit": change_to(suppressed(checked, finding), checked, versioned=versioned),
    }


def _fixed(fix: Fix, checked: Checked, *, versioned: bool) -> WorkspaceEdit:
    if checked.notebook is None:
        edits = checked.positions.edits(fix.edits, checked.document.newline)
        return _changes([(checked.document, edits)], versioned=versioned)
    text = checked.notebook.text
    in_file = fix_in_file(
        fix, str(checked.notebook.path), SourceTexts({str(checked.notebook.path): text})
    )
    fixed = text if in_file is None else apply(text, [in_file])[0]
    return change_to(fixed, checked, versioned=versioned)


def fixable(checked: Checked) -> bool:
    """Return whether `--fix` would change the document."""
    settings = checked.settings
    return settings is not None and any(
        applicable(finding, settings, unsafe=False) for finding in checked.result.findings
    )


def fix_all(uri: str, edit: WorkspaceEdit | None) -> CodeAction:
    """All safe fixes of a document or of a cell's notebook; without an edit, it is asked for."""
    action: CodeAction = {
        "title": "EmberCoach: apply all safe fixes",
        "kind": FIX_ALL,
        "data": {"uri": uri},
    }
    if edit is not None:
        action["edit"] = edit
    return action


def change_to(text: str, checked: Checked, *, versioned: bool) -> WorkspaceEdit:
    """The change of a document to a text, or of a notebook and its cells to that of a file.

    Args:
        text: of the document, or of the file of a notebook.
        checked: the document, the notebook or a cell of it.
        versioned: the editor can refuse edits that are too late.
    """
    whole = checked.notebook or checked.document
    if not whole.cells:
        edits = checked.positions.edits_to(text)
        return _changes([(checked.document, edits)], versioned=versioned)
    changed = [
        (cell, places.positions.edits_to(new))
        for cell, places, new in zip(whole.cells, checked.cells, cell_texts(text), strict=True)
        if new != cell.text
    ]
    return _changes(changed, versioned=versioned)


def _changes(
    changed: Sequence[tuple[Document | Cell, list[TextEdit]]], *, versioned: bool
) -> WorkspaceEdit:
    if not versioned:
        return {"changes": {document.uri: edits for document, edits in changed}}
    return {
        "documentChanges": [
            {"textDocument": {"uri": document.uri, "version": document.version}, "edits": edits}
            for document, edits in changed
        ]
    }


_SEPARATOR = "\n\n---\n\n"


def found_at(checked: Checked, line: int, column: int) -> list[Finding]:
    """The findings that a place lies in."""
    return [
        finding
        for finding in checked.result.findings
        if (finding.line, finding.column) <= (line, column)
        and (line, column) < (finding.end_line, finding.end_column)
    ]


def hover(
    checked: Checked, findings: Sequence[Finding], kernels: Sequence[WrittenKernel]
) -> Hover | None:
    """The pages of the findings' rules, and the heads of kernels, in Markdown."""
    parts = list(_pages(findings)) + [part for kernel in kernels for part in _heads(kernel)]
    if not parts:
        return None
    found: Hover = {"contents": {"kind": "markdown", "value": _SEPARATOR.join(parts)}}
    if findings:
        first = findings[0]
        found["range"] = checked.positions.between(
            first.line, first.column, first.end_line, first.end_column
        )
    return found


def signatures(kernels: Sequence[WrittenKernel]) -> str | None:
    """The heads of kernels in Markdown; None without kernels."""
    return _SEPARATOR.join(part for kernel in kernels for part in _heads(kernel)) or None


def _pages(findings: Sequence[Finding]) -> Iterator[str]:
    for code in dict.fromkeys(finding.code for finding in findings):
        yield rulebook.rule(code).page.rstrip()


def _heads(kernel: WrittenKernel) -> Iterator[str]:
    for caption, head in kernel.captions():
        yield f"{caption}\n\n```metal\n{head}\n{{ source }}\n```"
    if kernel.malformed:
        yield MALFORMED


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in a configuration file; ``shown`` is the message with its place."""

    path: Path
    line: int | None
    message: str
    shown: str


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The result of a check: the diagnostics of a document, or those of each cell."""

    diagnostics: list[wire.Diagnostic]
    mistake: Mistake | None
    cells: tuple[list[wire.Diagnostic], ...] = ()


@dataclass(frozen=True, slots=True)
class CheckJob:
    """Check a document."""

    document: Document

    def __call__(self, analysis: Analysis) -> CheckOutcome:
        """Return what the editor shows of the document."""
        from embercoach.server.cell_results import parts
        from embercoach.server.diagnostics import diagnostics

        checked = analysis.check(self.document)
        error = checked.error
        mistake = None
        if error is not None and error.path is not None:
            mistake = Mistake(error.path, error.line, error.message, str(error))
        found = [diagnostics(part) for part in parts(checked)]
        if self.document.cells:
            return CheckOutcome([], mistake, tuple(found))
        return CheckOutcome(found[0], mistake)


@dataclass(frozen=True, slots=True)
class HoverJob:
    """Explain a position of a document, or of the cell with a URI."""

    document: Document
    position: wire.Position
    uri: str

    def __call__(self, analysis: Analysis) -> wire.Hover | None:
        """Return the pages of the findings there, and the signatures of the kernels."""
        from embercoach.server.cell_results import part_of

        checked = part_of(analysis.latest(self.document), self.uri)
        line, column = checked.positions.place(self.position)
        kernels = analysis.kernels(checked, line)
        return hover(checked, found_at(checked, line, column), kernels)


@dataclass(frozen=True, slots=True)
class ShapesJob:
    """Infer the shapes of a document's arrays."""

    document: Document

    def __call__(self, analysis: Analysis) -> list[ShapedName]:
        """Return the names that are arrays, in the order of the text."""
        return analysis.shaped_names(self.document)


@dataclass(frozen=True, slots=True)
class SignatureJob:
    """Write the signatures of the kernels at a position of a document, or of a cell."""

    document: Document
    position: wire.Position
    uri: str

    def __call__(self, analysis: Analysis) -> str | None:
        """Return Markdown; None if no kernel is there."""
        from embercoach.server.cell_results import part_of

        checked = part_of(analysis.latest(self.document), self.uri)
        line, _ = checked.positions.place(self.position)
        return signatures(analysis.kernels(checked, line))


@dataclass(frozen=True, slots=True)
class Actions:
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
        from embercoach.server.cell_results import part_of

        checked = analysis.latest(self.document)
        found: list[wire.CodeAction] = []
        if wanted(QUICK_FIX, self.only):
            part = part_of(checked, self.uri)
            found += quick_fixes(part, self.range, versioned=self.versioned)
        if wanted(FIX_ALL, self.only) and fixable(checked):
            edit = None if self.resolves else _edit(analysis, checked, versioned=self.versioned)
            found.append(fix_all(self.uri, edit))
        return found


@dataclass(frozen=True, slots=True)
class FixAll:
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

    fixed = analysis.fixed(checked)
    if fixed.trouble and not fixed.applied:
        raise ValueError(fixed.trouble)
    return change_to(fixed.new, checked, versioned=versioned)
