"""The service on an event loop, with a pool that answers as a test says: no process is started."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from embercoach.server import diagnostics as diagnostics_module
from embercoach.server.analysis import Analysis
from embercoach.server.diagnostics import diagnostics
from embercoach.server.jobs import CheckJob, CheckOutcome, HoverJob, ListFiles, Listing
from embercoach.server.pool import ExpiredError, JobError, Pool
from embercoach.server.service import Service
from embercoach.server.wire import Document
from embercoach.server.worker import Setup
from embercoach.server.workspace_reports import SETTLE

CANCELLED = types.LSPErrorCodes.RequestCancelled.value
MODIFIED = types.LSPErrorCodes.ContentModified.value
FAILED = types.LSPErrorCodes.RequestFailed.value
URI = "file:///folder/a.py"
HOVER = {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 0}}


class Answers(Pool):
    """Checks have an empty outcome; what other jobs come to is up to a test."""

    def __init__(self) -> None:
        self.jobs: list[object] = []
        self.outcome: Callable[[object], Any] = lambda job: CheckOutcome([], None)
        self.is_ready = asyncio.Event()
        self.is_ready.set()
        #: The kind of a job that never ends.
        self.is_slow: type | None = None

    async def run(self, document: str, setup: Setup, job: object) -> Any:
        self.jobs.append(job)
        if not isinstance(job, CheckJob):
            await self.is_ready.wait()
        if type(job) is self.is_slow:
            await asyncio.Event().wait()
        return self.outcome(job)


class Session:
    """A service with one open document, and what it has written."""

    def __init__(self, capabilities: object = None, options: object = None) -> None:
        self.pool = Answers()
        self.service = Service(self.pool)
        self.service.protocol.set_writer(self)
        self.messages: list[dict[str, Any]] = []
        params = {"capabilities": capabilities or {}, "initializationOptions": options}
        self.request("initialize", params, 0)
        if capabilities is not None:
            return
        item = {"uri": URI, "languageId": "python", "version": 1, "text": "first"}
        self.send("textDocument/didOpen", {"textDocument": item})

    def write(self, data: bytes) -> None:
        self.messages.append(json.loads(data.partition(b"\r\n\r\n")[2]))

    def close(self) -> None:
        pass

    def send(self, method: str, params: object) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.service.protocol.receive(json.dumps(message).encode())

    def request(self, method: str, params: object, identifier: int) -> None:
        message = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
        self.service.protocol.receive(json.dumps(message).encode())

    def change(self, version: int) -> None:
        document = {"uri": URI, "version": version}
        changes = [{"text": f"version {version}"}]
        self.send("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def error(self, identifier: int) -> int:
        (code,) = [one["error"]["code"] for one in self.messages if one.get("id") == identifier]
        assert isinstance(code, int)
        return code

    def result(self, identifier: int) -> Any:
        (found,) = [one["result"] for one in self.messages if one.get("id") == identifier]
        return found

    def checks(self) -> list[str]:
        return [job.document.text for job in self.pool.jobs if isinstance(job, CheckJob)]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("$/cancelRequest", {"id": 1}, CANCELLED),
        ("textDocument/didClose", {"textDocument": {"uri": URI}}, MODIFIED),
        (
            "textDocument/didChange",
            {"textDocument": {"uri": URI, "version": 2}, "contentChanges": [{"text": ""}]},
            MODIFIED,
        ),
    ],
)
def test_a_request_that_waits_for_a_worker_ends(method: str, params: object, code: int) -> None:
    async def run() -> int:
        session = Session()
        session.pool.is_ready.clear()
        session.request("textDocument/hover", HOVER, 1)
        await session.settle()
        assert isinstance(session.pool.jobs[-1], HoverJob)
        session.send(method, params)
        await session.settle()
        return session.error(1)

    assert asyncio.run(run()) == code


@pytest.mark.parametrize("kind", [ExpiredError, JobError])
def test_what_exceeds_the_deadline_is_not_tried_again_until_the_text_changes(
    kind: type[JobError],
) -> None:
    def fail(job: object) -> Any:
        raise kind("no result")

    async def run() -> None:
        session = Session()
        session.pool.outcome = fail
        await session.settle()
        (found,) = session.messages[-1]["params"]["diagnostics"]
        assert (found["message"], found["severity"]) == ("no result", 2)
        session.send("textDocument/didSave", {"textDocument": {"uri": URI}})
        session.request("textDocument/hover", HOVER, 1)
        await session.settle()
        assert session.checks() == ["first"] * (1 if kind is ExpiredError else 2)
        assert session.error(1) == FAILED
        session.change(2)
        await session.settle()
        assert session.checks()[-1] == "version 2"

    asyncio.run(run())


def test_a_hover_over_the_deadline_leaves_the_findings(tmp_path: Path) -> None:
    def outcome(job: object) -> Any:
        if isinstance(job, HoverJob):
            raise ExpiredError("no result")
        return CheckOutcome([], None)

    async def run() -> None:
        session = Session()
        session.pool.outcome = outcome
        for identifier in (1, 2):
            session.request("textDocument/hover", HOVER, identifier)
            await session.settle()
            assert session.error(identifier) == FAILED
        assert [type(job) for job in session.pool.jobs] == [CheckJob, HoverJob]
        published = [one for one in session.messages if "publish" in one.get("method", "")]
        assert [one["params"]["diagnostics"] for one in published] == [[]]

    asyncio.run(run())


def test_findings_past_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics_module, "MOST", 2)
    text = "import mlx.core as mx\n\n\ndef f(x: mx.array) -> None:\n" + "    x.tolist()\n" * 5
    document = Document(URI, Path("/folder/a.py"), 1, text)
    *found, rest = diagnostics(Analysis("utf-16", ()).check(document))
    assert [one["code"] for one in found] == ["HOST-PULL-001"] * 2
    assert (rest["message"], rest["severity"]) == ("3 more findings are not shown", 3)


@pytest.mark.parametrize(
    ("modules", "other"),
    [
        ("embercoach.server.analysis, embercoach.server.wire", "attrs"),
        ("embercoach.server.jobs", "attrs"),
        ("embercoach.server.service", "libcst"),
    ],
)
def test_the_server_loads_no_analysis_and_a_worker_no_protocol(modules: str, other: str) -> None:
    program = f"import sys, {modules}; print({other!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"False"]


NOTEBOOK = "file:///folder/n.ipynb"
CELL = "vscode-notebook-cell:/folder/n.ipynb#0"
OUTSIDE = "file:///folder/a%23b%25.py"


def open_notebook(session: Session) -> None:
    item = {"uri": CELL, "languageId": "python", "version": 1, "text": "x"}
    cells = [{"kind": 2, "document": CELL}]
    head = {"uri": NOTEBOOK, "notebookType": "jupyter-notebook", "version": 1, "cells": cells}
    params = {"notebookDocument": head, "cellTextDocuments": [item]}
    session.send("notebookDocument/didOpen", params)


@pytest.mark.parametrize("closes_text", [True, False])
def test_a_notebook_that_is_open_as_a_text_too_is_followed_until_both_are_closed(
    closes_text: bool,
) -> None:
    async def run() -> Any:
        session = Session({"textDocument": {"diagnostic": {}}})
        open_notebook(session)
        item = {"uri": NOTEBOOK, "languageId": "json", "version": 1, "text": "{}"}
        session.send("textDocument/didOpen", {"textDocument": item})
        await session.settle()
        if closes_text:
            session.send("textDocument/didClose", {"textDocument": {"uri": NOTEBOOK}})
        else:
            closed = {"notebookDocument": {"uri": NOTEBOOK}, "cellTextDocuments": [{"uri": CELL}]}
            session.send("notebookDocument/didClose", closed)
        uri = CELL if closes_text else NOTEBOOK
        session.request("textDocument/diagnostic", {"textDocument": {"uri": uri}}, 1)
        await session.settle()
        return session.result(1)

    assert asyncio.run(run())["items"] == []


def report_workspace(session: Session, listing: Callable[[], Listing]) -> Any:
    """What a workspace's report has of a file that is not in its folders."""

    async def run() -> Any:
        session.pool.outcome = lambda job: (
            listing() if isinstance(job, ListFiles) else CheckOutcome([], None)
        )
        params = {"previousResultIds": [{"uri": OUTSIDE, "value": "earlier"}]}
        session.request("workspace/diagnostic", params, 1)
        await session.settle()
        return session.result(1)["items"]

    return asyncio.run(run())


