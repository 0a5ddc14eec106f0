"""The protocol's messages that the service handles, and their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from embercoach.engine.languages import SUFFIXES
from embercoach.server import wire  # pygls evaluates the annotations of handlers
from embercoach.server.editor import options_of
from embercoach.server.requests import Requests
from embercoach.server.wire import FIX_ALL

if TYPE_CHECKING:
    from embercoach.server.service import Service

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
    requests = Requests(service)
    _register_requests(service, requests)

    @service.feature(types.INITIALIZE)
    def _(params: types.InitializeParams) -> None:
        # Before pygls makes the capabilities of the features that there are.
        service.options = options_of(params.initialization_options)
        for mistake in service.options.mistakes:
            service.protocol.log(mistake)
        if service.options.pull:
            _register_pulls(service, requests)
        if service.options.hints:
            _register_hints(service, requests)


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


def _register_requests(service: Service, requests: Requests) -> None:
    @service.feature(types.TEXT_DOCUMENT_HOVER)
    async def _(params: types.HoverParams) -> wire.Hover | None:
        return await requests.hover(params)

    @service.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=_KINDS, resolve_provider=True),
    )
    async def _(params: types.CodeActionParams) -> list[wire.CodeAction]:
        return await requests.code_actions(params)

    @service.feature(types.CODE_ACTION_RESOLVE)
    async def _(action: types.CodeAction) -> dict[str, Any]:
        return await requests.resolve(action)

    @service.command(KERNEL_SIGNATURE)
    async def _(uri: str, position: types.Position) -> str | None:
        return await requests.kernel_signature(uri, position)


def _register_hints(service: Service, requests: Requests) -> None:
    @service.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    async def _(params: types.InlayHintParams) -> list[wire.InlayHint]:
        return await requests.inlay_hints(params)


def _register_pulls(service: Service, requests: Requests) -> None:
    @service.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(
            inter_file_dependencies=True,
            workspace_diagnostics=True,
            identifier=wire.SOURCE,
            work_done_progress=True,
        ),
    )
    async def _(params: types.DocumentDiagnosticParams) -> dict[str, Any]:
        return await requests.document_report(params)

    if not service.options.workspace:
        return

    @service.feature(types.WORKSPACE_DIAGNOSTIC)
    async def _(params: types.WorkspaceDiagnosticParams) -> dict[str, Any]:
        return await service.workspace_reports.answer(params)
