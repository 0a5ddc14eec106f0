"""Source files as text and back: encodings, byte order marks, line ends, places."""

from __future__ import annotations

import codecs
import io
import re
from bisect import bisect_right

from msgspec import Struct

from embercoach.finding import PlacedError

#: What Python's grammar ends a line at. ``str.splitlines`` splits at form feeds and more.
LINE_END = re.compile(r"\r\n|\r|\n")


class DecodingError(PlacedError):
    """Bytes that are not Python source: line and column (from 1) of the first invalid one."""


class SourceText(Struct, frozen=True):
    """Decoded source with its line ends untouched, and what is needed to encode it again."""

    text: str
    encoding: str
    bom: bool

    @property
    def newline(self) -> str:
        """The line end that the file uses most."""
        return newline_of(self.text)


def newline_of(text: str) -> str:
    """Return the line end that a text uses most."""
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def decode(data: bytes) -> SourceText:
    """Decode a file as Python does (PEP 263): a byte order mark, a cookie, else UTF-8.

    Raises:
        DecodingError: unknown encoding, bytes that it cannot hold, or a null byte.
    """
    bom = data.startswith(codecs.BOM_UTF8)
    encoding = _declared(data)
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        line, column = _place(body, error.start, encoding)
        raise DecodingError(
            line, column, f"byte 0x{body[error.start]:02x} cannot be decoded as {encoding}"
        ) from error
    except (LookupError, UnicodeError) as error:
        raise DecodingError(1, 1, f"cannot be decoded as {encoding}: {error}") from error
    null = text.find("\0")
    if null >= 0:
        raise DecodingError(*LineIndex(text).place(null), "source contains a null byte")
    return SourceText(text, encoding, bom)


def encode(text: str, like: SourceText) -> bytes:
    """Return the bytes of a text in the encoding of the file it came from.

    Raises:
        UnicodeEncodeError: that encoding cannot hold the text.
    """
    data = text.encode(like.encoding)
    return codecs.BOM_UTF8 + data if like.bom else data


def bytes_of(text: str) -> bytes:
    """The bytes of a text that is in no file yet, in the encoding that it declares, or UTF-8."""
    # Half a character becomes bytes that ``decode`` refuses, with its place.
    data = text.encode("utf-8", "surrogatepass")
    try:
        encoding = _declared(data)
        return data if encoding == "utf-8" else text.encode(encoding)
    except (DecodingError, LookupError, UnicodeError):
        return data


def _declared(data: bytes) -> str:
    # tokenize is only imported for files that may hold a cookie.
    first, _, rest = data.partition(b"\n")
    if b"coding" not in first and b"coding" not in rest.partition(b"\n")[0]:
        return "utf-8"
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise DecodingError(1, 1, str(error.msg or error)) from error
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _place(data: bytes, offset: int, encoding: str) -> tuple[int, int]:
    before = data[:offset].decode(encoding, errors="replace")
    return LineIndex(before).place(len(before))


class LineIndex:
    """Where the lines of a text start; places count from 1, columns in characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in LINE_END.finditer(text))]
        #: How many lines there are; a line end at the end of the text opens no further one.
        self.count = len(self.starts) - (self.starts[-1] == len(text) and len(self.starts) > 1)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset; offsets past the end mean the end."""
        offset = min(offset, len(self.text))
        row = bisect_right(self.starts, offset) - 1
        return row + 1, offset - self.starts[row] + 1

    def offset(self, line: int, column: int) -> int:
        """Return the character offset of a place; the inverse of :meth:`place`."""
        if line > len(self.starts):
            return len(self.text)
        return min(self.starts[line - 1] + column - 1, len(self.text))

    def line(self, number: int) -> str:
        """Return a line without its line end; empty past the end of the text."""
        if not 1 <= number <= len(self.starts):
            return ""
        end = self.starts[number] if number < len(self.starts) else len(self.text)
        return self.text[self.starts[number - 1] : end].rstrip("\r\n")