def test_a_file_that_is_gone_is_reported_under_the_uri_that_the_editor_has() -> None:
    session = Session({"textDocument": {"diagnostic": {}}})
    (report,) = report_workspace(session, lambda: Listing((), 0, ()))
    assert (report["uri"], report["kind"], report["items"]) == (OUTSIDE, "full", [])


def test_a_listing_that_fails_takes_no_diagnostics_away() -> None:
    def fail() -> Listing:
        raise JobError("analysis exceeded 10 s and was ended")

    session = Session({"textDocument": {"diagnostic": {}}})
    assert report_workspace(session, fail) == []
    logged = session.messages[-2]["params"]["message"]
    assert logged == "EmberCoach: workspace diagnostics: analysis exceeded 10 s and was ended"


def test_an_open_document_outside_of_the_workspace_keeps_its_diagnostics() -> None:
    async def opened() -> Session:
        session = Session({"textDocument": {"diagnostic": {}}})
        item = {"uri": OUTSIDE, "languageId": "python", "version": 1, "text": "first"}
        session.send("textDocument/didOpen", {"textDocument": item})
        await session.settle()
        return session

    assert report_workspace(asyncio.run(opened()), lambda: Listing((), 0, ())) == []


@pytest.mark.parametrize(
    "arguments", [None, [], [URI], [URI, {"line": -1, "character": 0}], [1, 2]]
)
def test_a_command_needs_its_arguments(arguments: object) -> None:
    async def run() -> int:
        session = Session()
        params = {"command": "embercoach.server.kernelSignature", "arguments": arguments}
        session.request("workspace/executeCommand", params, 1)
        await session.settle()
        return session.error(1)

    assert asyncio.run(run()) == types.ErrorCodes.InvalidParams.value


def test_a_report_that_waits_looks_at_the_workspace_again_when_its_folders_change() -> None:
    async def run() -> list[tuple[Path, ...]]:
        session = Session({"textDocument": {"diagnostic": {}}})
        session.pool.outcome = lambda job: Listing((), 0, ())
        for identifier in (1, 2):  # the second has no news
            session.request("workspace/diagnostic", {"previousResultIds": []}, identifier)
            await session.settle()
        event = {"added": [{"uri": "file:///folder", "name": "folder"}], "removed": []}
        session.send("workspace/didChangeWorkspaceFolders", {"event": event})
        await asyncio.sleep(SETTLE + 0.2)
        return [job.folders for job in session.pool.jobs if isinstance(job, ListFiles)]

    assert asyncio.run(run()) == [(), (), (Path("/folder"),)]
