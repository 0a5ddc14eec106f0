"""The standard streams of the process: closed ones, and errors of writing that name the stream."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

_TITLES = {"stdout": "standard output", "stderr": "standard error"}


class StreamError(OSError):
    """Standard output or standard error can't be written; ``filename`` is the stream's title."""


class _NamedStream(io.FileIO):
    """A stream whose errors of writing name it."""

    title = ""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            raise StreamError(error.errno, error.strerror, self.title) from error


def prepare_streams() -> None:
    """Open the streams that the process was started without, and let errors name their stream.

    Otherwise the next file to be opened would become a closed stream. Output to it goes nowhere;
    reading it fails, as from a closed descriptor.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_WRONLY)  # takes the lowest number that is free: this one
            os.set_inheritable(number, True)
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for name, title in _TITLES.items():
        stream = getattr(sys, name)
        if type(getattr(stream.buffer, "raw", stream.buffer)) is io.FileIO:
            setattr(sys, name, _named(stream, title))


def _named(stream: io.TextIOWrapper, title: str) -> io.TextIOWrapper:
    raw = _NamedStream(stream.fileno(), "w", closefd=False)
    raw.title = title
    is_buffered = hasattr(stream.buffer, "raw")
    return io.TextIOWrapper(
        io.BufferedWriter(raw) if is_buffered else raw,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
