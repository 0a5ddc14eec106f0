"""The editor: its capabilities, the options of its user, and places as it counts them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from embercoach.fixes.source_file import LineIndex

if TYPE_CHECKING:
    from lsprotocol import types

    from embercoach.finding import Edit
    from embercoach.server.wire import Position, Range, TextEdit


class PlacedPosition(Protocol):
    """A position of `lsprotocol`, which workers do not load."""

    line: int
    character: int


#: What one unit of a column is, by the name of the encoding: a codec, and its bytes.
_UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


class Positions:
    """The places of a text, ours (from 1, in characters) as an editor's."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        """Index a text; ``encoding`` is a ``PositionEncodingKind``."""
        self.index = LineIndex(text)
        self._codec, self._size = _UNITS[encoding]

    def at(self, line: int, column: int) -> Position:
        """Return the position of a line and a column; past the end of its line, the line's end."""
        line = min(line, len(self.index.starts))
        before = self.index.line(line)[: column - 1]
        return {"line": line - 1, "character": self._units(before)}

    def at_offset(self, offset: int) -> Position:
        """Return the position of a character's offset."""
        line, column = self.index.place(offset)
        start = self.index.starts[line - 1]
        # Not by `at`: a fix may end between the two characters of a line end.
        before = self.index.text[start : start + column - 1]
        return {"line": line - 1, "character": self._units(before)}

    def between(self, line: int, column: int, end_line: int, end_column: int) -> Range:
        """Return the range from a place up to, and without, another."""
        return {"start": self.at(line, column), "end": self.at(end_line, end_column)}

    def characters(self, line: int, columns: Iterable[int]) -> list[int]:
        """Return the columns of a line as the editor counts; they are in order."""
        text = self.index.line(line)
        if text.isascii():
            return [column - 1 for column in columns]
        found, before, units = [], 0, 0
        for column in columns:
            units += self._units(text[before : column - 1])
            before = column - 1
            found.append(units)
        return found

    def place(self, position: Position) -> tuple[int, int]:
        """Our line and column of an editor's position; the inverse of :meth:`at`."""
        row, wanted = position["line"] + 1, position["character"]
        line = self.index.line(row)
        if line.isascii():
            return row, min(wanted, len(line)) + 1
        units = 0
        for column, character in enumerate(line, 1):
            if units >= wanted:
                return row, column
            units += self._units(character)
        return row, len(line) + 1

    def offset(self, position: PlacedPosition) -> int:
        """Return the offset of a character, from the editor's position."""
        place: Position = {"line": position.line, "character": position.character}
        return self.index.offset(*self.place(place))

    def edits(self, edits: Iterable[Edit], newline: str) -> list[TextEdit]:
        """Return a fix's edits, with the text's own line ends."""
        return [
            self._edit(edit.start, edit.end, edit.text.replace("\n", newline)) for edit in edits
        ]

    def edits_to(self, text: str) -> list[TextEdit]:
        """Return the edits that make another text of this one: whole lines, where they differ."""
        old, new = self.index, LineIndex(text)
        matcher = SequenceMatcher(None, _lines(old), _lines(new), autojunk=False)
        starts = [*old.starts, len(old.text)]
        ends = [*new.starts, len(text)]
        return [
            self._edit(starts[low], starts[high], text[ends[first] : ends[last]])
            for tag, low, high, first, last in matcher.get_opcodes()
            if tag != "equal"
        ]

    def _edit(self, start: int, end: int, text: str) -> TextEdit:
        return {
            "range": {"start": self.at_offset(start), "end": self.at_offset(end)},
            "newText": text,
        }

    def _units(self, text: str) -> int:
        if text.isascii():
            return len(text)
        return len(text.encode(self._codec, "surrogatepass")) // self._size


def _lines(index: LineIndex) -> list[str]:
    ends = [*index.starts[1:], len(index.text)]
    return [index.text[low:high] for low, high in zip(index.starts, ends, strict=True)]


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
    """Return the options of an editor, which may send anything."""
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
