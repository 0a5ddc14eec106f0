"""Length-prefixed messages on the pipes between the server and its workers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import IO

_LENGTH = struct.Struct("<Q")


def write(stream: IO[bytes], body: bytes) -> None:
    """Send a message.

    Raises:
        OSError: the other end is gone.
    """
    stream.write(_LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()


def read(stream: IO[bytes]) -> bytes | None:
    """Receive a message; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None
