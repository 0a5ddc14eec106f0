"""What the editor can do, from the capabilities that it has sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lsprotocol import types


class Editor:
    """The answers that decide on messages."""

    def __init__(self, capabilities: types.ClientCapabilities) -> None:
        """Take the capabilities."""
        self._workspace = capabilities.workspace
        self._document = capabilities.text_document

    @property
    def knows_versions(self) -> bool:
        """Return whether the editor supports versioned changes."""
        edit = self._workspace and self._workspace.workspace_edit
        return bool(edit and edit.document_changes)

    @property
    def resolves_edits(self) -> bool:
        """Return whether the editor resolves an action when it is chosen."""
        action = self._document and self._document.code_action
        support = action and action.resolve_support
        return bool(support and "edit" in support.properties)

    @property
    def watches(self) -> bool:
        """Return whether the editor can watch files."""
        watched = self._workspace and self._workspace.did_change_watched_files
        return bool(watched and watched.dynamic_registration)

    @property
    def pulls(self) -> bool:
        """Return whether the editor asks for diagnostics, so that none are published."""
        return bool(self._document and self._document.diagnostic)

    @property
    def refreshes(self) -> bool:
        """Return whether the editor asks for diagnostics again when it is told to."""
        diagnostics = self._workspace and self._workspace.diagnostics
        return bool(diagnostics and diagnostics.refresh_support)
