"""A notebook in an editor: cells that are opened, typed, moved and closed."""

from __future__ import annotations

from lsprotocol import types

from tests.server.editor import Editor

CODE, TEXT = types.NotebookCellKind.Code, types.NotebookCellKind.Markup


class OpenNotebook:
    """An open notebook; the scheme of its cells is VS Code's."""

    def __init__(self, editor: Editor, name: str, *texts: str) -> None:
        self.editor = editor
        self.uri = editor.uri(name)
        self.cells = [
            f"vscode-notebook-cell:{self.uri.removeprefix('file:')}#{n}" for n in range(len(texts))
        ]
        self.version = 1
        self.texts = dict(zip(self.cells, texts, strict=True))
        notebook = types.NotebookDocument(
            self.uri, "jupyter-notebook", 1, [self.cell(uri) for uri in self.cells]
        )
        items = [self.item(uri) for uri in self.cells]
        editor.client.notebook_document_did_open(
            types.DidOpenNotebookDocumentParams(notebook, items)
        )

    def cell(self, uri: str) -> types.NotebookCell:
        is_text = self.texts[uri].startswith("# Title")
        return types.NotebookCell(TEXT if is_text else CODE, uri)

    def item(self, uri: str) -> types.TextDocumentItem:
        language = "markdown" if self.cell(uri).kind == TEXT else "python"
        return types.TextDocumentItem(uri, language, 1, self.texts[uri])

    def shown(self, *cells: int) -> list[list[types.Diagnostic]]:
        """Return the next diagnostics of cells."""
        found = {uri: self.editor.next_of(uri) for uri in (self.cells[n] for n in cells)}
        return [list(params.diagnostics) for params in found.values()]

    def change(self, changes: types.NotebookDocumentCellChanges) -> None:
        self.version += 1
        identifier = types.VersionedNotebookDocumentIdentifier(self.version, self.uri)
        event = types.NotebookDocumentChangeEvent(cells=changes)
        self.editor.client.notebook_document_did_change(
            types.DidChangeNotebookDocumentParams(identifier, event)
        )

    def type(self, cell: int, place: types.Range, text: str) -> None:
        """Replace a part of a cell."""
        identifier = types.VersionedTextDocumentIdentifier(self.version + 1, self.cells[cell])
        part = types.TextDocumentContentChangePartial(place, text)
        content = types.NotebookDocumentCellContentChanges(identifier, [part])
        self.change(types.NotebookDocumentCellChanges(text_content=[content]))

    def splice(self, start: int, removed: int, *texts: str) -> None:
        """Remove cells and insert others."""
        new = [f"{self.cells[0]}-{self.version}-{n}" for n in range(len(texts))]
        self.texts |= dict(zip(new, texts, strict=True))
        gone = self.cells[start : start + removed]
        self.cells[start : start + removed] = new
        array = types.NotebookCellArrayChange(start, removed, [self.cell(uri) for uri in new])
        structure = types.NotebookDocumentCellChangeStructure(
            array,
            [self.item(uri) for uri in new],
            [types.TextDocumentIdentifier(uri) for uri in gone],
        )
        self.change(types.NotebookDocumentCellChanges(structure=structure))

    def swap(self) -> None:
        """Move the first cell to the end: its text stays open."""
        first = self.cells.pop(0)
        self.cells.append(first)
        array = types.NotebookCellArrayChange(
            0, len(self.cells), [self.cell(c) for c in self.cells]
        )
        structure = types.NotebookDocumentCellChangeStructure(array)
        self.change(types.NotebookDocumentCellChanges(structure=structure))

    def save(self) -> None:
        identifier = types.NotebookDocumentIdentifier(self.uri)
        params = types.DidSaveNotebookDocumentParams(identifier)
        self.editor.client.notebook_document_did_save(params)

    def close(self) -> None:
        identifier = types.NotebookDocumentIdentifier(self.uri)
        cells = [types.TextDocumentIdentifier(uri) for uri in self.cells]
        params = types.DidCloseNotebookDocumentParams(identifier, cells)
        self.editor.client.notebook_document_did_close(params)
