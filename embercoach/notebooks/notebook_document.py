"""A notebook's file: its cells, and where in the JSON each piece of their sources stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from embercoach.finding import PlacedError
from embercoach.fixes.source_file import LineIndex

#: The version of the format that Jupyter writes since 2015.
FORMAT = 4
_SPACE = " \t\r\n"


class NotebookError(PlacedError):
    """A file that is not a notebook: line and column (from 1) in the file."""


class CellPiece(Struct, frozen=True):
    """A JSON string of a cell's source: its text, and the offsets between its quotes."""

    text: str
    start: int
    end: int


class Cell(Struct, frozen=True):
    """A code cell.

    Attributes:
        number: its place among all cells, from 1.
        start: the offset of its source.
        pieces: the strings of its source; usually one a line.
        separator: what stands between two of them; None where the source is a single string.
        language: what an editor has set for this cell alone, if it has.
    """

    number: int
    start: int
    pieces: tuple[CellPiece, ...]
    separator: str | None
    language: str | None

    @property
    def text(self) -> str:
        """The source."""
        return "".join(piece.text for piece in self.pieces)


class NotebookDocument(Struct, frozen=True):
    """The code cells of a notebook, and the language of its kernel if known."""

    cells: tuple[Cell, ...]
    language: str | None


def read(text: str) -> NotebookDocument:
    """Read a notebook.

    Raises:
        NotebookError: it is not JSON, not of format 4, or its cells are not as they must be.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        if cut and text.strip():
            line = text.count("\n") + 1
            column = len(text) - text.rfind("\n")
            message = "truncated notebook: the file ends within its JSON"
            raise NotebookError(line, column, message) from error
        message = f"not a notebook: not valid JSON: {error.msg}"
        raise NotebookError(error.lineno, error.colno, message) from error
    except RecursionError as error:
        raise NotebookError(1, 1, "not a notebook: nested too deep") from error
    except ValueError as error:  # a number with thousands of digits
        raise NotebookError(1, 1, f"not a notebook: {error}") from error
    return _Reader(text).document(data)


class _Reader:
    """Walks over JSON that is known to be valid; offsets are those of its characters."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decode = json.JSONDecoder().raw_decode

    def document(self, data: Any) -> NotebookDocument:
        if not isinstance(data, dict):
            raise self._error(0, "it holds no JSON object")
        members = self._members(self._skip(0))[0]
        if "nbformat" not in data:
            raise self._error(0, '"nbformat" is missing')
        self._check_format(data["nbformat"], members["nbformat"])
        if "cells" not in data:
            raise self._error(0, '"cells" is missing')
        if not isinstance(data["cells"], list):
            raise self._error(members["cells"], '"cells" must be a list')
        starts = self._items(members["cells"])
        pairs = zip(data["cells"], starts, strict=True)
        cells = (self._cell(number, *pair) for number, pair in enumerate(pairs, 1))
        return NotebookDocument(
            tuple(cell for cell in cells if cell), _language(data.get("metadata"))
        )

    def _check_format(self, version: Any, at: int) -> None:
        if isinstance(version, bool) or not isinstance(version, int):
            raise self._error(at, '"nbformat" must be a whole number')
        if version < FORMAT:
            way = "`jupyter nbconvert --to notebook --inplace FILE`"
            raise self._error(at, f"format {version} is out of use; {way} brings it up to date")
        if version > FORMAT:
            raise self._error(at, f"format {version} is not known; EmberCoach reads {FORMAT}")

    def _cell(self, number: int, data: Any, start: int) -> Cell | None:
        if not isinstance(data, dict):
            raise self._error(start, f"cell {number} must be an object")
        kind = data.get("cell_type")
        if not isinstance(kind, str):
            raise self._error(start, f'cell {number} must have a text "cell_type"')
        if kind != "code":
            return None
        source = data.get("source")
        if not isinstance(source, str | list):
            raise self._error(start, f'"source" of cell {number} must be a text or a list of texts')
        at = self._members(start)[0]["source"]
        if isinstance(source, str):
            pieces = [self._piece(source, at)]
            separator = None
        else:
            pieces = list(self._pieces(source, self._items(at), number))
            separator = self._separator(pieces, at)
        self._refuse_oddities(pieces, number)
        return Cell(number, at, tuple(pieces), separator, _editor_language(data.get("metadata")))

    def _pieces(self, lines: list[Any], starts: list[int], number: int) -> Iterator[CellPiece]:
        for line, start in zip(lines, starts, strict=True):
            if not isinstance(line, str):
                raise self._error(start, f'"source" of cell {number} must hold texts alone')
            yield self._piece(line, start)

    def _piece(self, text: str, start: int) -> CellPiece:
        return CellPiece(text, start + 1, self._decode(self._text, start)[1] - 1)

    def _separator(self, pieces: list[CellPiece], start: int) -> str:
        if not pieces:
            return ", "
        if len(pieces) > 1:
            return self._text[pieces[0].end + 1 : pieces[1].start - 1]
        return f",{self._text[start + 1 : pieces[0].start - 1] or ' '}"

    def _refuse_oddities(self, pieces: list[CellPiece], number: int) -> None:
        for piece in pieces:
            if "\0" in piece.text:
                raise self._error(piece.start, f"cell {number} holds a null byte")
            try:
                piece.text.encode()
            except UnicodeEncodeError as error:
                message = f"cell {number} holds half a character"
                raise self._error(piece.start, message) from error

    def _members(self, start: int) -> tuple[dict[str, int], int]:
        """Return where the values of an object start, and where it ends."""
        found = {}
        at = self._skip(start + 1)
        while self._text[at] != "}":
            key, at = self._decode(self._text, at)
            found[key] = at = self._skip(self._skip(at) + 1)
            at = self._behind(at)
        return found, at + 1

    def _items(self, start: int) -> list[int]:
        """Return where the items of a list start."""
        found = []
        at = self._skip(start + 1)
        while self._text[at] != "]":
            found.append(at)
            at = self._behind(at)
        return found

    def _behind(self, at: int) -> int:
        """Return the start of the text after a value and a comma."""
        at = self._skip(self._decode(self._text, at)[1])
        return self._skip(at + 1) if self._text[at] == "," else at

    def _skip(self, at: int) -> int:
        while at < len(self._text) and self._text[at] in _SPACE:
            at += 1
        return at

    def _error(self, at: int, message: str) -> NotebookError:
        line, column = LineIndex(self._text).place(at)
        return NotebookError(line, column, f"not a notebook: {message}")


def _language(metadata: Any) -> str | None:
    """Return the kernel's language: of the one that ran last, or of the one that is chosen."""
    if not isinstance(metadata, dict):
        return None
    for member, key in (("language_info", "name"), ("kernelspec", "language")):
        declared = metadata.get(member)
        if isinstance(declared, dict) and isinstance(declared.get(key), str):
            return str(declared[key]).lower()
    return None


def _editor_language(metadata: Any) -> str | None:
    declared = metadata.get("vscode") if isinstance(metadata, dict) else None
    language = declared.get("languageId") if isinstance(declared, dict) else None
    return language.lower() if isinstance(language, str) else None
