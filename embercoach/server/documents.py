"""The documents that an editor has open; every message about one is checked here first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lsprotocol import types
from msgspec import Struct, field
from pygls.uris import to_fs_path, uri_scheme

from embercoach.engine.languages import SUFFIXES
from embercoach.server.wire import Document
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    import asyncio

    from embercoach.server import wire
    from embercoach.server.shaped_names import ShapedName


#: Characters of a URI that a message cites.
_CITED = 200
_WHOLE = (types.TextDocumentContentChangeWholeDocument,)


class InvalidError(ValueError):
    """A message that asks for what is impossible; says why."""


class _Open(Struct):
    uri: str
    language: str
    version: int
    text: str
    path: Path | None


class Documents:
    """Open documents. URIs that differ in their escapes alone are one."""

    def __init__(self) -> None:
        """Make one with no document."""
        self._open: dict[str, _Open] = {}

    def is_open(self, uri: str) -> bool:
        """Return whether a URI is that of an open document."""
        return unquote(uri) in self._open

    def open(self, params: types.DidOpenTextDocumentParams, folder: Path) -> str:
        """Take a text and return its URI; one without a file belongs to a folder.

        Raises:
            InvalidError: the URI is malformed.
        """
        item = params.text_document
        path = path_of(item.uri, folder)
        held = _Open(item.uri, str(item.language_id), item.version, item.text, path)
        self._open[unquote(item.uri)] = held
        return item.uri

    def change(self, params: types.DidChangeTextDocumentParams) -> str:
        """Take a newer text and return its URI.

        Raises:
            InvalidError: the document is not open, the text is older, or only a part of one.
        """
        identifier, changes = params.text_document, params.content_changes
        held = self._held(identifier.uri)
        if identifier.version < held.version:
            raise InvalidError(
                f"version {identifier.version} is older than {held.version}: {cited(held.uri)}"
            )
        if not all(isinstance(change, _WHOLE) for change in changes):
            raise InvalidError(f"a change must have no range, got one: {cited(held.uri)}")
        held.version = identifier.version
        if changes:
            held.text = changes[-1].text
        return held.uri

    def close(self, uri: str) -> str:
        """Forget a document and return its URI.

        Raises:
            InvalidError: it is not open.
        """
        held = self._held(uri)
        del self._open[unquote(uri)]
        return held.uri

    def get(self, uri: str) -> Document | None:
        """Return the text of an open document; None for one in no language of ours.

        Raises:
            InvalidError: it is not open.
        """
        held = self._held(uri)
        if held.path is None:
            return None
        if held.path.suffix not in SUFFIXES and held.language != "python":
            return None
        return Document(held.uri, held.path, held.version, held.text)

    def _held(self, uri: str) -> _Open:
        held = self._open.get(unquote(uri))
        if held is None:
            raise InvalidError(f"document is not open: {cited(uri)}")
        return held


def cited(uri: str) -> str:
    """Return a URI as a message shows it: on one line, and not too long."""
    return quoted(uri, _CITED)


def path_of(uri: str, folder: Path) -> Path | None:
    """Return the absolute path that a document has or would have; None where it has no file.

    Args:
        uri: of the document; ``untitled:`` ones are taken for files of the folder.
        folder: the first one that the editor shows.

    Raises:
        InvalidError: the URI is malformed.
    """
    try:
        scheme, file = uri_scheme(uri), to_fs_path(uri)
    except ValueError as error:
        raise InvalidError(f"malformed URI: {cited(uri)}") from error
    if scheme == "untitled":
        name = Path(unquote(uri.partition(":")[2]).replace("\0", "")).name.replace("..", "")
        return folder / (name or "untitled")
    if scheme != "file":
        return None
    path = Path(file or "")
    if "\0" in str(path) or not path.is_absolute():
        raise InvalidError(f"not the URI of a file: {cited(uri)}")
    return path


class Followed(Struct):
    """An open document: its latest text, and its jobs.

    Attributes:
        document: the text.
        check: runs or ran for that text.
        trouble: why that text has no result; None if it has one.
        expired: the kinds of jobs that exceeded the deadline on that text, and why.
        jobs: those that requests wait for.
        found: the diagnostics of that text.
        shapes: infers those of that text's arrays, once an editor asks.
    """

    document: Document
    check: asyncio.Task[None] | None = None
    trouble: str | None = None
    expired: dict[type, str] = field(default_factory=dict)
    jobs: set[asyncio.Task[Any]] = field(default_factory=set)
    found: list[wire.Diagnostic] = field(default_factory=list)
    shapes: asyncio.Task[list[ShapedName]] | None = None

    def uri_of(self, uri: str) -> str:
        """Return the URI as the document, or the notebook, has it: it may differ in escapes."""
        cells = (cell.uri for cell in self.document.cells)
        return next((cell for cell in cells if unquote(cell) == unquote(uri)), self.document.uri)

    def cancel(self) -> None:
        """Give up all jobs."""
        for task in (self.check, *self.jobs):
            if task is not None:
                task.cancel()
