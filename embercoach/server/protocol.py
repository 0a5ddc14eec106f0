"""The protocol's messages, from a stream to handlers: malformed ones get an error by id."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from cattrs import Converter, transform_error
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import (
    JsonRPCNotification,
    LanguageServerProtocol,
    default_converter,
    lsp_method,
)

from embercoach.server.documents import InvalidError, cited, path_of

if TYPE_CHECKING:
    from pygls.protocol.json_rpc import RPCMessage

    from embercoach.server.service import Service

#: Bytes of a header line, and of a message.
_MOST_HEADER = 4096
MOST_BYTES = 256 << 20
_CHUNK = 1 << 20
_LENGTH = b"content-length"


def next_body(stream: BinaryIO) -> bytes | None:
    """Read the body of the next message; None at the end of the stream, or where it is lost.

    Where a length is unknown, nothing says where the next message begins: the reason is written to
    standard error. The body of a message that is too large is skipped, and empty.
    """
    length: int | None = None
    while line := stream.readline(_MOST_HEADER):
        name, _, value = line.partition(b":")
        if name.strip().lower() == _LENGTH:
            length = _length(value.strip())
            if length is None:
                sys.stderr.write(f"embercoach: invalid header: {line!a}\n")
                return None
        elif not line.strip() and length is not None:
            return _body(stream, length)
    return None


def _body(stream: BinaryIO, length: int) -> bytes | None:
    if length <= MOST_BYTES:
        body = stream.read(length)
        return body if len(body) == length else None
    while length > 0 and (chunk := stream.read(min(length, _CHUNK))):
        length -= len(chunk)
    return None if length else b""


def _length(value: bytes) -> int | None:
    return int(value) if value.isdigit() and len(value) < 20 else None


logger = logging.getLogger(__name__)

_VERSION = "2.0"
#: Messages that pygls answers itself; it would take others that the server never offers.
_BUILT_IN = frozenset(
    (
        types.INITIALIZE,
        types.INITIALIZED,
        types.SHUTDOWN,
        types.EXIT,
        types.SET_TRACE,
        types.CANCEL_REQUEST,
        types.TEXT_DOCUMENT_DID_OPEN,
        types.TEXT_DOCUMENT_DID_CHANGE,
        types.TEXT_DOCUMENT_DID_CLOSE,
        types.NOTEBOOK_DOCUMENT_DID_OPEN,
        types.NOTEBOOK_DOCUMENT_DID_CHANGE,
        types.NOTEBOOK_DOCUMENT_DID_CLOSE,
        types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS,
        types.WORKSPACE_EXECUTE_COMMAND,
    )
)
#: Characters of a reason that a message cites.
_CITED = 300


def strict_converter() -> Converter:
    """Return a converter that takes no number for a text, and no text for a number."""
    converter: Converter = default_converter()  # type: ignore[no-untyped-call]
    for kind in (int, str, bool):
        converter.register_structure_hook(kind, _exactly(kind))
    # The hooks are those of enumerations too, which may have values of a later protocol.
    converter.register_unstructure_hook(Enum, _value)
    return converter


def _value(member: object) -> object:
    return member.value if isinstance(member, Enum) else member


def _exactly(kind: type) -> Callable[[object, object], object]:
    def structure(value: object, _: object) -> object:
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        return value

    return structure


class Protocol(LanguageServerProtocol):
    """Takes untrusted messages: answers each request, and logs what it ignores."""

    _server: Service

    def receive(self, body: bytes) -> None:
        """Take the body of a message."""
        if not body:
            error = JsonRpcParseError(f"message must have 1 to {MOST_BYTES:,} bytes")
            self._refuse(None, error)
            return
        try:
            raw = json.loads(body)
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            self._refuse(None, JsonRpcParseError(f"message is not JSON: {reason}"))
            return
        try:
            self.handle_message(raw)
        except Exception as error:
            logger.exception("internal error")
            problem = JsonRpcInternalError(f"internal error: {type(error).__name__}: {error}")
            self._refuse(_id_of(raw), problem)

    def handle_message(self, message: Any) -> None:
        """Take a message as JSON has it, and answer or handle it."""
        if not isinstance(message, dict) or message.get("jsonrpc") != _VERSION:
            error = JsonRpcInvalidRequest(f"message must be an object of JSON-RPC {_VERSION}")
            self._refuse(_id_of(message), error)
        elif "method" not in message:
            self._take_response(message)
        elif "id" in message:
            self._take_request(message)
        else:
            self._take_notification(message)

    # Instead of pygls's own, which fail where a document is not open.

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        """Take a text."""
        self._follow(types.TEXT_DOCUMENT_DID_OPEN, self._server.open, params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        """Take a newer text."""
        self._follow(types.TEXT_DOCUMENT_DID_CHANGE, self._server.change, params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        """Forget a text."""
        self._follow(types.TEXT_DOCUMENT_DID_CLOSE, self._server.close, params)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def lsp_notebook_document__did_open(self, params: types.DidOpenNotebookDocumentParams) -> None:
        """Take a notebook."""
        self._follow(types.NOTEBOOK_DOCUMENT_DID_OPEN, self._server.open_notebook, params)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(
        self, params: types.DidChangeNotebookDocumentParams
    ) -> None:
        """Take newer cells."""
        self._follow(types.NOTEBOOK_DOCUMENT_DID_CHANGE, self._server.change_notebook, params)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def lsp_notebook_document__did_close(
        self, params: types.DidCloseNotebookDocumentParams
    ) -> None:
        """Forget a notebook."""
        self._follow(types.NOTEBOOK_DOCUMENT_DID_CLOSE, self._server.close_notebook, params)

    def _follow(self, method: str, take: Callable[[Any], None], params: object) -> None:
        try:
            take(params)
        except InvalidError as error:
            self.log(f"ignored {method}: {error}")

    def _take_request(self, message: dict[str, Any]) -> None:
        identifier, method = _id_of(message), message["method"]
        try:
            _require_id(identifier)
            if not isinstance(method, str):
                raise JsonRpcInvalidRequest("method must be a string")
            if identifier in self._request_futures:
                raise JsonRpcInvalidRequest(f"id is in use: {cited(str(identifier))}")
            if self._shutdown:
                raise JsonRpcInvalidRequest("server is shut down")
            if (self._workspace is None) != (method == types.INITIALIZE):
                if self._workspace is None:
                    raise JsonRpcServerNotInitialized("server is not initialized")
                raise JsonRpcInvalidRequest("server is initialized already")
            if not self._knows(method) or _is_notification(method):
                raise JsonRpcMethodNotFound.of(cited(method))
            request = self._structured(message)
        except JsonRpcException as error:
            self._refuse(identifier, error)
        else:
            super().handle_message(request)

    def _take_notification(self, message: dict[str, Any]) -> None:
        method = message["method"]
        if method == types.EXIT:
            message = {"jsonrpc": _VERSION, "method": method}
        elif self._shutdown or self._workspace is None:
            return  # as the protocol says
        elif isinstance(method, str) and not self._knows(method):
            if not method.startswith("$/"):
                self.log(f"ignored {cited(method)}: not supported")
            return
        try:
            if not isinstance(method, str) or not _is_notification(method):
                raise JsonRpcInvalidRequest("method must be that of a notification")
            super().handle_message(self._structured(message))
        except JsonRpcException as error:
            self.log(f"ignored {cited(str(method))}: {error.message}")

    def _take_response(self, message: dict[str, Any]) -> None:
        identifier = _id_of(message)
        if identifier is None or identifier not in self._result_types:
            self.log("ignored a response: there was no request of its id")
            return
        try:
            is_error = "error" in message
            kind = types.ResponseErrorMessage if is_error else self._result_types[identifier]
            response = cast("RPCMessage", self._converter.structure(message, kind))
        except Exception as error:  # noqa: BLE001  (converters raise what they like)
            self.log(f"ignored a response: {_reason(error)}")
            return
        self._result_types.pop(identifier)
        super().handle_message(response)

    def _structured(self, message: dict[str, Any]) -> RPCMessage:
        """Return a message of a known method as its type.

        Raises:
            JsonRpcInvalidParams: it is malformed.
        """
        kind = types.METHOD_TO_TYPES[message["method"]][0]
        try:
            structured: Any = self._converter.structure(message, kind)
            if isinstance(structured.params, types.CancelParams):
                _require_id(structured.params.id)
            if isinstance(structured.params, types.ExecuteCommandParams):
                # pygls calls a command without checking that there are arguments.
                structured.params.arguments = structured.params.arguments or []
            for uri in _uris(structured.params):
                path_of(uri, Path())
        except (InvalidError, JsonRpcException) as error:
            raise JsonRpcInvalidParams(str(error)) from error
        except Exception as error:
            raise JsonRpcInvalidParams(_reason(error)) from error
        return cast("RPCMessage", structured)

    def _knows(self, method: str) -> bool:
        return method in _BUILT_IN or method in self.fm.features

    def _refuse(self, identifier: int | str | None, error: JsonRpcException) -> None:
        # Not as `ResponseErrorMessage`, which leaves out an id of null.
        reason = {"code": error.code, "message": error.message}
        self._send_data({"jsonrpc": _VERSION, "id": identifier, "error": reason})

    def notify_plain(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification with parameters as JSON has them."""
        self._send_data(JsonRPCNotification(method, _VERSION, params))

    def plain(self, structure: object) -> dict[str, Any]:
        """Return a structure as JSON has it."""
        found: dict[str, Any] = self._converter.unstructure(structure)
        return found

    def log(self, message: str) -> None:
        """Send a warning to the editor's log."""
        params = types.LogMessageParams(types.MessageType.Warning, f"EmberCoach: {message}")
        if self._workspace is not None:
            self.notify(types.WINDOW_LOG_MESSAGE, params)


