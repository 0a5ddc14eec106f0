"""The server: what an editor tells and asks for, on the event loop; answers come from the lane."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path, uri_scheme

from embercoach import __version__
from embercoach.config.files import SHARED_FILE
from embercoach.engine.languages import SUFFIXES
from embercoach.project_files import OWN_FILE
from embercoach.server import actions
from embercoach.server.analysis import Analysis, Checked, Document
from embercoach.server.diagnostics import SOURCE, configuration_diagnostic, diagnostics
from embercoach.server.hovers import found_at, hover
from embercoach.server.lane import single_lane

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

#: Seconds without a keystroke that count as a pause.
PAUSE = 2.0


class Service(LanguageServer):
    """The state of one editor's session."""

    def __init__(self) -> None:
        """Make one; texts are sent whole, so that nobody need agree on what ends a line."""
        super().__init__(
            SOURCE, __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full
        )
        self._lane = single_lane()
        self._analysis: Analysis | None = None
        self._checked: dict[str, Checked] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._mistakes: dict[Path, str] = {}
        self._pause: asyncio.TimerHandle | None = None
        self.is_done = False

    # On the event loop.

    def look_at(self, uri: str) -> None:
        """Check a document soon, or again if it is being checked: only the latest text counts."""
        if uri in self._tasks:
            self._again.add(uri)
        elif self._document(uri) is not None:
            self._tasks[uri] = asyncio.create_task(self._check(uri))

    def look_at_all(self) -> None:
        """Check all open documents: what they depend on may have changed."""
        for uri in list(self.workspace.text_documents):
            self.look_at(uri)

    def close(self, uri: str) -> None:
        """Forget a document, and take its diagnostics away."""
        self._checked.pop(uri, None)
        self._publish(uri, [], None)

    async def latest(self, uri: str) -> Checked | None:
        """What is found in the text as it is now; None if the document is none of ours."""
        document = self._document(uri)
        if document is None:
            return None
        known = self._checked.get(uri)
        if known is None or known.document.text != document.text or uri in self._tasks:
            self.look_at(uri)
            await asyncio.shield(self._tasks[uri])
        return self._checked.get(uri)

    async def in_lane(self, work: Callable[[Analysis], _T]) -> _T:
        """Let the analysis do something in its own thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._lane, lambda: work(self._warm()))

    async def _check(self, uri: str) -> None:
        """Check a document until the result is that of its latest text."""
        try:
            while True:
                checked = await self.in_lane(lambda analysis: self._newest(analysis, uri))
                if checked is None or self._document(uri) is None:
                    return
                if uri not in self._again:
                    break
            self._checked[uri] = checked
            self._publish(uri, diagnostics(checked), checked.document.version)
            self._tidy_later()
            self._tell_of_mistakes(checked)
        finally:
            del self._tasks[uri]

    def _tidy_later(self) -> None:
        """Tidy up once nothing has been typed for a while."""
        if self._pause is not None:
            self._pause.cancel()
        loop = asyncio.get_running_loop()
        self._pause = loop.call_later(PAUSE, self._lane.submit, lambda: self._warm().tidy())

    def _publish(self, uri: str, found: list[types.Diagnostic], version: int | None = None) -> None:
        params = types.PublishDiagnosticsParams(uri, found, version)
        self.text_document_publish_diagnostics(params)

    def _tell_of_mistakes(self, checked: Checked) -> None:
        """Show what is wrong with a configuration, once, and in its file; or that it is right."""
        error = checked.error
        if error is None or error.path is None:
            below = checked.document.path.is_relative_to
            for path in [path for path in self._mistakes if below(path.parent)]:
                del self._mistakes[path]
                self._publish(path.as_uri(), [])
            return
        if self._mistakes.get(error.path) == str(error):
            return
        self._mistakes[error.path] = str(error)
        message = types.ShowMessageParams(types.MessageType.Error, f"EmberCoach: {error}")
        self.window_show_message(message)
        mistake = configuration_diagnostic(error.message, error.line)
        self._publish(error.path.as_uri(), [mistake])

    # In the lane, too.

    def _document(self, uri: str) -> Document | None:
        """The text of an open document as it is now; None if it is none of ours."""
        held = self.workspace.text_documents.get(uri)
        path = self._path(uri)
        if held is None or path is None:
            return None
        if path.suffix not in SUFFIXES and held.language_id != "python":
            return None
        version = held.version  # before the text: at worst that is newer, and comes again
        return Document(uri, path, version, held.source)

    def _path(self, uri: str) -> Path | None:
        file = to_fs_path(uri)
        if file:
            return Path(file)
        if uri_scheme(uri) != "untitled":
            return None
        return (*self._folders(), Path.cwd())[0] / Path(uri.partition(":")[2]).name

    def _folders(self) -> tuple[Path, ...]:
        uris = [folder.uri for folder in self.workspace.folders.values()]
        uris += [self.workspace.root_uri] if self.workspace.root_uri else []
        return tuple(Path(path) for path in map(to_fs_path, uris) if path)

    def _newest(self, analysis: Analysis, uri: str) -> Checked | None:
        self._again.discard(uri)  # whatever comes after this comes again
        document = self._document(uri)
        return None if document is None else analysis.check(document)

    def _warm(self) -> Analysis:
        if self._analysis is None:
            encoding = self.workspace.position_encoding or types.PositionEncodingKind.Utf16
            name = encoding.value if isinstance(encoding, types.PositionEncodingKind) else encoding
            self._analysis = Analysis(name, self._folders())
        return self._analysis

    # What the editor can do.

    @property
    def knows_versions(self) -> bool:
        """Whether the editor takes changes that name the version they are for."""
        workspace = self.client_capabilities.workspace
        edit = workspace and workspace.workspace_edit
        return bool(edit and edit.document_changes)

    @property
    def resolves_edits(self) -> bool:
        """Whether the editor asks for an action's edit when it is chosen."""
        document = self.client_capabilities.text_document
        action = document and document.code_action
        support = action and action.resolve_support
        return bool(support and "edit" in support.properties)

    @property
    def watches(self) -> bool:
        """Whether the editor can be asked to watch files."""
        workspace = self.client_capabilities.workspace
        watched = workspace and workspace.did_change_watched_files
        return bool(watched and watched.dynamic_registration)

    async def edit_all(self, checked: Checked) -> types.WorkspaceEdit:
        """All safe fixes of a document.

        Raises:
            ValueError: fixing failed; says why.
        """
        fixed = await self.in_lane(lambda analysis: analysis.fixed(checked))
        if fixed.trouble and not fixed.applied:
            raise ValueError(fixed.trouble)
        edits = checked.positions.edits_to(fixed.new)
        return actions.change(checked.document, edits, versioned=self.knows_versions)


