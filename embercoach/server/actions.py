"""Code actions: a finding's fix, a comment that suppresses it, and all safe fixes of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.engine.fixing import applicable
from embercoach.engine.suppression.directives import CODES
from embercoach.server.analysis import suppressed
from embercoach.server.diagnostics import diagnostic
from embercoach.server.wire import FIX_ALL, QUICK_FIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.finding import Finding
    from embercoach.server.analysis import Checked
    from embercoach.server.document import Document
    from embercoach.server.wire import CodeAction, Range, TextEdit, WorkspaceEdit


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
    edits = checked.positions.edits(fix.edits, checked.document.newline)
    action: CodeAction = {
        "title": f"{finding.code}: {fix.title}{'' if fix.safe else ' (unsafe)'}",
        "kind": QUICK_FIX,
        "diagnostics": [diagnostic(finding, checked)],
        "edit": change(checked.document, edits, versioned=versioned),
    }
    if fix.safe:
        action["isPreferred"] = True
    return action


def _suppression(finding: Finding, checked: Checked, *, versioned: bool) -> CodeAction:
    edits = checked.positions.edits_to(suppressed(checked, finding))
    return {
        "title": f"{finding.code}: add a suppression comment",
        "kind": QUICK_FIX,
        "diagnostics": [diagnostic(finding, checked)],
        "edit": change(checked.document, edits, versioned=versioned),
    }


def fixable(checked: Checked) -> bool:
    """Return whether `--fix` would change the document."""
    settings = checked.settings
    return settings is not None and any(
        applicable(finding, settings, unsafe=False) for finding in checked.result.findings
    )


def fix_all(document: Document, edit: WorkspaceEdit | None) -> CodeAction:
    """All safe fixes of a document, with the edit or for the editor to ask for it later."""
    action: CodeAction = {
        "title": "EmberCoach: apply all safe fixes",
        "kind": FIX_ALL,
        "data": {"uri": document.uri},
    }
    if edit is not None:
        action["edit"] = edit
    return action


def change(document: Document, edits: list[TextEdit], *, versioned: bool) -> WorkspaceEdit:
    """A change of one document; ``versioned`` if the editor can refuse one that is too late."""
    if not versioned:
        return {"changes": {document.uri: edits}}
    identifier = {"uri": document.uri, "version": document.version}
    return {"documentChanges": [{"textDocument": identifier, "edits": edits}]}
