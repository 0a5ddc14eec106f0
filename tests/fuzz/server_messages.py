"""The language server: sequences of an editor's messages, handled in this process."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from embercoach.server import service as service_module
from embercoach.server.analysis import Analysis
from embercoach.server.pool import JobError
from embercoach.server.protocol import quiet_expected_errors
from embercoach.server.service import Service
from embercoach.server.worker import JobResult, Setup, _reply
from tests.fuzz import python_source, seeds
from tests.fuzz.mutation import json_mutation
from tests.fuzz.target import FaultError, Target, require

if TYPE_CHECKING:
    from embercoach.server.worker import Job

URI = "file:///nowhere/program.py"
INTERNAL_ERROR = -32603
#: One converter for all servers: making its code takes four times as long as a session.
service_module.strict_converter = cache(service_module.strict_converter)
#: What an editor sends first.
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "first",
    "method": "initialize",
    "params": {
        "processId": None,
        "rootUri": "file:///nowhere",
        "capabilities": {"workspace": {"workspaceEdit": {"documentChanges": True}}},
    },
}
WORDS = (
    *("jsonrpc", "id", "method", "params", "2.0", "result", "error", "textDocument", "uri", "text"),
    *("version", "position", "line", "character", "range", "start", "end", "context", "only"),
    *("initialize", "initialized", "shutdown", "exit", "$/cancelRequest", "$/setTrace"),
    *("textDocument/didOpen", "textDocument/didChange", "textDocument/didClose", "untitled:a"),
    *("textDocument/didSave", "textDocument/hover", "textDocument/codeAction", "quickfix"),
    *("codeAction/resolve", "workspace/didChangeWatchedFiles", "workspace/executeCommand"),
    *(URI, "file:///nowhere/k.metal", "file:///nowhere/n.ipynb", "file:///nowhere/h.mm", "file://"),
)


def _messages(text: str) -> list[dict[str, Any]]:
    """A session over a text: open, change, ask, close."""
    document = {"uri": URI}
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    opened = {"uri": URI, "languageId": "python", "version": 1, "text": text}
    action = {"title": "EmberCoach: apply all safe fixes", "data": {"uri": URI}}
    return [
        _sent("initialized", {}),
        _sent("textDocument/didOpen", {"textDocument": opened}),
        _sent(
            "textDocument/didChange",
            {
                "textDocument": document | {"version": 2},
                "contentChanges": [{"text": f"{text}\nx = 1\n"}],
            },
        ),
        _sent(
            "textDocument/hover",
            {"textDocument": document, "position": {"line": 5, "character": 13}},
            1,
        ),
        _sent(
            "textDocument/codeAction",
            {"textDocument": document, "range": whole, "context": {"diagnostics": []}},
            2,
        ),
        _sent("codeAction/resolve", action, 3),
        _sent("textDocument/didSave", {"textDocument": document}),
        _sent("$/cancelRequest", {"id": 2}),
        _sent("textDocument/didClose", {"textDocument": document}),
        _sent("shutdown", None, 4),
        _sent("exit", None),
    ]


def _notebook_messages(text: str) -> list[dict[str, Any]]:
    """A session over a notebook of two cells; diagnostics are asked for as well."""
    notebook, cell = "file:///nowhere/n.ipynb", {"kind": 2, "document": "cell:1"}
    first, second = (
        {"uri": f"cell:{number}", "languageId": "python", "version": 1, "text": text}
        for number in (1, 2)
    )
    edit = {"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 1}}
    opened = {
        "uri": notebook, "notebookType": "jupyter-notebook", "version": 1, "cells": [cell]
    }  # fmt: skip
    spliced = {"start": 1, "deleteCount": 0, "cells": [cell | {"document": "cell:2"}]}
    typed = {
        "document": {"uri": "cell:1", "version": 2},
        "changes": [{"range": edit, "text": "import mlx\n"}],
    }
    asked = {"textDocument": {"uri": "cell:1"}}
    return [
        _sent("initialized", {}),
        _sent(
            "notebookDocument/didOpen", {"notebookDocument": opened, "cellTextDocuments": [first]}
        ),
        _sent(
            "notebookDocument/didChange",
            {
                "notebookDocument": {"uri": notebook, "version": 2},
                "change": {
                    "cells": {
                        "structure": {"array": spliced, "didOpen": [second]},
                        "textContent": [typed],
                    }
                },
            },
        ),
        _sent("textDocument/hover", asked | {"position": {"line": 5, "character": 13}}, 1),
        _sent(
            "textDocument/codeAction", asked | {"range": edit, "context": {"diagnostics": []}}, 2
        ),
        _sent("textDocument/diagnostic", asked, 3),
        _sent("workspace/diagnostic", {"previousResultIds": [], "workDoneToken": 1}, 4),
        _sent("$/cancelRequest", {"id": 4}),
        _sent("notebookDocument/didSave", {"notebookDocument": {"uri": notebook}}),
        _sent(
            "notebookDocument/didClose",
            {"notebookDocument": {"uri": notebook}, "cellTextDocuments": [{"uri": "cell:1"}]},
        ),
    ]


def _sent(method: str, params: Any, identifier: int | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message if identifier is None else message | {"id": identifier}


@cache
def _sessions() -> tuple[list[dict[str, Any]], ...]:
    programs = seeds.python_programs()[::25]
    return (*map(_messages, programs), *map(_notebook_messages, programs[::3]))


class _Pool:
    """Does jobs at once, as a worker does them."""

    def __init__(self) -> None:
        self._setup: Setup | None = None
        self._analysis: Analysis | None = None

    async def run(self, _document: str, setup: Setup, job: Job) -> Any:
        """Do a job."""
        await asyncio.sleep(0)
        if self._analysis is None or setup != self._setup:
            self._analysis, self._setup = Analysis(setup.encoding, setup.folders), setup
        reply = _reply(job, self._analysis)
        if isinstance(reply, JobResult):
            return reply.value
        require("internal error" not in reply.message, reply.message)
        raise JobError(reply.message)


class _Written:
    """What the server writes to the editor."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        """Take a part of a message."""
        self.data += data

    def close(self) -> None:
        """Do nothing: there is no stream."""

    def messages(self) -> Iterator[dict[str, Any]]:
        """The messages, parsed."""
        rest = self.data
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            length = int(head.partition(b"Content-Length:")[2].partition(b"\r\n")[0])
            message = json.loads(rest[:length])
            assert isinstance(message, dict)
            yield message
            rest = rest[length:]


class _Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(logging.Formatter().format(record))


@cache
def _errors() -> _Errors:
    handler = _Errors()
    quiet_expected_errors()
    logging.getLogger().handlers[:] = [handler]
    return handler


def _execute(data: bytes) -> None:
    try:
        session = json.loads(data)
    except (ValueError, RecursionError):
        session = None
    bodies = [data] if not isinstance(session, list) else [json.dumps(m).encode() for m in session]
    errors, written = _errors(), _Written()
    errors.found.clear()
    asyncio.run(_talk([json.dumps(INITIALIZE).encode(), *bodies], written))
    if errors.found:
        raise FaultError(f"logged: {errors.found[0]}")
    answers: list[Any] = []
    for message in written.messages():
        code = message.get("error", {}).get("code") if "error" in message else None
        require(code != INTERNAL_ERROR, f"internal error: {message.get('error')}")
        if "method" not in message:
            answers.append(json.dumps(message.get("id")))
    require(json.dumps("first") in answers, "the first request has no answer")


async def _talk(bodies: list[bytes], written: _Written) -> None:
    service = Service(_Pool())  # type: ignore[arg-type]
    service.protocol.set_writer(written)
    try:
        for number, body in enumerate(bodies):
            service.protocol.receive(body)
            if number % 3 == 0:  # the others come while the server is busy
                await _settled()
        await _settled()
    except SystemExit:  # as the editor asked
        await _settled()


async def _settled() -> None:
    for _ in range(30):
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        if not pending:
            return
        await asyncio.wait(pending, timeout=5)
    raise FaultError("jobs go on without end")


def _good() -> tuple[Any, ...]:
    return tuple(copy.deepcopy(_sessions()[:8]))


TARGET = Target(
    "server",
    lambda: map(json.dumps, _sessions()),
    json_mutation(_good, WORDS, python_source.MUTATION),
    _execute,
    largest=8_000,
)
