"""Answers of a worker about a place: hovers with rule pages and signatures, and code actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from embercoach import rulebook
from embercoach.checks.programs.generated_signatures import MALFORMED, WrittenKernel
from embercoach.engine.fixing import applicable
from embercoach.engine.suppressions import CODES
from embercoach.fixes.application import apply
from embercoach.fixes.source_file import newline_of
from embercoach.report.locations import fix_in_file
from embercoach.report.outcome import SourceTexts
from embercoach.server.analysis import Checked, suppressed
from embercoach.server.diagnostics import diagnostic
from embercoach.server.wire import (
    FIX_ALL,
    QUICK_FIX,
    Cell,
    CodeAction,
    Document,
    Hover,
    Range,
    TextEdit,
    WorkspaceEdit,
    cell_texts,
)

if TYPE_CHECKING:
    from embercoach.finding import Finding, Fix


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
        edits = checked.positions.edits(fix.edits, newline_of(checked.document.text))
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
    """Return the change of a document to a text, or of a notebook and its cells to that of a file.

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
    """Return the findings that a place lies in."""
    return [
        finding
        for finding in checked.result.findings
        if (finding.line, finding.column) <= (line, column)
        and (line, column) < (finding.end_line, finding.end_column)
    ]


def hover(
    checked: Checked, findings: Sequence[Finding], kernels: Sequence[WrittenKernel]
) -> Hover | None:
    """Return the pages of the findings' rules, and the heads of kernels, in Markdown."""
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
    """Return the heads of kernels in Markdown; None without kernels."""
    return _SEPARATOR.join(part for kernel in kernels for part in _heads(kernel)) or None


def _pages(findings: Sequence[Finding]) -> Iterator[str]:
    for code in dict.fromkeys(finding.code for finding in findings):
        yield rulebook.rule(code).page.rstrip()


def _heads(kernel: WrittenKernel) -> Iterator[str]:
    for caption, head in kernel.captions():
        yield f"{caption}\n\n```metal\n{head}\n{{ source }}\n```"
    if kernel.malformed:
        yield MALFORMED
