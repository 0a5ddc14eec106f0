"""The protocol's structures that workers make, as JSON has them, and the frames that hold them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing import IO

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