def serve() -> bool:
    """Serve one editor on standard input and output, until it says that it is done.

    Returns:
        Whether it asked for a shutdown before it left.
    """
    # Whatever else is printed must not come between messages.
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    service = Service()
    _follow_texts(service)
    _answer(service)
    service.start_io(sys.stdin.buffer, messages)
    return service.is_done


def _follow_texts(service: Service) -> None:
    @service.feature(types.INITIALIZED)
    def _(server: Service, _params: types.InitializedParams) -> None:
        if server.watches:
            watcher = types.FileSystemWatcher(f"**/{{{OWN_FILE},{SHARED_FILE}}}")
            registration = types.Registration(
                "configuration",
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                types.DidChangeWatchedFilesRegistrationOptions([watcher]),
            )
            server.client_register_capability(types.RegistrationParams([registration]))

    @service.feature(types.SHUTDOWN)
    def _(server: Service, _params: None) -> None:
        server.is_done = True

    @service.feature(types.TEXT_DOCUMENT_DID_OPEN)
    @service.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def _(
        server: Service,
        params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams,
    ) -> None:
        server.look_at(params.text_document.uri)

    @service.feature(types.TEXT_DOCUMENT_DID_SAVE)
    @service.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def _(
        server: Service,
        _params: types.DidSaveTextDocumentParams | types.DidChangeWatchedFilesParams,
    ) -> None:
        server.look_at_all()

    @service.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def _(server: Service, params: types.DidCloseTextDocumentParams) -> None:
        server.close(params.text_document.uri)


def _answer(service: Service) -> None:
    @service.feature(types.TEXT_DOCUMENT_HOVER)
    async def _(server: Service, params: types.HoverParams) -> types.Hover | None:
        checked = await server.latest(params.text_document.uri)
        if checked is None:
            return None
        line, column = checked.positions.place(params.position)
        kernels = await server.in_lane(lambda analysis: analysis.kernels(checked, line))
        return hover(checked, found_at(checked, line, column), kernels)

    @service.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=list(actions.KINDS), resolve_provider=True),
    )
    async def _(server: Service, params: types.CodeActionParams) -> list[types.CodeAction]:
        checked = await server.latest(params.text_document.uri)
        if checked is None:
            return []
        only = params.context.only
        found: list[types.CodeAction] = []
        if actions.wanted(types.CodeActionKind.QuickFix, only):
            found += actions.quick_fixes(checked, params.range, versioned=server.knows_versions)
        if actions.wanted(actions.FIX_ALL, only) and actions.fixable(checked):
            edit = None if server.resolves_edits else await server.edit_all(checked)
            found.append(actions.fix_all(checked.document, edit))
        return found

    @service.feature(types.CODE_ACTION_RESOLVE)
    async def _(server: Service, action: types.CodeAction) -> types.CodeAction:
        if action.edit is None and isinstance(action.data, dict):
            checked = await server.latest(str(action.data.get("uri")))
            if checked is not None:
                action.edit = await server.edit_all(checked)
        return action
