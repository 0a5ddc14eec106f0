"""Malformed and hostile messages, over standard input and output: no request without an answer."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from embercoach.server import protocol
from embercoach.server import service as service_module
from embercoach.server.pool import Pool
from tests.server.raw import RawClient

PULL = "import mlx.core as mx\n\n\ndef rows(x: mx.array) -> list:\n    return x.tolist()\n"
INVALID_PARAMS = -32602
INVALID_REQUEST = -32600
REQUEST_FAILED = types.LSPErrorCodes.RequestFailed.value
NOT_INITIALIZED = -32002
CANCELLED = types.LSPErrorCodes.RequestCancelled.value


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    """One server for all messages: it lives on after each."""
    client = RawClient(tmp_path_factory.mktemp("project"))
    client.published(client.open("model.py", PULL))
    yield client
    works(client)
    code, error = client.stop()
    assert code == 0
    assert "Traceback" not in error


def works(client: RawClient) -> None:
    answer = client.hover(client.uri("model.py"), {"line": 4, "character": 15})
    assert "tolist" in answer["result"]["contents"]["value"]


def logged(client: RawClient) -> str:
    """What the server logged of the messages so far."""
    works(client)
    said = "\n".join(client.logged)
    client.logged.clear()
    return said


def failure(answer: dict[str, Any]) -> tuple[int, str]:
    assert "result" not in answer
    assert "data" not in answer["error"]
    return answer["error"]["code"], answer["error"]["message"]


@pytest.mark.parametrize(
    "position",
    [
        {"line": -1, "character": 0},
        {"line": 0, "character": -1},
        {"line": 2**31, "character": 0},
        {"line": 10**400, "character": 0},
        {"line": 1.5, "character": 0},
        {"line": "4", "character": 0},
        {"line": True, "character": 0},
        {"line": None, "character": 0},
        {"line": 4},
        {},
        [4, 15],
        "4:15",
        None,
    ],
)
def test_a_malformed_position_gets_an_error_under_its_id(
    client: RawClient, position: object
) -> None:
    code, message = failure(client.hover(client.uri("model.py"), position))
    assert code == INVALID_PARAMS
    assert "position" in message
    place = {"start": {"line": 0, "character": 0}, "end": position}
    params = {
        "textDocument": {"uri": client.uri("model.py")},
        "range": place,
        "context": {"diagnostics": []},
    }
    assert failure(client.ask("textDocument/codeAction", params))[0] == INVALID_PARAMS


@pytest.mark.parametrize("position", [(4, 10_000), (2**31 - 1, 0), (5, 0), (2**31 - 1, 2**31 - 1)])
def test_a_position_past_the_end_is_the_end(client: RawClient, position: tuple[int, int]) -> None:
    line, character = position
    answer = client.hover(client.uri("model.py"), {"line": line, "character": character})
    assert answer["result"] is None


@pytest.mark.parametrize(
    "uri",
    [
        "file:///nowhere.py",
        "untitled:Untitled-1",
        "vscode-notebook-cell:/a.ipynb#W0",
        "file://host/share/a.py",
        "file:///a%00b.py",
        "file://[a.py",
        "relative.py",
        "",
        "\ud800",
        "file:///" + "a" * 100_000,
        5,
        None,
        {},
    ],
)
def test_a_request_of_a_document_that_is_not_open_gets_an_error(
    client: RawClient, uri: object
) -> None:
    code, message = failure(client.hover(uri, {"line": 0, "character": 0}))
    assert code == INVALID_PARAMS
    assert len(message) < 400
    resolved = client.ask("codeAction/resolve", {"title": "fix", "data": {"uri": uri}})
    assert failure(resolved)[0] == INVALID_PARAMS


@pytest.mark.parametrize("severity", [1, 4, 99])
def test_an_action_is_resolved_with_its_diagnostics(client: RawClient, severity: int) -> None:
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
    found = {"range": place, "message": "m", "severity": severity, "tags": [1, severity]}
    action = {"title": "fix", "kind": "quickfix", "diagnostics": [found], "edit": {"changes": {}}}
    assert client.ask("codeAction/resolve", action)["result"] == action


@pytest.mark.parametrize(
    ("uri", "is_checked"),
    [
        ("untitled:Untitled-1", True),
        ("untitled:..", True),
        ("untitled:", True),
        ("file://host/share/a.py", True),
        ("file:///no/such/folder/a%20b.py", True),
        ("vscode-notebook-cell:/a.ipynb#W0", False),
        ("git:/a.py?ref=HEAD", False),
    ],
)
def test_odd_uris_can_be_opened(client: RawClient, uri: str, is_checked: bool) -> None:
    item = {"uri": uri, "languageId": "python", "version": 1, "text": PULL}
    client.tell("textDocument/didOpen", {"textDocument": item})
    if is_checked:
        assert [one["code"] for one in client.published(uri)] == ["HOST-PULL-001"]
    assert (client.hover(uri, {"line": 4, "character": 15})["result"] is not None) == is_checked
    client.close(uri)
    assert client.published(uri) == []
    assert failure(client.hover(uri, {"line": 4, "character": 15}))[0] == INVALID_PARAMS


def item(uri: object, text: object = "") -> dict[str, object]:
    return {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": text}}


def change(uri: object, *changes: object) -> dict[str, object]:
    return {"textDocument": {"uri": uri, "version": 2}, "contentChanges": changes}


@pytest.mark.parametrize(
    ("method", "params", "reason"),
    [
        ("textDocument/didOpen", item("file:///a%00.py"), "not the URI of a file"),
        ("textDocument/didOpen", item("file:///a.py", None), "text"),
        ("textDocument/didOpen", item(5), "uri"),
        ("textDocument/didChange", change("file:///a.py"), "document is not open"),
        ("textDocument/didChange", {"contentChanges": "all"}, "text_document"),
        ("textDocument/didClose", item("file:///a.py"), "document is not open"),
        ("textDocument/didClose", 5, "text_document"),
        ("textDocument/hover", {}, "must be that of a notification"),
        ("notebookDocument/didClose", {}, "notebook_document"),
        ("textDocument/willSave", {}, "not supported"),
        ("$/cancelRequest", {"id": []}, "id"),
        ("workspace/didChangeWatchedFiles", {"changes": 1}, "changes"),
        ("no/such/method", {}, "not supported"),
        (5, {}, "must be that of a notification"),
    ],
)
def test_a_malformed_notification_is_logged(
    client: RawClient, method: object, params: object, reason: str
) -> None:
    client.tell(method, params)
    (said,) = logged(client).splitlines()
    assert said.startswith(f"EmberCoach: ignored {method}: ")
    assert reason in said


def test_a_text_that_is_older_or_a_part_is_ignored(client: RawClient) -> None:
    uri = client.open("versions.py", PULL, version=5)
    assert len(client.published(uri)) == 1
    client.change(uri, 4, "x = 1\n")
    assert "version 4 is older than 5" in logged(client)
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    change = {"range": place, "text": ""}
    document = {"uri": uri, "version": 6}
    client.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
    assert "a change must have no range" in logged(client)
    assert client.hover(uri, {"line": 4, "character": 15})["result"] is not None
    client.change(uri, 6, "x = 1\n")
    assert client.published(uri) == []


@pytest.mark.parametrize(
    ("message", "identifier", "code"),
    [
        ({"id": 1, "method": "textDocument/hover"}, 1, INVALID_REQUEST),
        ({"jsonrpc": "1.0", "id": "a", "method": "textDocument/hover"}, "a", INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 2, "method": "textDocument/hover"}, 2, INVALID_PARAMS),
        ({"jsonrpc": "2.0", "id": 3, "method": "no/such", "params": {}}, 3, -32601),
        ({"jsonrpc": "2.0", "id": 4, "method": "textDocument/didOpen"}, 4, -32601),
        ({"jsonrpc": "2.0", "id": 5, "method": ["initialize"]}, 5, INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 6, "method": "initialize", "params": {}}, 6, INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": [7], "method": "textDocument/hover"}, None, INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": True, "method": "textDocument/hover"}, None, INVALID_REQUEST),
        ([], None, INVALID_REQUEST),
        ("text", None, INVALID_REQUEST),
        (None, None, INVALID_REQUEST),
    ],
)
def test_a_malformed_request_gets_an_error(
    client: RawClient, message: object, identifier: object, code: int
) -> None:
    client.send(message)
    assert failure(client.answer(identifier))[0] == code


@pytest.mark.parametrize(
    "body", [b"{", b"\xff\xfe", b"[" * 100_000, b'{"jsonrpc": "2.0", "id": 1', b"1" * 5000, b""]
)
def test_what_is_not_json_gets_an_error(client: RawClient, body: bytes) -> None:
    client.body(body)
    assert failure(client.answer(None))[0] == -32700


@pytest.mark.parametrize(
    "message",
    [
        {"id": "never asked", "result": 1},
        {"id": ["a"], "result": 1},
        {"id": "never asked", "error": {"code": 1, "message": "no"}},
        {"id": None},
        {},
    ],
)
def test_a_response_to_nothing_is_ignored(client: RawClient, message: dict[str, object]) -> None:
    client.send({"jsonrpc": "2.0", **message})
    assert "ignored a response" in logged(client)


def test_an_id_in_use_is_refused(client: RawClient) -> None:
    params = {
        "textDocument": {"uri": client.uri("model.py")},
        "position": {"line": 4, "character": 15},
    }
    # A long file, so that the request waits.
    client.change(client.uri("model.py"), 1, PULL + "y = mx.exp(mx.ones(3))\n" * 2000)
    for _ in range(2):
        client.start("textDocument/hover", params, 77)
    assert failure(client.answer(77)) == (INVALID_REQUEST, "id is in use: 77")
    assert client.answer(77)["result"] is not None


class Output:
    """Collects what the server writes."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def write(self, data: bytes) -> None:
        self.messages.append(json.loads(data.partition(b"\r\n\r\n")[2]))

    def close(self) -> None:
        pass


