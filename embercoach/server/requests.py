"""The messages that the service handles, and the requests that become jobs of a worker."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from embercoach.engine.languages import SUFFIXES
from embercoach.server import wire  # pygls evaluates the annotations of handlers
from embercoach.server.editor import options_of
from embercoach.server.jobs import Actions, FixAll, HoverJob, SignatureJob
from embercoach.server.shaped_names import inlay_hints, with_shape
from embercoach.server.wire import FIX_ALL, plain_position
from embercoach.server.workspace_reports import report

if TYPE_CHECKING:
    from embercoach.server.service import Service

#: Seconds that a hover which has a rule's page or a signature waits for shapes.
SHAPE_PATIENCE = 1.0


# The first parameter of handlers has the name by which pygls gives them the service.


async def answer_hover(ls: Service, params: types.HoverParams) -> wire.Hover | None:
    """Explain a position."""
    uri = params.text_document.uri
    followed = await ls.checked(uri)
    if followed is None:
        return None
    place = plain_position(params.position)
    job = HoverJob(followed.document, place, followed.uri_of(uri))
    page: wire.Hover | None = await ls.answer(followed, job)
    patience = None if page is None else SHAPE_PATIENCE
    return with_shape(page, await ls.shaped_names(followed, patience), place)


async def answer_inlay_hints(ls: Service, params: types.InlayHintParams) -> list[wire.InlayHint]:
    """Show the shapes of the arrays that are assigned in a range."""
    followed = await ls.checked(params.text_document.uri)
    if followed is None:
        return []
    return inlay_hints(await ls.shaped_names(followed), _range(params.range))


async def answer_code_actions(ls: Service, params: types.CodeActionParams) -> list[wire.CodeAction]:
    """List the actions of a range."""
    followed = await ls.checked(params.text_document.uri)
    if followed is None:
        return []
    only = params.context.only
    kinds = None if only is None else tuple(_name(kind) for kind in only)
    job = Actions(
        followed.document,
        followed.uri_of(params.text_document.uri),
        _range(params.range),
        kinds,
        ls.editor.knows_versions,
        ls.editor.resolves_edits,
    )
    found: list[wire.CodeAction] = await ls.answer(followed, job)
    return found


async def answer_resolve(ls: Service, action: types.CodeAction) -> dict[str, Any]:
    """Add the edit to the action that applies all safe fixes."""
    plain = ls.protocol.plain(action)
    if action.edit is None and isinstance(action.data, dict):
        followed = await ls.checked(str(action.data.get("uri")))
        if followed is not None:
            job = FixAll(followed.document, ls.editor.knows_versions)
            plain["edit"] = await ls.answer(followed, job)
    return plain


async def answer_pull(ls: Service, params: types.DocumentDiagnosticParams) -> dict[str, Any]:
    """Report the diagnostics of a document; those of a notebook's cells are published.

    Raises:
        JsonRpcException: it is not open.
    """
    followed = await ls.settled(params.text_document.uri)
    found = [] if followed is None or followed.document.cells else followed.found
    return report(found, params.previous_result_id)


def _range(place: types.Range) -> wire.Range:
    return {"start": plain_position(place.start), "end": plain_position(place.end)}


def _name(kind: Enum | str) -> str:
    return str(kind.value) if isinstance(kind, Enum) else kind


#: The command of `workspace/executeCommand`; its arguments: a document's URI and a position.
KERNEL_SIGNATURE = "embercoach.server.kernelSignature"
_KINDS = [types.CodeActionKind.QuickFix, FIX_ALL]
#: A configuration may extend files of any name.
_CONFIGURATION = "**/*.toml"
_SOURCES = f"**/*.{{{','.join(suffix.lstrip('.') for suffix in SUFFIXES)}}}"
#: Cells of Python; editors leave out the others.
NOTEBOOKS = types.NotebookDocumentSyncOptions(
    [
        types.NotebookDocumentFilterWithCells(
            [types.NotebookCellLanguage("python")],
            types.NotebookDocumentFilterNotebookType("jupyter-notebook"),
        )
    ],
    save=True,
)


def register(service: Service) -> None:
    """Add the handlers of messages to a service."""
    _register_events(service)
    _register_requests(service)

    @service.feature(types.INITIALIZE)
    def _(params: types.InitializeParams) -> None:
        # Before pygls makes the capabilities of the features that there are.
        service.options = options_of(params.initialization_options)
        for mistake in service.options.mistakes:
            service.protocol.log(mistake)
        if service.options.pull:
            _register_pulls(service)
        if service.options.hints:
            service.feature(types.TEXT_DOCUMENT_INLAY_HINT)(answer_inlay_hints)


def _register_events(service: Service) -> None:
    @service.feature(types.INITIALIZED)
    def _(_params: types.InitializedParams) -> None:
        if service.editor.watches:
            patterns = [_CONFIGURATION, _SOURCES] if service.editor.pulls else [_CONFIGURATION]
            watchers = [types.FileSystemWatcher(pattern) for pattern in patterns]
            registration = types.Registration(
                "configuration",
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                types.DidChangeWatchedFilesRegistrationOptions(watchers),
            )
            service.client_register_capability(types.RegistrationParams([registration]))

    @service.feature(types.SHUTDOWN)
    def _(_params: None) -> None:
        service.is_done = True

    @service.feature(types.TEXT_DOCUMENT_DID_SAVE)
    @service.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    async def _(
        _params: types.DidSaveTextDocumentParams | types.DidSaveNotebookDocumentParams,
    ) -> None:
        service.look_at_all()

    @service.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def _(_params: types.DidChangeWorkspaceFoldersParams) -> None:
        service.workspace_reports.change()

    @service.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def _(params: types.DidChangeWatchedFilesParams) -> None:
        if any(not change.uri.endswith(SUFFIXES) for change in params.changes):
            service.look_at_all()
        service.workspace_reports.change()


def _register_requests(service: Service) -> None:
    service.feature(types.TEXT_DOCUMENT_HOVER)(answer_hover)
    actions = types.CodeActionOptions(code_action_kinds=_KINDS, resolve_provider=True)
    service.feature(types.TEXT_DOCUMENT_CODE_ACTION, actions)(answer_code_actions)
    service.feature(types.CODE_ACTION_RESOLVE)(answer_resolve)

    @service.command(KERNEL_SIGNATURE)
    async def _(uri: str, position: types.Position) -> str | None:
        """Return the signatures of the kernels at a position, in Markdown; None if there are none.

        Raises:
            JsonRpcException: the document is not open, or there is no result.
        """
        followed = await service.checked(uri)
        if followed is None:
            return None
        job = SignatureJob(followed.document, plain_position(position), followed.uri_of(uri))
        found: str | None = await service.answer(followed, job)
        return found


def _register_pulls(service: Service) -> None:
    diagnostics = types.DiagnosticOptions(
        inter_file_dependencies=True,
        workspace_diagnostics=True,
        identifier=wire.SOURCE,
        work_done_progress=True,
    )
    service.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, diagnostics)(answer_pull)
    if not service.options.workspace:
        return

    @service.feature(types.WORKSPACE_DIAGNOSTIC)
    async def _(params: types.WorkspaceDiagnosticParams) -> dict[str, Any]:
        return await service.workspace_reports.answer(params)
