"""The server: an editor's messages on the event loop; its workers do the jobs."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import (
    FeatureRequestError,
    JsonRpcContentModified,
    JsonRpcException,
    JsonRpcInvalidParams,
)
from pygls.io_ import StdoutWriter
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from embercoach import __version__
from embercoach.server import commands, stream, wire  # pygls evaluates the annotations of handlers
from embercoach.server.documents import Documents, InvalidError
from embercoach.server.jobs import Actions, CheckJob, CheckOutcome, FixAll, HoverJob, Mistake
from embercoach.server.pool import ExpiredError, JobError, Pool
from embercoach.server.protocol import Protocol, quiet_expected_errors, strict_converter
from embercoach.server.wire import ERROR, FIX_ALL, SOURCE, WARNING, line_diagnostic
from embercoach.server.worker import Setup

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from embercoach.server.document import Document
    from embercoach.server.worker import Job

#: Characters of a text that is checked.
MOST_CHARACTERS = 5_000_000
_KINDS = [types.CodeActionKind.QuickFix, FIX_ALL]


@dataclass(slots=True)
class _Followed:
    """An open document: its latest text, and its jobs.

    Attributes:
        document: the text.
        check: runs or ran for that text.
        trouble: why that text has no result; None if it has one.
        expired: the kinds of jobs that exceeded the deadline on that text, and why.
        jobs: those that requests wait for.
    """

    document: Document
    check: asyncio.Task[None] | None = None
    trouble: str | None = None
    expired: dict[type, str] = field(default_factory=dict)
    jobs: set[asyncio.Task[Any]] = field(default_factory=set)

    def cancel(self) -> None:
        """Give up all jobs."""
        for task in (self.check, *self.jobs):
            if task is not None:
                task.cancel()


class Service(LanguageServer):
    """The state of one editor's session."""

    protocol: Protocol

    def __init__(self, pool: Pool) -> None:
        """Make one; texts are sent whole, so that nobody need agree on what ends a line."""
        super().__init__(
            SOURCE,
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
            protocol_cls=Protocol,
            converter_factory=strict_converter,
        )
        self._pool = pool
        self._documents = Documents()
        self._followed: dict[str, _Followed] = {}
        self._mistakes: dict[Path, str] = {}
        self.is_done = False
        _register(self)
        commands.register(self)

    async def listen(self, messages: BinaryIO) -> None:
        """Take messages until there are no more."""
        loop = asyncio.get_running_loop()
        while (
            body := await loop.run_in_executor(self.thread_pool, stream.next_body, messages)
        ) is not None:
            self.protocol.receive(body)

    def report_server_error(self, error: Exception, source: object) -> None:
        """Write an error to the editor's log, unless the answer to a request contains it."""
        if source is not FeatureRequestError:
            self.protocol.log(str(error))

    # The editor's texts.

    def open(self, params: types.DidOpenTextDocumentParams) -> None:
        """Take a text and check it.

        Raises:
            InvalidError: there can be none.
        """
        folder = (*self._folders(), Path())[0].absolute()
        self._follow(self._documents.open(params, folder))

    def change(self, params: types.DidChangeTextDocumentParams) -> None:
        """Take a newer text and check it.

        Raises:
            InvalidError: it is none.
        """
        self._follow(self._documents.change(params))

    def close(self, params: types.DidCloseTextDocumentParams) -> None:
        """Forget a document, end its jobs, and take its diagnostics away.

        Raises:
            InvalidError: it is not open.
        """
        uri = self._documents.close(params.text_document.uri)
        followed = self._followed.pop(uri, None)
        if followed is not None:
            followed.cancel()
        self._publish(uri, [], None)

    def look_at_all(self) -> None:
        """Check all open documents: what they depend on may have changed."""
        for followed in self._followed.values():
            # A text that exceeded the deadline is not tried again.
            if CheckJob not in followed.expired:
                self._check_soon(followed)

    def _follow(self, uri: str) -> None:
        """Check a document's text soon; jobs of earlier texts are given up."""
        document = self._documents.get(uri)
        before = self._followed.pop(uri, None)
        if before is not None:
            before.cancel()
        if document is not None:
            followed = self._followed[uri] = _Followed(document)
            self._check_soon(followed)

    def _check_soon(self, followed: _Followed) -> None:
        if followed.check is not None:
            followed.check.cancel()
        followed.check = asyncio.create_task(self._check(followed))

    async def _check(self, followed: _Followed) -> None:
        """Check a document and show the result, or why there is none."""
        document = followed.document
        followed.trouble = None
        try:
            if len(document.text) > MOST_CHARACTERS:
                raise JobError(
                    f"text is too large to check: {len(document.text):,} characters "
                    f"(limit: {MOST_CHARACTERS:,})"
                )
            outcome: CheckOutcome = await self._run(followed, CheckJob(document))
        except JobError as error:
            followed.trouble = str(error)
            found = line_diagnostic(str(error), WARNING, code="not-checked")
            self._publish(document.uri, [found], document.version)
            return
        self._publish(document.uri, outcome.diagnostics, document.version)
        self._show_mistake(document.path, outcome.mistake)

    async def _run(self, followed: _Followed, job: Job) -> Any:
        """Run a job, unless one of its kind exceeded the deadline on the same text.

        Raises:
            JobError: there is no result.
        """
        if type(job) in followed.expired:
            raise JobError(followed.expired[type(job)])
        try:
            return await self._pool.run(followed.document.uri, self._setup(), job)
        except ExpiredError as error:
            followed.expired[type(job)] = str(error)
            raise

    def _publish(self, uri: str, found: list[wire.Diagnostic], version: int | None = None) -> None:
        params: dict[str, Any] = {"uri": uri, "diagnostics": found}
        if version is not None:
            params["version"] = version
        self.protocol.notify_plain(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)

    def _show_mistake(self, path: Path, mistake: Mistake | None) -> None:
        """Show the error in a configuration, once and in its file, or that it is corrected."""
        if mistake is None:
            for file in [file for file in self._mistakes if path.is_relative_to(file.parent)]:
                del self._mistakes[file]
                self._publish(file.as_uri(), [])
            return
        if self._mistakes.get(mistake.path) == mistake.shown:
            return
        self._mistakes[mistake.path] = mistake.shown
        message = types.ShowMessageParams(types.MessageType.Error, f"EmberCoach: {mistake.shown}")
        self.window_show_message(message)
        found = line_diagnostic(mistake.message, ERROR, mistake.line or 1, "configuration")
        self._publish(mistake.path.as_uri(), [found])

    # The editor's requests.

    async def hover(self, params: types.HoverParams) -> wire.Hover | None:
        """Explain a position."""
        job = partial(HoverJob, position=wire.plain_position(params.position))
        found: wire.Hover | None = await self.ask(params.text_document.uri, job)
        return found

    async def ask(self, uri: str, job: Callable[[Document], Job]) -> Any:
        """Run a job on a document's latest text; None for one of no language of ours.

        Raises:
            JsonRpcException: the document is not open, or there is no result.
        """
        followed = await self._checked(uri)
        return None if followed is None else await self._answer(followed, job(followed.document))

    async def code_actions(self, params: types.CodeActionParams) -> list[wire.CodeAction]:
        """List the actions of a range."""
        only = params.context.only
        place: wire.Range = {
            "start": wire.plain_position(params.range.start),
            "end": wire.plain_position(params.range.end),
        }
        kinds = None if only is None else tuple(_name(kind) for kind in only)
        versions, resolves = self.knows_versions, self.resolves_edits
        found: list[wire.CodeAction] | None = await self.ask(
            params.text_document.uri, lambda text: Actions(text, place, kinds, versions, resolves)
        )
        return found or []

    async def resolve(self, action: types.CodeAction) -> dict[str, Any]:
        """Add the edit to the action that applies all safe fixes."""
        plain = self.protocol.plain(action)
        if action.edit is None and isinstance(action.data, dict):
            job = partial(FixAll, versioned=self.knows_versions)
            if (edit := await self.ask(str(action.data.get("uri")), job)) is not None:
                plain["edit"] = edit
        return plain

    async def _checked(self, uri: str) -> _Followed | None:
        """Wait until the latest text of a document is checked; None for one of no language of ours.

        Raises:
            JsonRpcException: it is not open, or has no result.
        """
        while True:
            try:
                document = self._documents.get(uri)
            except InvalidError as error:
                raise JsonRpcInvalidParams(str(error)) from error
            if document is None:
                return None
            followed = self._followed[document.uri]
            check = followed.check
            assert check is not None
            await asyncio.wait({check})
            if self._followed.get(document.uri) is followed and followed.check is check:
                break
        if followed.trouble is not None:
            raise _failure(followed.trouble)
        return followed

    async def _answer(self, followed: _Followed, job: Job) -> Any:
        """Run a job for a request.

        Raises:
            JsonRpcException: there is no result, or it is of an outdated text.
        """
        task = asyncio.create_task(self._run(followed, job))
        followed.jobs.add(task)
        try:
            return await task
        except JobError as error:
            raise _failure(str(error)) from error
        except asyncio.CancelledError:
            if self._followed.get(followed.document.uri) is followed:
                raise
            raise JsonRpcContentModified("document has changed") from None
        finally:
            followed.jobs.discard(task)

    # What the editor can do.

    def _folders(self) -> tuple[Path, ...]:
        uris = [folder.uri for folder in self.workspace.folders.values()]
        uris += [self.workspace.root_uri] if self.workspace.root_uri else []
        return tuple(Path(path) for path in map(to_fs_path, uris) if path)

    def _setup(self) -> Setup:
        encoding = self.workspace.position_encoding or types.PositionEncodingKind.Utf16
        return Setup(_name(encoding), self._folders())

    @property
    def knows_versions(self) -> bool:
        """Return whether the editor supports versioned changes."""
        workspace = self.client_capabilities.workspace
        edit = workspace and workspace.workspace_edit
        return bool(edit and edit.document_changes)

    @property
    def resolves_edits(self) -> bool:
        """Return whether the editor resolves an action when it is chosen."""
        document = self.client_capabilities.text_document
        action = document and document.code_action
        support = action and action.resolve_support
        return bool(support and "edit" in support.properties)

    @property
    def watches(self) -> bool:
        """Return whether the editor can watch files."""
        workspace = self.client_capabilities.workspace
        watched = workspace and workspace.did_change_watched_files
        return bool(watched and watched.dynamic_registration)


