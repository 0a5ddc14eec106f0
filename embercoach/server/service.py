"""The server: an editor's messages on the event loop; its workers do the jobs."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

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
from embercoach.server import protocol
from embercoach.server.documents import Documents, Followed, InvalidError, cited
from embercoach.server.editor import Editor, Options
from embercoach.server.jobs import CheckJob, CheckOutcome, Mistake, ShapesJob
from embercoach.server.notebook_documents import Notebooks
from embercoach.server.pool import ExpiredError, JobError, Pool
from embercoach.server.protocol import Protocol, quiet_expected_errors, strict_converter
from embercoach.server.requests import NOTEBOOKS, register
from embercoach.server.wire import ERROR, SOURCE, WARNING, line_diagnostic
from embercoach.server.worker import Setup
from embercoach.server.workspace_reports import WorkspaceReports, report

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import BinaryIO

    from embercoach.server import wire
    from embercoach.server.shaped_names import ShapedName
    from embercoach.server.wire import Document
    from embercoach.server.worker import Job

#: Characters of a text that is checked.
MOST_CHARACTERS = 5_000_000


class Service(LanguageServer):
    """The state of one editor's session."""

    protocol: Protocol

    def __init__(self, pool: Pool) -> None:
        """Make one; texts are sent whole, so that nobody need agree on what ends a line."""
        super().__init__(
            SOURCE,
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
            notebook_document_sync=NOTEBOOKS,
            protocol_cls=Protocol,
            converter_factory=strict_converter,
        )
        self._pool = pool
        self._documents = Documents()
        self._notebooks = Notebooks()
        self.workspace_reports = WorkspaceReports(self)
        self._followed: dict[str, Followed] = {}
        self._mistakes: dict[Path, str] = {}
        self.options = Options()
        self.is_done = False
        register(self)

    async def listen(self, messages: BinaryIO) -> None:
        """Take messages until there are no more."""
        loop = asyncio.get_running_loop()
        while (
            body := await loop.run_in_executor(self.thread_pool, protocol.next_body, messages)
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
        self._follow(self._documents.open(params, self._first_folder()))

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
        self._forget(uri, [uri])

    def open_notebook(self, params: types.DidOpenNotebookDocumentParams) -> None:
        """Take a notebook and check it.

        Raises:
            InvalidError: it is malformed.
        """
        self._follow(self._notebooks.open(params, self._first_folder()))
        # Its file has no findings while its cells have them.
        self.workspace_reports.change()

    def change_notebook(self, params: types.DidChangeNotebookDocumentParams) -> None:
        """Take newer cells and check the notebook.

        Raises:
            InvalidError: there are no such cells.
        """
        uri, gone = self._notebooks.change(params, self._setup().encoding)
        for cell in gone:
            self._publish(cell, [])
        self._follow(uri)

    def close_notebook(self, params: types.DidCloseNotebookDocumentParams) -> None:
        """Forget a notebook, as `close` does a document.

        Raises:
            InvalidError: it is not open.
        """
        self._forget(*self._notebooks.close(params.notebook_document.uri))

    def look_at_all(self) -> None:
        """Check all open documents: what they depend on may have changed."""
        for followed in self._followed.values():
            # A text that exceeded the deadline is not tried again.
            if CheckJob not in followed.expired:
                self._check_soon(followed)
        self.workspace_reports.change()
        if self.editor.refreshes:
            self.workspace_diagnostic_refresh(None)
        if self.editor.refreshes_hints:
            self.workspace_inlay_hint_refresh(None)

    def _forget(self, uri: str, shown: Iterable[str]) -> None:
        """End the jobs of a document, and take away what its URIs show."""
        followed = self._followed.pop(uri, None)
        if followed is not None:
            followed.cancel()
        for one in shown:
            self._publish(one, [], None)
        if self.is_open(uri):
            self._follow(uri)  # editors may open a notebook's file as a text too
        self.workspace_reports.change()

    def _document(self, uri: str) -> Document | None:
        """The document, or the notebook that a cell with this URI is in; see `Documents.get`."""
        is_cell = self._notebooks.holds_cell(uri)
        return self._notebooks.get(uri) if is_cell else self._documents.get(uri)

    def _follow(self, uri: str) -> None:
        """Check a document's text soon; jobs of earlier texts are given up."""
        is_notebook = self._notebooks.is_open(uri)
        document = self._notebooks.get(uri) if is_notebook else self._documents.get(uri)
        key = uri if document is None else document.uri
        before = self._followed.pop(key, None)
        if before is not None:
            before.cancel()
        if document is not None:
            followed = self._followed[key] = Followed(document)
            self._check_soon(followed)

    def _check_soon(self, followed: Followed) -> None:
        if followed.check is not None:
            followed.check.cancel()
        followed.shapes = None
        followed.check = asyncio.create_task(self._check(followed))

    async def _check(self, followed: Followed) -> None:
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
            found = [line_diagnostic(str(error), WARNING, code="not-checked")]
            self._show(followed, found, (found,))
            return
        self._show(followed, outcome.diagnostics, outcome.cells)
        self._show_mistake(document.path, outcome.mistake)

    def _show(
        self,
        followed: Followed,
        found: list[wire.Diagnostic],
        cells: tuple[list[wire.Diagnostic], ...],
    ) -> None:
        """Publish the diagnostics of a document, unless the editor asks for them, or of cells.

        Editors that ask for those of documents differ on cells: these are published to all.
        """
        document = followed.document
        followed.found = found
        for number, cell in enumerate(document.cells):
            of_cell = cells[number] if number < len(cells) else []
            self._publish(cell.uri, of_cell, cell.version)
        if not document.cells and not self.editor.pulls:
            self._publish(document.uri, found, document.version)

    async def _run(self, followed: Followed, job: Job) -> Any:
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

    def is_open(self, uri: str) -> bool:
        """Return whether a URI is that of an open document or notebook."""
        return self._documents.is_open(uri) or self._notebooks.is_open(uri)

    async def open_report(self, path: Path, previous: Mapping[str, str]) -> dict[str, Any] | None:
        """Report a file that is open, as a part of a workspace's report; None if it is not.

        Args:
            path: of the file.
            previous: the ids of earlier reports by unquoted URI.
        """
        opened = [uri for uri, one in self._followed.items() if one.document.path == path]
        followed = await self._settled(opened[0]) if opened else None
        if followed is None:
            return None
        document, is_notebook = followed.document, bool(followed.document.cells)
        found = [] if is_notebook else followed.found
        head = {"uri": document.uri, "version": None if is_notebook else document.version}
        return {**head, **report(found, previous.get(unquote(document.uri)))}

    async def run(self, name: str, job: Job) -> Any:
        """Run a job of no open document; those with one name run one after the other.

        Raises:
            JobError: there is no result.
        """
        return await self._pool.run(name, self._setup(), job)

    async def checked(self, uri: str) -> Followed | None:
        """Wait as `settled` does, for a document with a result.

        Raises:
            JsonRpcException: it is not open, or has no result.
        """
        followed = await self.settled(uri)
        if followed is not None and followed.trouble is not None:
            raise _failure(followed.trouble)
        return followed

    async def settled(self, uri: str) -> Followed | None:
        """Wait until the latest text of a document is checked; None for one of no language of ours.

        Raises:
            JsonRpcException: it is not open.
        """
        while True:
            try:
                document = self._document(uri)
            except InvalidError as error:
                raise JsonRpcInvalidParams(str(error)) from error
            if document is None:
                return None
            followed = await self._settled(document.uri)
            if followed is not None:
                return followed

    async def _settled(self, uri: str) -> Followed | None:
        """Wait until the latest text of a document or notebook is checked; None if it is closed."""
        while (followed := self._followed.get(uri)) is not None:
            check = followed.check
            assert check is not None
            await asyncio.wait({check})
            if self._followed.get(uri) is followed and followed.check is check:
                return followed
        return None

    async def answer(self, followed: Followed, job: Job) -> Any:
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

    async def shaped_names(
        self, followed: Followed, patience: float | None = None
    ) -> list[ShapedName]:
        """Wait for the shapes of a document's arrays, which are inferred once for each text.

        Args:
            followed: the document.
            patience: seconds after which there are none yet; None to wait for them.

        Raises:
            JsonRpcException: the document has changed.
        """
        if followed.shapes is None:
            followed.shapes = asyncio.create_task(self._infer_shapes(followed))
            followed.jobs.add(followed.shapes)
            followed.shapes.add_done_callback(followed.jobs.discard)
        task = followed.shapes
        # A request that is cancelled leaves it to the others.
        await asyncio.wait({task}, timeout=patience)
        if task.cancelled():
            raise JsonRpcContentModified("document has changed")
        return task.result() if task.done() else []

    async def _infer_shapes(self, followed: Followed) -> list[ShapedName]:
        document = followed.document
        # By another name: a check of the next text need not wait until this one ends.
        name = f"{document.uri} shapes"
        try:
            found: list[ShapedName] = await self.run(name, ShapesJob(document))
        except JobError as error:
            self.protocol.log(f"no shapes of {cited(document.path.name)}: {error}")
            return []
        return found

    # What the editor can do.

    @property
    def editor(self) -> Editor:
        """The capabilities of the editor."""
        return Editor(self.client_capabilities, self.options)

    def folders(self) -> tuple[Path, ...]:
        """Return the folders that the editor shows."""
        uris = [folder.uri for folder in self.workspace.folders.values()]
        uris += [self.workspace.root_uri] if self.workspace.root_uri else []
        return tuple(Path(path) for path in map(to_fs_path, uris) if path)

    def _first_folder(self) -> Path:
        return (*self.folders(), Path())[0].absolute()

    def _setup(self) -> Setup:
        encoding = self.workspace.position_encoding or types.PositionEncodingKind.Utf16
        return Setup(types.PositionEncodingKind(encoding).value, self.folders())


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
        with contextlib.suppress(SystemExit, KeyboardInterrupt, OSError):  # the editor has gone
            asyncio.run(service.listen(sys.stdin.buffer))
    finally:
        pool.end()
    return service.is_done
