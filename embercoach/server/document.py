"""A document of an editor, as jobs take it to a worker."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003  (of a field)
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable


class Cell(Struct, frozen=True):
    """A cell of an open notebook; ``language`` is the editor's, and not of Python for text."""

    uri: str
    version: int | None
    language: str
    is_code: bool
    text: str


class Document(Struct, frozen=True):
    """A text as the editor holds it, saved or not.

    ``cells`` are those of a notebook; its text is a notebook's file that has the same cells.
    """

    uri: str
    path: Path
    version: int | None
    text: str
    cells: tuple[Cell, ...] = ()

    @property
    def newline(self) -> str:
        """The line end that the text uses most."""
        return "\r\n" if self.text.count("\r\n") * 2 > self.text.count("\n") else "\n"


def notebook_text(cells: Iterable[Cell]) -> str:
    """Return the file of a notebook with these cells."""
    data = [
        {
            "cell_type": "code" if cell.is_code else "markdown",
            "metadata": {"vscode": {"languageId": cell.language}},
            "source": cell.text,
        }
        for cell in cells
    ]
    return json.dumps({"cells": data, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def cell_texts(text: str) -> list[str]:
    """Return the texts of all cells of a file that `notebook_text` made, edited or not."""
    sources = [cell["source"] for cell in json.loads(text)["cells"]]
    return ["".join(source) for source in sources]
