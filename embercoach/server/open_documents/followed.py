"""An open document as the server follows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    import asyncio

    from embercoach.server import wire
    from embercoach.server.open_documents.document import Document
    from embercoach.server.shaped_names import ShapedName


@dataclass(slots=True)
class Followed:
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
        """The URI as the document, or the notebook, has it: it may differ in escapes."""
        cells = (cell.uri for cell in self.document.cells)
        return next((cell for cell in cells if unquote(cell) == unquote(uri)), self.document.uri)

    def cancel(self) -> None:
        """Give up all jobs."""
        for task in (self.check, *self.jobs):
            if task is not None:
                task.cancel()
