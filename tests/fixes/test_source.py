"""Decoding, encoding and places in source text."""

from __future__ import annotations

import io
import tokenize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach.fixes.source_file import DecodingError, LineIndex, SourceText, decode, encode

NEWLINES = st.sampled_from(["\n", "\r\n", "\r"])
TEXTS = st.text(alphabet=st.sampled_from("ab\n\r\t\f\x0b\u2028é日 "), max_size=60)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", SourceText("", "utf-8", False)),
        (b"x = 1\n", SourceText("x = 1\n", "utf-8", False)),
        ("é = 1\n".encode(), SourceText("é = 1\n", "utf-8", False)),
        (b"\xef\xbb\xbfx = 1\r\n", SourceText("x = 1\r\n", "utf-8", True)),
        (
            b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
            SourceText("# -*- coding: latin-1 -*-\nx = 'é'\n", "iso-8859-1", False),
        ),
        (
            b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
            SourceText(
                "#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '€'\n", "cp1252", False
            ),
        ),
        # Only the first two lines can hold a cookie.
        (
            "\n\n# coding: latin-1\né\n".encode(),
            SourceText("\n\n# coding: latin-1\né\n", "utf-8", False),
        ),
    ],
)
def test_decode_and_back(data: bytes, expected: SourceText) -> None:
    assert decode(data) == expected
    assert encode(expected.text, expected) == data


@pytest.mark.parametrize(
    ("data", "line", "column", "words"),
    [
        (b"x = 1\ny = '\xff'\n", 2, 6, "byte 0xff cannot be decoded as utf-8"),
        ("é = '".encode() + b"\xff'", 1, 6, "byte 0xff"),
        (b"# coding: no-such\n", 1, 1, "unknown encoding: no-such"),
        (b"# coding: hex\nabc\n", 1, 1, "cannot be decoded as hex"),
        (b"\xef\xbb\xbf# coding: latin-1\n", 1, 1, "encoding problem"),
        (b"x = 1\n\ny = '\x00'\n", 3, 6, "null byte"),
        ("x = 1\n".encode("utf-16"), 1, 1, "byte 0xff"),
        (b"# coding: ascii\n# \xc3\xa9\n", 2, 3, "cannot be decoded as ascii"),
    ],
)
def test_what_cannot_be_decoded_has_a_place(
    data: bytes, line: int, column: int, words: str
) -> None:
    with pytest.raises(DecodingError) as caught:
        decode(data)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in caught.value.message


@given(st.binary(max_size=40))
def test_python_agrees_on_the_encoding(data: bytes) -> None:
    """What Python's tokeniser decodes, we decode to the same text."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        expected = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError):
        with pytest.raises(DecodingError):
            decode(data)
        return
    if "\0" in expected:
        with pytest.raises(DecodingError):
            decode(data)
    else:
        assert decode(data).text == expected


@given(TEXTS)
def test_places_and_offsets_are_inverse(text: str) -> None:
    index = LineIndex(text)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] == "\r\n":
            continue  # inside of a line end
        line, column = index.place(offset)
        assert index.offset(line, column) == offset
        assert index.line(line)[: column - 1] == text[index.starts[line - 1] : offset].rstrip("\r")


@given(TEXTS)
def test_lines_are_python_lines(text: str) -> None:
    expected = io.StringIO(text, newline=None).read().split("\n")
    index = LineIndex(text)
    assert [index.line(number) for number in range(1, len(index.starts) + 1)] == expected
    assert index.count == (
        len(expected) - 1 if len(expected) > 1 and not expected[-1] else len(expected)
    )


def test_a_form_feed_ends_no_line() -> None:
    index = LineIndex("a\x0cb\nc")
    assert index.place(2) == (1, 3)
    assert index.line(2) == "c"
    assert index.line(3) == ""


@pytest.mark.parametrize(
    ("text", "newline"),
    [("a\nb\n", "\n"), ("a\r\nb\r\n", "\r\n"), ("", "\n"), ("a\r\nb\nc\n", "\n")],
)
def test_the_dominant_line_end(text: str, newline: str) -> None:
    assert SourceText(text, "utf-8", False).newline == newline
