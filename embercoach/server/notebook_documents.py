"""The notebooks that an editor has open; every message about one is checked here first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from lsprotocol import types
from msgspec import Struct
from msgspec.structs import replace

from embercoach.notebooks import SUFFIX
from embercoach.server.documents import InvalidError, cited, path_of
from embercoach.server.editor import Positions
from embercoach.server.wire import Cell, Document, notebook_text


class _Open(Struct, frozen=True):
    uri: str
    version: int
    path: Path | None
    #: Which cells there are, in order, by the keys of their URIs; and which are code.
    order: tuple[tuple[str, bool], ...]
    #: The texts, by the same keys.
    texts: dict[str, types.TextDocumentItem]

    def document(self) -> Document | None:
        """Return the notebook as a document; None where it has no file."""
        if self.path is None:
            return None
        cells = tuple(_cell(self.texts[key], is_code) for key, is_code in self.order)
        return Document(self.uri, self.path, self.version, notebook_text(cells), cells)


class Notebooks:
    """Open notebooks. URIs that differ in their escapes alone are one."""

    def __init__(self) -> None:
        """Make one with no notebook."""
        self._open: dict[str, _Open] = {}
        self._owners: dict[str, str] = {}

    def open(self, params: types.DidOpenNotebookDocumentParams, folder: Path) -> str:
        """Take a notebook and return its URI; one without a file belongs to a folder.

        Raises:
            InvalidError: the URI is malformed, a cell has no text, or belongs to two notebooks.
        """
        given = params.notebook_document
        path = path_of(given.uri, folder)
        if path is not None and path.suffix != SUFFIX:
            path = path.with_name(f"{path.name}{SUFFIX}")
        texts = {unquote(item.uri): item for item in params.cell_text_documents}
        self._keep(_Open(given.uri, given.version, path, _order(given.cells), texts))
        return given.uri

    def change(
        self, params: types.DidChangeNotebookDocumentParams, encoding: str
    ) -> tuple[str, list[str]]:
        """Take newer cells; ``encoding`` is what columns count by.

        Returns:
            The URI of the notebook, and those of cells that are gone.

        Raises:
            InvalidError: the notebook is not open, it is older, or has no such cells.
        """
        held = self._held(params.notebook_document.uri)
        version = params.notebook_document.version
        if version < held.version:
            raise InvalidError(f"version {version} is older than {held.version}: {cited(held.uri)}")
        order, texts = held.order, dict(held.texts)
        changes = params.change.cells
        if changes is not None and changes.structure is not None:
            order = _spliced(order, changes.structure.array, held.uri)
            texts |= {unquote(item.uri): item for item in changes.structure.did_open or ()}
            for closed in changes.structure.did_close or ():
                texts.pop(unquote(closed.uri), None)
        if changes is not None:
            kinds = dict(_order(changes.data or ()))
            order = tuple((key, kinds.get(key, is_code)) for key, is_code in order)
            for change in changes.text_content or ():
                key = unquote(change.document.uri)
                texts[key] = _changed(_text_of(texts, key), change, encoding)
        self._keep(replace(held, version=version, order=order, texts=texts))
        return held.uri, [item.uri for key, item in held.texts.items() if key not in texts]

    def close(self, uri: str) -> tuple[str, list[str]]:
        """Forget a notebook and return its URI and those of its cells.

        Raises:
            InvalidError: it is not open.
        """
        held = self._held(uri)
        del self._open[unquote(uri)]
        for key in held.texts:
            self._owners.pop(key, None)
        return held.uri, [item.uri for item in held.texts.values()]

    def get(self, uri: str) -> Document | None:
        """Return the notebook of a URI, or of a cell's URI; None where it has no file.

        Raises:
            InvalidError: it is not open.
        """
        key = unquote(uri)
        return self._held(self._owners.get(key, key)).document()

    def is_open(self, uri: str) -> bool:
        """Return whether a URI is that of an open notebook."""
        return unquote(uri) in self._open

    def holds_cell(self, uri: str) -> bool:
        """Return whether a URI is that of a cell."""
        return unquote(uri) in self._owners

    def _keep(self, made: _Open) -> None:
        """Replace what is known of a notebook."""
        key = unquote(made.uri)
        keys = [cell for cell, _ in made.order]
        if len(set(keys)) != len(keys):
            raise InvalidError(f"a cell is twice in {cited(made.uri)}")
        for cell in keys:
            _text_of(made.texts, cell)
        if any(self._owners.get(cell, key) != key for cell in made.texts):
            raise InvalidError(f"a cell is that of another notebook: {cited(made.uri)}")
        before = self._open.get(key)
        for cell in () if before is None else before.texts:
            self._owners.pop(cell, None)
        self._owners |= dict.fromkeys(made.texts, key)
        self._open[key] = made

    def _held(self, uri: str) -> _Open:
        held = self._open.get(unquote(uri))
        if held is None:
            raise InvalidError(f"notebook is not open: {cited(uri)}")
        return held


def _cell(item: types.TextDocumentItem, is_code: bool) -> Cell:
    return Cell(item.uri, item.version, str(item.language_id), is_code, item.text)


def _order(cells: Iterable[types.NotebookCell]) -> tuple[tuple[str, bool], ...]:
    code = types.NotebookCellKind.Code
    return tuple((unquote(cell.document), cell.kind == code) for cell in cells)


def _spliced(
    order: tuple[tuple[str, bool], ...], change: types.NotebookCellArrayChange, uri: str
) -> tuple[tuple[str, bool], ...]:
    start, end = change.start, change.start + change.delete_count
    if not 0 <= start <= end <= len(order):
        raise InvalidError(f"cells {start} to {end} are not in {cited(uri)}")
    return (*order[:start], *_order(change.cells or ()), *order[end:])


def _text_of(texts: dict[str, types.TextDocumentItem], key: str) -> types.TextDocumentItem:
    if key not in texts:
        raise InvalidError(f"cell has no text: {cited(key)}")
    return texts[key]


def _changed(
    item: types.TextDocumentItem, given: types.NotebookDocumentCellContentChanges, encoding: str
) -> types.TextDocumentItem:
    """A cell's text after changes; clients send parts, whatever the server takes of documents."""
    text = item.text
    for change in given.changes:
        if isinstance(change, types.TextDocumentContentChangeWholeDocument):
            text = change.text
            continue
        positions = Positions(text, encoding)
        start, end = positions.offset(change.range.start), positions.offset(change.range.end)
        if start > end:
            raise InvalidError(f"a range ends before it starts: {cited(item.uri)}")
        text = f"{text[:start]}{change.text}{text[end:]}"
    return types.TextDocumentItem(item.uri, item.language_id, given.document.version, text)
