"""A notebook's code cells as one Python module, so that names flow from cell to cell."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from embercoach.fixes.source_file import LineIndex, SourceText
from embercoach.notebooks.cell_lines import CellTable
from embercoach.notebooks.magics import Magic, plain
from embercoach.notebooks.notebook_document import Cell, read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embercoach.notebooks.notebook_document import NotebookDocument

#: Before a cell that is indented as a whole, which IPython takes.
HEAD = "if True:\n"
#: What kernels of Python call their language.
_PYTHON = (None, "python", "python3", "ipython")

# A character between the quotes of a JSON string; halves of characters are refused before.
_CHARACTER = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[^\\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ModuleCell:
    """A code cell in the module.

    Attributes:
        cell: the cell in the file.
        start: where its text starts in the module; a line end of the module follows it.
        text: as it is written.
        magics: what of it is not in the module.
    """

    cell: Cell
    start: int
    text: str
    magics: tuple[Magic, ...]

    @property
    def newline(self) -> str:
        """The line end that the cell uses most."""
        return SourceText(self.text, "utf-8", bom=False).newline


class Notebook:
    """A notebook of Python.

    Attributes:
        file: the file's text, which is JSON.
        source: the module, without what IPython adds to Python.
        parts: the cells in it.
        table: the cells' lines in it.
    """

    def __init__(self, file: str, document: NotebookDocument) -> None:
        """Join the code cells; ``file`` is what ``document`` was read from."""
        self.file = file
        self.parts: list[ModuleCell] = []
        texts: list[str] = []
        start = 0
        for cell in document.cells:
            known = cell.language in _PYTHON and plain(cell.text)
            if known:
                head = HEAD if _is_indented(known.text) else ""
                self.parts.append(ModuleCell(cell, start + len(head), cell.text, known.magics))
                texts.append(f"{head}{known.text}\n")
                start += len(texts[-1])
        self.source = "".join(texts)
        self.index = LineIndex(self.source)
        self._starts = [part.start for part in self.parts]
        self.table = self._table(self.index, self._starts)
        self._lines: dict[int, LineIndex] = {}
        self._offsets: dict[int, list[int]] = {}
        self._file_index: LineIndex | None = None

    @property
    def escapes(self) -> bool:
        """Return whether the file escapes characters outside of ASCII."""
        return self.file.isascii() and not all(part.text.isascii() for part in self.parts)

    def part_at(self, offset: int) -> ModuleCell:
        """The cell that contains an offset of the module, its line end included."""
        return self.parts[max(bisect_right(self._starts, offset) - 1, 0)]

    def place(self, offset: int) -> tuple[int, int, int]:
        """Cell, line in it, and column of an offset of the module, from 1."""
        line, column = self.index.place(offset)
        return (*self.table.place(line), column)

    def _table(self, index: LineIndex, starts: Iterable[int]) -> CellTable:
        numbers = tuple(part.cell.number for part in self.parts)
        return CellTable(numbers, tuple(index.place(start)[0] for start in starts))

    def written(self) -> tuple[LineIndex, CellTable]:
        """The cells as they are written, one below the other, and their lines there."""
        texts = [f"{part.text}\n" for part in self.parts]
        starts = accumulate(map(len, texts[:-1]), initial=0)
        index = LineIndex("".join(texts))
        return index, self._table(index, starts)

    def holds(self, cell: int, line: int = 1) -> bool:
        """Return whether there is such a code cell with such a line."""
        return cell in self.table.numbers and line <= len(self.lines(cell).starts)

    def lines(self, cell: int) -> LineIndex:
        """A cell as it is written, with the line end that it has in the module.

        Raises:
            ValueError: there is no such code cell.
        """
        if cell not in self._lines:
            text = self.parts[self.table.numbers.index(cell)].text
            self._lines[cell] = LineIndex(f"{text}\n")
        return self._lines[cell]

    def place_in_file(self, cell: int, line: int, column: int) -> tuple[int, int]:
        """Line and column in the file of a place in a cell; those past its end mean the end.

        Raises:
            ValueError: there is no such code cell.
        """
        part = self.parts[self.table.numbers.index(cell)]
        offset = self.lines(cell).offset(line, column)
        if self._file_index is None:
            self._file_index = LineIndex(self.file)
        return self._file_index.place(self.offset_in_file(part, offset))

    def offset_in_file(self, part: ModuleCell, offset: int) -> int:
        """The offset in the file of a cell's character; the end for those past it."""
        number = part.cell.number
        if number not in self._offsets:
            self._offsets[number] = self._offsets_of(part.cell)
        offsets = self._offsets[number]
        return offsets[min(offset, len(offsets) - 1)]

    def _offsets_of(self, cell: Cell) -> list[int]:
        """Where each character of a cell starts in the file, and the end of the last piece."""
        pieces = cell.pieces
        starts = [
            match.start()
            for piece in pieces
            for match in _CHARACTER.finditer(self.file, piece.start, piece.end)
        ]
        return [*starts, pieces[-1].end if pieces else cell.start]


def _is_indented(source: str) -> bool:
    """Return whether a cell starts indented: IPython removes that from all of its lines."""
    first = next((line for line in source.splitlines() if line.strip()), "")
    return first[:1] in (" ", "\t")


def parse(text: str) -> Notebook | None:
    """A notebook from its file's text; None where it has no cell of Python.

    Raises:
        NotebookError: it is not a notebook.
    """
    document = read(text)
    if document.language not in _PYTHON:
        return None
    notebook = Notebook(text, document)
    return notebook if notebook.parts else None
