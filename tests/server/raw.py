"""A client that sends any bytes to the server, and keeps all that comes back."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests.server.editor import PATIENCE, SERVER

Message = dict[str, Any]


class RawClient:
    """Starts the server and initializes it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*SERVER, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._messages: queue.Queue[Message | None] = queue.Queue()
        self.logged: list[str] = []
        self._ids = 1000
        # A server whose standard error nobody reads stops once the pipe is full.
        self._errors: queue.Queue[bytes] = queue.Queue()
        for reads in (self._read, self._read_errors):
            threading.Thread(target=reads, daemon=True).start()
        answer = self.ask("initialize", {"capabilities": {}, "rootUri": folder.as_uri()})
        assert "result" in answer
        self.tell("initialized", {})

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def body(self, body: bytes) -> None:
        self.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def send(self, message: object) -> None:
        self.body(json.dumps(message).encode())

    def tell(self, method: object, params: object) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def start(self, method: object, params: object, identifier: object = None) -> Any:
        """Send a request; its id."""
        if identifier is None:
            self._ids += 1
            identifier = self._ids
        self.send({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params})
        return identifier

    def ask(self, method: object, params: object, identifier: object = None) -> Message:
        """Send a request; the response."""
        return self.answer(self.start(method, params, identifier))

    def answer(self, identifier: object) -> Message:
        """The next response under an id."""
        while True:
            message = self.next()
            if "method" not in message and message["id"] == identifier:
                return message

    def published(self, uri: str) -> list[Message]:
        """The next diagnostics of a document."""
        while True:
            message = self.next()
            if message.get("method") == "textDocument/publishDiagnostics":
                params = message["params"]
                if params["uri"] == uri:
                    found: list[Message] = params["diagnostics"]
                    return found

    def next(self) -> Message:
        message = self._messages.get(timeout=PATIENCE)
        assert message is not None, "the server has ended"
        if message.get("method") == "window/logMessage":
            self.logged.append(message["params"]["message"])
        return message

    def open(self, name: str, text: str, version: int = 1) -> str:
        """Open a document; its URI."""
        uri = self.uri(name)
        item = {"uri": uri, "languageId": "python", "version": version, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})
        return uri

    def change(self, uri: str, version: int, text: str) -> None:
        document = {"uri": uri, "version": version}
        self.tell(
            "textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]}
        )

    def close(self, uri: str) -> None:
        self.tell("textDocument/didClose", {"textDocument": {"uri": uri}})

    def hover(self, uri: object, position: object) -> Message:
        return self.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": position})

    def workers(self) -> list[int]:
        """The processes that the server has started."""
        return [pid for pid, parent in processes() if parent == self.process.pid]

    def stop(self) -> tuple[int, str]:
        """Shut the server down; its exit code and standard error."""
        if self.process.poll() is None:
            self.ask("shutdown", None)
            self.tell("exit", None)
        return self.end()

    def end(self) -> tuple[int, str]:
        """Close the server's input; its exit code and standard error."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        return code, self._errors.get(timeout=PATIENCE).decode()

    def _read_errors(self) -> None:
        with contextlib.closing(self.process.stderr) as stream:
            self._errors.put(stream.read())  # type: ignore[union-attr]

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while (line := stream.readline()).strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not line:
                self._messages.put(None)
                stream.close()
                return
            self._messages.put(json.loads(stream.read(length)))


def processes() -> list[tuple[int, int]]:
    """All processes and their parents, except those that only wait to be reaped."""
    command = ["ps", "-A", "-o", "pid=,ppid=,stat="]
    table = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    rows = [line.split() for line in table.splitlines()]
    return [(int(row[0]), int(row[1])) for row in rows if not row[2].startswith("Z")]


def runs(process: int) -> bool:
    """Whether a process has not ended."""
    return any(pid == process for pid, _ in processes())