class NoPool(Pool):
    """For messages that lead to no job."""

    def __init__(self) -> None:
        pass


def test_messages_before_initialize_and_after_shutdown(tmp_path: Path) -> None:
    service, output = service_module.Service(NoPool()), Output()
    service.protocol.set_writer(output)

    def ask(method: str, params: object = None) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        service.protocol.receive(json.dumps(message).encode())
        return output.messages.pop()

    early = {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": item("file:///a.py")}
    service.protocol.receive(json.dumps(early).encode())
    assert failure(ask("textDocument/hover", {}))[0] == NOT_INITIALIZED
    broken = ask("initialize", {"capabilities": {}, "rootUri": "file://["})
    assert failure(broken) == (INVALID_PARAMS, "malformed URI: file://[")
    assert "result" in ask("initialize", {"capabilities": {}, "processId": None})
    assert "result" in ask("shutdown")
    assert failure(ask("textDocument/hover", {})) == (INVALID_REQUEST, "server is shut down")
    with pytest.raises(SystemExit) as left:
        service.protocol.receive(b'{"jsonrpc": "2.0", "method": "exit"}')
    assert left.value.code == 0
    assert output.messages == []


@pytest.mark.parametrize(
    ("data", "bodies", "error"),
    [
        (b"Content-Length: 2\r\n\r\n{}", [b"{}"], ""),
        (b"X: 1\r\ncontent-length:2\r\nY: 2\r\n\r\n{}", [b"{}"], ""),
        (b"\r\n\r\nContent-Length: 1\r\n\r\n1Content-Length: 1\r\n\r\n2", [b"1", b"2"], ""),
        (b"Content-Length: 9\r\n\r\n{}", [], ""),
        (b"Content-Length: 9", [], ""),
        (b"Content-Length: 11\r\n\r\n12345678901Content-Length: 1\r\n\r\n2", [b"", b"2"], ""),
        (b"Content-Length: 99999999999\r\n\r\n{}", [], ""),
        (b"Content-Length: -5\r\n\r\n{}", [], "invalid header: b'Content-Length: -5\\r\\n'"),
        (b"Content-Length: " + b"9" * 9999, [], "invalid header"),
    ],
)
def test_messages_are_found_by_their_length(
    data: bytes,
    bodies: list[bytes],
    error: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(protocol, "MOST_BYTES", 10)
    source = BytesIO(data)
    assert list(iter(lambda: protocol.next_body(source), None)) == bodies
    said = capsys.readouterr().err
    assert error in said
    assert bool(error) == bool(said)


def slow_text(count: int = 30_000) -> str:
    """A valid text near the limit, whose check takes long."""
    text = (
        "import mlx.core as mx\n\n\ndef f(x: mx.array):\n" + "    y = mx.sum(x) + x * 2\n" * count
    )
    assert len(text) < service_module.MOST_CHARACTERS
    return text


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[RawClient]:
    client = RawClient(tmp_path, "--deadline", "1")
    yield client
    code, error = client.stop()
    assert code == 0
    assert "Traceback" not in error
    assert client.workers() == []


@pytest.mark.sampled(0)
def test_a_slow_text_is_ended_and_others_are_answered(hasty: RawClient) -> None:
    slow = hasty.open("slow.py", slow_text())
    (found,) = hasty.published(slow)
    assert found["message"] == "analysis exceeded 1 s and was ended"
    assert found["severity"] == types.DiagnosticSeverity.Warning
    assert found["range"]["start"] == {"line": 0, "character": 0}
    # It is not tried again until its text changes, and requests say why.
    hasty.tell("textDocument/didSave", {"textDocument": {"uri": slow}})
    answer = hasty.hover(slow, {"line": 4, "character": 4})
    assert failure(answer) == (REQUEST_FAILED, "analysis exceeded 1 s and was ended")
    other = hasty.open("other.py", PULL)
    assert [one["code"] for one in hasty.published(other)] == ["HOST-PULL-001"]
    # A request that waits for a check can be cancelled, and newer text ends the check.
    hasty.change(slow, 2, slow_text() + "\n")
    position = {"textDocument": {"uri": slow}, "position": {"line": 4, "character": 4}}
    waits = hasty.start("textDocument/hover", position)
    hasty.tell("$/cancelRequest", {"id": waits})
    assert failure(hasty.answer(waits))[0] == CANCELLED
    hasty.change(slow, 3, PULL)
    assert [one["code"] for one in hasty.published(slow)] == ["HOST-PULL-001"]


def test_a_worker_that_is_killed_is_replaced(client: RawClient) -> None:
    (worker,) = client.workers()
    os.kill(worker, signal.SIGKILL)
    works(client)
    assert worker not in client.workers()


def test_a_huge_text_gets_a_diagnostic(client: RawClient) -> None:
    uri = client.open("huge.py", PULL + "#" * service_module.MOST_CHARACTERS)
    (found,) = client.published(uri)
    assert found["message"] == (
        f"text is too large to check: {service_module.MOST_CHARACTERS + len(PULL):,} characters "
        f"(limit: {service_module.MOST_CHARACTERS:,})"
    )
    client.change(uri, 2, PULL)
    assert len(client.published(uri)) == 1