def quiet_expected_errors() -> None:
    """Keep pygls from logging a traceback for each error that a request is answered with."""
    logging.getLogger("pygls.protocol.json_rpc").addFilter(_is_unexpected)


def _is_unexpected(record: logging.LogRecord) -> bool:
    error = record.exc_info and record.exc_info[1]
    return not isinstance(error, JsonRpcException)


def _require_id(identifier: object) -> None:
    if type(identifier) not in (int, str):
        raise JsonRpcInvalidRequest("id must be an integer or a string")


def _id_of(message: object) -> int | str | None:
    found = message.get("id") if isinstance(message, dict) else None
    return found if type(found) in (int, str) else None


def _is_notification(method: str) -> bool:
    kind = types.METHOD_TO_TYPES.get(method)
    return kind is not None and kind[1] is None


def _uris(params: object) -> Iterator[str]:
    """Yield the URIs of documents and folders that parameters name."""
    if isinstance(params, types.InitializeParams):
        yield from filter(None, (params.root_uri,))
        yield from (folder.uri for folder in params.workspace_folders or ())
    elif isinstance(params, types.DidChangeWorkspaceFoldersParams):
        yield from (folder.uri for folder in (*params.event.added, *params.event.removed))
    else:
        documents = (getattr(params, name, None) for name in ("text_document", "notebook_document"))
        yield from (document.uri for document in documents if document is not None)


def _reason(error: Exception) -> str:
    """Return the error of a converter, in one line."""
    found = transform_error(error, path="message")
    shown = "; ".join(found)
    return shown if len(shown) <= _CITED else f"{shown[:_CITED]}..."
