"""The capabilities of the editor, and the options of its user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from lsprotocol import types


class Options(Struct, frozen=True):
    """The options of an editor's user: `initializationOptions`.

    Attributes:
        pull: answer pulls of diagnostics, if the editor sends them.
        workspace: answer those of the workspace as well.
        hints: show the shapes of assigned arrays as inlay hints.
        mistakes: in the options; such an option has its default.
    """

    pull: bool = True
    workspace: bool = True
    hints: bool = False
    mistakes: tuple[str, ...] = ()


_OPTIONS = "initializationOptions"
_NAMES = {
    "pullDiagnostics": "pull",
    "workspaceDiagnostics": "workspace",
    "shapes.inlayHints": "hints",
}


def options_of(given: object) -> Options:
    """The options of an editor, which may send anything."""
    table = given if isinstance(given, dict) else {}
    shapes = table.get("shapes", {})
    mistakes: list[str] = []
    if not isinstance(shapes, dict):
        mistakes.append(f"{_OPTIONS}.shapes must be an object, got {type(shapes).__name__}")
        shapes = {}
    found = {"shapes.inlayHints": shapes.get("inlayHints"), **table}
    said = {name: found[key] for key, name in _NAMES.items() if isinstance(found.get(key), bool)}
    mistakes += [
        f"{_OPTIONS}.{key} must be true or false, got {type(found[key]).__name__}"
        for key in _NAMES
        if found.get(key) is not None and not isinstance(found[key], bool)
    ]
    return Options(**said, mistakes=tuple(mistakes))


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
    def refreshes_hints(self) -> bool:
        """Return whether the editor asks for inlay hints again at the server's request."""
        hint = self._workspace and self._workspace.inlay_hint
        return self._options.hints and bool(hint and hint.refresh_support)

    @property
    def refreshes(self) -> bool:
        """Return whether the editor asks for diagnostics again at the server's request."""
        diagnostics = self._workspace and self._workspace.diagnostics
        return self.pulls and bool(diagnostics and diagnostics.refresh_support)
