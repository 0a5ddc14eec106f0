"""Messages of server and workers: frames, documents, and the protocol's structures in JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypedDict

from msgspec import Struct

if TYPE_CHECKING:
    from lsprotocol import types

_LENGTH = struct.Struct("<Q")


def write(stream: IO[bytes], body: bytes) -> None:
    """Send a message.

    Raises:
        OSError: the other end is gone.
    """
    stream.write(_LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()


def read(stream: IO[bytes]) -> bytes | None:
    """Receive a message; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None


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


Severity = Literal[1, 2, 3, 4]
ERROR: Severity = 1
WARNING: Severity = 2
INFORMATION: Severity = 3
HINT: Severity = 4
#: The tag of what may go: editors fade it.
UNNECESSARY = 1
QUICK_FIX = "quickfix"
#: The kind of the code action that applies all safe fixes.
FIX_ALL = "source.fixAll.embercoach"
SOURCE = "embercoach"


class Position(TypedDict):
    """A place: lines and characters count from 0."""

    line: int
    character: int


class Range(TypedDict):
    """Two places; the end is exclusive."""

    start: Position
    end: Position


class TextEdit(TypedDict):
    """A replacement."""

    range: Range
    newText: str


class Location(TypedDict):
    """A place in a document."""

    uri: str
    range: Range


class RelatedInformation(TypedDict):
    """A place that explains a diagnostic."""

    location: Location
    message: str


class _Code(TypedDict, total=False):
    code: str
    codeDescription: dict[str, str]
    tags: list[int]
    data: dict[str, Any]
    relatedInformation: list[RelatedInformation]


class Diagnostic(_Code):
    """A diagnostic."""

    range: Range
    severity: Severity
    source: str
    message: str


class InlayHint(TypedDict):
    """A text that an editor shows within a line."""

    position: Position
    label: str
    kind: int


class WorkspaceEdit(TypedDict, total=False):
    """Edits of documents, with the version they are for or without."""

    changes: dict[str, list[TextEdit]]
    documentChanges: list[dict[str, Any]]


class _Action(TypedDict, total=False):
    diagnostics: list[Diagnostic]
    isPreferred: bool
    edit: WorkspaceEdit
    data: dict[str, str]


class CodeAction(_Action):
    """A code action."""

    title: str
    kind: str


class _Content(TypedDict):
    kind: Literal["markdown"]
    value: str


class _Hover(TypedDict, total=False):
    range: Range


class Hover(_Hover):
    """A hover."""

    contents: _Content


def plain_position(position: types.Position) -> Position:
    """Return a position as JSON has it."""
    return {"line": position.line, "character": position.character}


def line_diagnostic(
    message: str, severity: Severity, line: int = 1, code: str | None = None
) -> Diagnostic:
    """Return a diagnostic of a whole line, counted from 1."""
    start: Position = {"line": line - 1, "character": 0}
    end: Position = {"line": line, "character": 0}
    found: Diagnostic = {
        "range": {"start": start, "end": end},
        "severity": severity,
        "source": SOURCE,
        "message": message,
    }
    if code is not None:
        found["code"] = code
    return found
