"""Messages from an editor's stream: their headers, and the bytes that follow."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

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
