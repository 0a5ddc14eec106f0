"""Folded text: every operation equals Python's, and every character keeps its place."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach.metal.source import FoldedText, UnfoldableError, concat, format_text

LINES = st.text(alphabet=" \t\nab{}", max_size=30)
SOURCES = LINES.map(lambda content: f'"""{content}"""')


def assert_map(folded: FoldedText, sources: list[str]) -> None:
    """Pieces cover the text, and exact ones stand in their source as they are."""
    end = 0
    for piece in folded.pieces:
        assert piece.start == end
        assert piece.end > piece.start
        end = piece.end
        if piece.exact:
            source = sources[piece.origin]
            assert source[piece.at : piece.at + piece.width] == folded.text[piece.start : piece.end]
    assert end == len(folded.text)
    for offset in range(len(folded.text)):
        first, last = folded.position(offset), folded.end_position(offset + 1)
        assert (first is None) == (last is None)
        if first is not None:
            assert first[0] == last[0]
            assert 0 <= first[1] <= last[1] <= len(sources[first[0]])


def folded(sources: list[str]) -> FoldedText:
    return concat(FoldedText.of_literal(source, i) for i, source in enumerate(sources))


@given(st.lists(SOURCES, max_size=3))
def test_dedent(sources) -> None:
    result = folded(sources).dedent()
    assert result.text == textwrap.dedent(folded(sources).text)
    assert_map(result, sources)


def test_position_through_the_usual_chain() -> None:
    source = 'r"""\n    uint i = tid;\n    out[i] = {expr};\n"""'
    body = FoldedText.of_literal(source, 5).dedent().strip()
    body = format_text(body, [], {"expr": FoldedText.of_literal("'x[i] * 2'", 6)})
    assert body.text == "uint i = tid;\nout[i] = x[i] * 2;"
    origin, at = body.position(body.text.index("tid"))
    assert (origin, source[at : at + 3]) == (5, "tid")
    origin, at = body.position(body.text.index("x[i]"))
    assert (origin, at) == (6, 1)
    origin, at = body.position(body.text.rindex(";"))
    assert (origin, source[at]) == (5, ";")
    assert body.end_position(len(body.text)) == (5, at + 1)


def test_escapes_point_at_their_backslash() -> None:
    source = r"'a\tb\n'"
    text = FoldedText.of_literal(source, 0)
    assert text.text == "a\tb\n"
    assert [text.position(i) for i in range(5)] == [(0, 1), (0, 2), (0, 4), (0, 5), (0, 7)]
    assert text.end_position(2) == (0, 4)


def test_text_from_nowhere_has_no_position() -> None:
    text = concat([FoldedText.of_value("ab"), FoldedText.of_literal("'c'", 0)])
    assert text.position(1) is None
    assert text.end_position(1) is None
    assert text.position(2) == (0, 1)
    assert text.position(9) is None
    assert FoldedText("").position(0) is None


def test_replacing_nothing_is_refused() -> None:
    with pytest.raises(UnfoldableError):
        FoldedText.of_literal("'a'", 0).replace("", "b")
