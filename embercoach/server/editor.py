"""The capabilities of the editor, and the options of its user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lsprotocol import types


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an editor's user: `initializationOptions`.

    Attributes:
        pull: answer pulls of diagnostics, if the editor sends them.
        workspace: answer those of the workspace as well.
        mistakes: in the options; such an option has its default.
    """

    pull: bool = True
    workspace: bool = True
    mistakes: tuple[str, ...] = ()


def options_of(given: object) -> Options:
    """The options of an editor, which may send anything."""
    table = given if isinstance(given, dict) else {}
    known = {"pullDiagnostics": "pull", "workspaceDiagnostics": "workspace"}
    said = {name: table[key] for key, name in known.items() if isinstance(table.get(key), bool)}
    mistakes = tuple(
        f"initializationOptions.{key} must be true or false, got {type(table[key]).__name__}"
        for key in known
        if key in table and not isinstance(table[key], bool)
    )
    return Options(**said, mistakes=mistakes)


class Editor:
    """The answers that decide on messages."""

    def __init__(self, capabilities: types.ClientCapabilities, options: Options) -> None:
        """Take the capabilities, and what the user has set."""
        self._workspace = capabilities.workspace
        self._document = capabilities.text_document
        self._options = options

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
        return self._options.pull and bool(self._document and self._document.diagnostic)

    @property
    def refreshes(self) -> bool:
        """Return whether the editor asks for diagnostics again at the server's request."""
        diagnostics = self._workspace and self._workspace.diagnostics
        return self.pulls and bool(diagnostics and diagnostics.refresh_support)
