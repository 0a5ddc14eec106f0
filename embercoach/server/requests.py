"""The requests of an editor about a document: each becomes a job of a worker."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from embercoach.server.jobs import Actions, FixAll, HoverJob, SignatureJob
from embercoach.server.pull.reports import report
from embercoach.server.shaped_names import inlay_hints, with_shape
from embercoach.server.wire import plain_position

if TYPE_CHECKING:
    from lsprotocol import types

    from embercoach.server import wire
    from embercoach.server.service import Service


#: Seconds that a hover which has a rule's page or a signature waits for shapes.
SHAPE_PATIENCE = 1.0


class Requests:
    """The requests of one session."""

    def __init__(self, service: Service) -> None:
        """Take the service, which has the documents."""
        self._service = service

    async def hover(self, params: types.HoverParams) -> wire.Hover | None:
        """Explain a position."""
        uri = params.text_document.uri
        followed = await self._service.checked(uri)
        if followed is None:
            return None
        place = plain_position(params.position)
        job = HoverJob(followed.document, place, followed.uri_of(uri))
        page: wire.Hover | None = await self._service.answer(followed, job)
        patience = None if page is None else SHAPE_PATIENCE
        return with_shape(page, await self._service.shaped_names(followed, patience), place)

    async def inlay_hints(self, params: types.InlayHintParams) -> list[wire.InlayHint]:
        """Show the shapes of the arrays that are assigned in a range."""
        followed = await self._service.checked(params.text_document.uri)
        if followed is None:
            return []
        return inlay_hints(await self._service.shaped_names(followed), _range(params.range))

    async def kernel_signature(self, uri: str, position: types.Position) -> str | None:
        """Return the signatures of the kernels at a position, in Markdown; None if there are none.

        Raises:
            JsonRpcException: the document is not open, or there is no result.
        """
        followed = await self._service.checked(uri)
        if followed is None:
            return None
        job = SignatureJob(followed.document, plain_position(position), followed.uri_of(uri))
        found: str | None = await self._service.answer(followed, job)
        return found

    async def code_actions(self, params: types.CodeActionParams) -> list[wire.CodeAction]:
        """List the actions of a range."""
        followed = await self._service.checked(params.text_document.uri)
        if followed is None:
            return []
        only = params.context.only
        kinds = None if only is None else tuple(_name(kind) for kind in only)
        job = Actions(
            followed.document,
            followed.uri_of(params.text_document.uri),
            _range(params.range),
            kinds,
            self._service.editor.knows_versions,
            self._service.editor.resolves_edits,
        )
        found: list[wire.CodeAction] = await self._service.answer(followed, job)
        return found

    async def resolve(self, action: types.CodeAction) -> dict[str, Any]:
        """Add the edit to the action that applies all safe fixes."""
        plain = self._service.protocol.plain(action)
        if action.edit is None and isinstance(action.data, dict):
            followed = await self._service.checked(str(action.data.get("uri")))
            if followed is not None:
                job = FixAll(followed.document, self._service.editor.knows_versions)
                plain["edit"] = await self._service.answer(followed, job)
        return plain

    async def document_report(self, params: types.DocumentDiagnosticParams) -> dict[str, Any]:
        """Report the diagnostics of a document; those of a notebook's cells are published.

        Raises:
            JsonRpcException: it is not open.
        """
        followed = await self._service.settled(params.text_document.uri)
        found = [] if followed is None or followed.document.cells else followed.found
        return report(found, params.previous_result_id)


def _range(place: types.Range) -> wire.Range:
    return {"start": plain_position(place.start), "end": plain_position(place.end)}


def _name(kind: Enum | str) -> str:
    return str(kind.value) if isinstance(kind, Enum) else kind