def _name(kind: Enum | str) -> str:
    return str(kind.value) if isinstance(kind, Enum) else kind


def _failure(message: str) -> JsonRpcException:
    return JsonRpcException(message, types.LSPErrorCodes.RequestFailed.value)


def serve(pool: Pool) -> bool:
    """Serve one editor on standard input and output, until it says that it is done.

    Returns:
        Whether it asked for a shutdown before it left.
    """
    # Whatever else is printed must not come between messages.
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    quiet_expected_errors()
    # The command turned it off; this process lives long, and lets go of texts in cycles.
    gc.freeze()
    gc.enable()
    service = Service(pool)
    service.protocol.set_writer(StdoutWriter(messages))
    try:
        with contextlib.suppress(SystemExit, KeyboardInterrupt, BrokenPipeError):
            asyncio.run(service.listen(sys.stdin.buffer))
    finally:
        pool.end()
    return service.is_done


def _register(service: Service) -> None:
    @service.feature(types.INITIALIZED)
    def _(server: Service, _params: types.InitializedParams) -> None:
        if server.watches:
            # A configuration may extend files of any name.
            watcher = types.FileSystemWatcher("**/*.toml")
            registration = types.Registration(
                "configuration",
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                types.DidChangeWatchedFilesRegistrationOptions([watcher]),
            )
            server.client_register_capability(types.RegistrationParams([registration]))

    @service.feature(types.SHUTDOWN)
    def _(server: Service, _params: None) -> None:
        server.is_done = True

    @service.feature(types.TEXT_DOCUMENT_DID_SAVE)
    @service.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def _(
        server: Service,
        _params: types.DidSaveTextDocumentParams | types.DidChangeWatchedFilesParams,
    ) -> None:
        server.look_at_all()

    @service.feature(types.TEXT_DOCUMENT_HOVER)
    async def _(server: Service, params: types.HoverParams) -> wire.Hover | None:
        return await server.hover(params)

    @service.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=_KINDS, resolve_provider=True),
    )
    async def _(server: Service, params: types.CodeActionParams) -> list[wire.CodeAction]:
        return await server.code_actions(params)

    @service.feature(types.CODE_ACTION_RESOLVE)
    async def _(server: Service, action: types.CodeAction) -> dict[str, Any]:
        return await server.resolve(action)
