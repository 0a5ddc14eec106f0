"""An editor, as far as the language server can tell: a client over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.client import BaseLanguageClient

T = TypeVar("T")

PATIENCE = 30.0
SERVER = (sys.executable, "-m", "embercoach", "server", "--stdio")


class Editor:
    """Starts the server and talks to it; each call waits for its answer."""

    def __init__(
        self,
        folder: Path,
        *,
        resolves: bool = True,
        encodings: Any = None,
        pulls: bool = False,
        options: Any = None,
    ) -> None:
        self.folder = folder
        self._loop = asyncio.new_event_loop()
        self._published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.messages: list[str] = []
        self.logged: list[str] = []
        self.progress: list[tuple[str, Any]] = []
        self.refreshes = 0
        self.registered: list[str] = []
        self._versions: dict[str, int] = {}
        self._client = client = BaseLanguageClient("editor", "1")
        client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(
            lambda params: self._published.put_nowait(params)  # noqa: PLW0108  (pygls marks it)
        )
        client.feature(types.WINDOW_SHOW_MESSAGE)(lambda m: self.messages.append(m.message))
        client.feature(types.CLIENT_REGISTER_CAPABILITY)(
            lambda params: self._register(params)  # noqa: PLW0108
        )
        client.feature(types.WINDOW_LOG_MESSAGE)(lambda m: self.logged.append(m.message))
        client.feature(types.PROGRESS)(lambda params: self._progress(params))  # noqa: PLW0108
        client.feature(types.WORKSPACE_DIAGNOSTIC_REFRESH)(lambda _: self._refresh())
        self._wait(client.start_io(*SERVER))
        # A server whose standard error nobody reads stops once the pipe is full.
        assert client._server is not None
        assert client._server.stderr is not None
        self._errors = self._loop.create_task(client._server.stderr.read())
        action = types.ClientCodeActionResolveOptions(["edit"]) if resolves else None
        watching = types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True)
        capabilities = types.ClientCapabilities(
            general=types.GeneralClientCapabilities(position_encodings=encodings),
            text_document=types.TextDocumentClientCapabilities(
                code_action=types.CodeActionClientCapabilities(resolve_support=action),
                diagnostic=types.DiagnosticClientCapabilities() if pulls else None,
            ),
            notebook_document=types.NotebookDocumentClientCapabilities(
                types.NotebookDocumentSyncClientCapabilities()
            ),
            workspace=types.WorkspaceClientCapabilities(
                workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=resolves),
                did_change_watched_files=watching,
                diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=pulls),
            ),
        )
        params = types.InitializeParams(
            capabilities=capabilities,
            root_uri=folder.as_uri(),
            initialization_options=options,
            workspace_folders=[types.WorkspaceFolder(folder.as_uri(), folder.name)],
        )
        self.server = self._wait(client.initialize_async(params)).capabilities
        client.initialized(types.InitializedParams())

    def _register(self, params: types.RegistrationParams) -> None:
        self.registered += [one.method for one in params.registrations]

    def _progress(self, params: types.ProgressParams) -> None:
        self.progress.append((str(params.token), params.value))

    def _refresh(self) -> None:
        self.refreshes += 1

    def start(self, coroutine: Awaitable[T]) -> asyncio.Future[T]:
        """Start a request, without waiting for its answer."""
        return asyncio.ensure_future(coroutine, loop=self._loop)

    def wait(self, coroutine: Awaitable[T]) -> T:
        return self._wait(coroutine)

    def pause(self, seconds: float) -> None:
        """Let messages come in for a while."""
        self._loop.run_until_complete(asyncio.sleep(seconds))

    @property
    def client(self) -> BaseLanguageClient:
        return self._client

    @property
    def is_silent(self) -> bool:
        """Return whether all published diagnostics were taken."""
        return self._published.empty()

    def _wait(self, coroutine: Awaitable[T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(coroutine, PATIENCE))

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str, language: str = "python") -> list[types.Diagnostic]:
        """Open a text, in a file or not; what is published of it."""
        self.begin(name, text, language)
        return self.published(name)

    def begin(self, name: str, text: str, language: str = "python") -> None:
        """Open a text, and don't wait."""
        self._versions[name] = 1
        item = types.TextDocumentItem(self.uri(name), language, 1, text)
        self._client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def type(self, name: str, text: str) -> int:
        """Replace a text, and don't wait; its version."""
        self._versions[name] += 1
        version = self._versions[name]
        identifier = types.VersionedTextDocumentIdentifier(version, self.uri(name))
        change = [types.TextDocumentContentChangeWholeDocument(text)]
        self._client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, change))
        return version

    def change(self, name: str, text: str) -> list[types.Diagnostic]:
        """Replace a text; what is published of it."""
        self.type(name, text)
        return self.published(name)

    def save(self, name: str) -> None:
        self._client.text_document_did_save(types.DidSaveTextDocumentParams(self._id(name)))

    def close(self, name: str) -> list[types.Diagnostic]:
        self._client.text_document_did_close(types.DidCloseTextDocumentParams(self._id(name)))
        return list(self.next(name).diagnostics)

    def configuration_changed(self, name: str) -> None:
        event = types.FileEvent(self.uri(name), types.FileChangeType.Changed)
        self._client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))

    def next(self, name: str) -> types.PublishDiagnosticsParams:
        """What is published next of a file."""
        return self.next_of(self.uri(name))

    def next_of(self, *uris: str) -> types.PublishDiagnosticsParams:
        """Return the next diagnostics that are published of one of some URIs."""
        while True:
            params = self._wait(self._published.get())
            if params.uri in uris:
                return params

    def published(self, name: str) -> list[types.Diagnostic]:
        """What is published of a text's latest version."""
        while True:
            params = self.next(name)
            if params.version == self._versions[name]:
                return list(params.diagnostics)

    def hover(self, name: str, line: int, character: int) -> str | None:
        """The Markdown of a place, as editors count: from 0."""
        return self.hover_at(self.uri(name), types.Position(line, character))

    def hover_at(self, uri: str, position: types.Position) -> str | None:
        params = types.HoverParams(types.TextDocumentIdentifier(uri), position)
        found = self._wait(self._client.text_document_hover_async(params))
        if found is None:
            return None
        assert isinstance(found.contents, types.MarkupContent)
        assert found.contents.kind == types.MarkupKind.Markdown
        return found.contents.value

    def actions(
        self, name: str, place: types.Range, only: list[str] | None = None
    ) -> list[types.CodeAction]:
        """The code actions of a range."""
        return self.actions_at(self.uri(name), place, only)

    def actions_at(
        self, uri: str, place: types.Range, only: list[str] | None = None
    ) -> list[types.CodeAction]:
        context = types.CodeActionContext([], only)
        identifier = types.TextDocumentIdentifier(uri)
        params = types.CodeActionParams(identifier, place, context)
        found = self._wait(self._client.text_document_code_action_async(params)) or []
        assert all(isinstance(one, types.CodeAction) for one in found)
        return [one for one in found if isinstance(one, types.CodeAction)]

    def command(self, name: str, *arguments: Any) -> Any:
        """The result of a command."""
        params = types.ExecuteCommandParams(name, list(arguments))
        return self._wait(self._client.workspace_execute_command_async(params))

    def resolve(self, action: types.CodeAction) -> types.CodeAction:
        return self._wait(self._client.code_action_resolve_async(action))

    def stop(self) -> int | None:
        """Shut the server down as the protocol says; its exit code."""
        process = self._client._server
        assert process is not None
        self._wait(self._client.shutdown_async(None))
        self._client.exit(None)
        code = self._wait(process.wait())
        self._wait(self._errors)
        self._wait(self._client.stop())
        self._loop.close()
        return code

    def _id(self, name: str) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.uri(name))


def applied(text: str, action: types.CodeAction) -> str:
    """A text after an action's edits, by UTF-16 as the protocol counts."""
    assert action.edit is not None
    if action.edit.document_changes:
        (change,) = action.edit.document_changes
        assert isinstance(change, types.TextDocumentEdit)
        edits = [edit for edit in change.edits if isinstance(edit, types.TextEdit)]
        assert len(edits) == len(change.edits)
    else:
        assert action.edit.changes is not None
        (edits,) = map(list, action.edit.changes.values())
    data = text.encode("utf-16-le")
    for edit in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character))[::-1]:
        start, end = _byte(text, edit.range.start), _byte(text, edit.range.end)
        data = data[:start] + edit.new_text.encode("utf-16-le") + data[end:]
    return data.decode("utf-16-le")


def _byte(text: str, position: types.Position) -> int:
    lines = text.splitlines(keepends=True)
    before = "".join(lines[: position.line])
    return len(before.encode("utf-16-le")) + 2 * position.character
