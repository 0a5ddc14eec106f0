"""Format strings filled in: what Python makes of them, and every character keeps its place."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach.metal.source import (
    FoldedText,
    StandIn,
    UnfoldableError,
    format_text,
    percent,
    substitute,
)
from tests.metal.test_source import assert_map

FIELDS = st.sampled_from(
    [
        *(
            "{}",
            "{0}",
            "{1}",
            "{n}",
            "{s}",
            "{n:>4}",
            "{s!r:>9}",
            "{n:04d}",
            "{x:.2f}",
            "{b}",
            "{!s}",
        ),
        *(
            "{{",
            "}}",
            "{",
            "}",
            "a",
            "\n",
            " ",
            "{n.real}",
            "{s[0]}",
            "{missing}",
            "{n:{n}}",
            "{s:d}",
        ),
    ]
)


@given(st.lists(FIELDS, max_size=6).map("".join), st.booleans())
def test_format(template, mapped) -> None:
    sources = [f'"""{template}"""', "'S\\n!'"]
    piece = FoldedText.of_literal(sources[1], 1)
    plain = {"n": 3, "x": 1.5, "b": True, "s": piece.text}
    known = {**plain, "s": piece if mapped else piece.text}
    try:
        expected = template.format("P", 7, **plain)
    except (LookupError, ValueError):
        expected = None
    try:
        result = format_text(FoldedText.of_literal(sources[0], 0), ["P", 7], known)
    except UnfoldableError:
        # Fields that look into their value are left alone on purpose.
        assert expected is None or any(f in template for f in ("n.real", "s[0]", "n:{n}"))
        return
    assert result.text == expected
    assert_map(result, sources)


CONVERSIONS = st.sampled_from(
    ["%s", "%d", "%5.2f", "%%", "%x", "%-4d|", "%r", "%c", "a", "\n", "%", "%*d", "%(n)s", "%q"]
)


@given(st.lists(CONVERSIONS, max_size=5).map("".join), st.lists(st.integers(0, 300), max_size=5))
def test_percent_with_a_tuple(template, numbers) -> None:
    source = f'"""{template}"""'
    try:
        expected = template % tuple(numbers)
    except (TypeError, ValueError, OverflowError):
        expected = None
    try:
        result = percent(FoldedText.of_literal(source, 0), numbers)
    except UnfoldableError:
        assert expected is None or "*" in template or "%c" in template
        return
    assert result.text == expected
    assert_map(result, [source])


@given(
    st.lists(
        st.sampled_from(["%(n)s", "%(s)s", "%(n)03d", "%(x)d", "%%", "a", " ", "%s", "%(n"]),
        max_size=5,
    ).map("".join)
)
def test_percent_with_a_dictionary(template) -> None:
    sources = [f'"""{template}"""', "'S\\n!'"]
    text = FoldedText.of_literal(sources[1], 1)
    try:
        expected = template % {"n": 3, "s": text.text}
    except (TypeError, ValueError, KeyError):
        expected = None
    try:
        result = percent(FoldedText.of_literal(sources[0], 0), {"n": 3, "s": text})
    except UnfoldableError:
        assert expected is None or "%s" in template
        return
    assert result.text == expected
    assert_map(result, sources)


@given(
    st.lists(
        st.sampled_from(["$n", "${s}", "$$", "$missing", "$", "${", "a", " ", "1", "$1", "$N"]),
        max_size=6,
    ).map("".join),
    st.booleans(),
)
def test_substitute(template, safe) -> None:
    sources = [f'"""{template}"""', "'S\\n!'"]
    text = FoldedText.of_literal(sources[1], 1)
    plain = {"n": 3, "s": text.text}
    made = string.Template(template)
    try:
        expected = made.safe_substitute(plain) if safe else made.substitute(plain)
    except (KeyError, ValueError):
        expected = None
    try:
        folded = FoldedText.of_literal(sources[0], 0)
        result = substitute(folded, {"n": 3, "s": text}, safe=safe)
    except UnfoldableError:
        assert expected is None
        return
    assert result.text == expected
    assert_map(result, sources)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda t, s: percent(t("%d-%5.2f"), [s, s]), "?-?"),
        (lambda t, s: substitute(t("$a${a}"), {"a": s}, safe=False), "??"),
    ],
)
def test_what_stands_for_unknown_values_fits_any_field(made, expected) -> None:
    stand_in = StandIn(FoldedText.of_value("?", 1))
    result = made(lambda text: FoldedText.of_literal(repr(text), 0), stand_in)
    assert result.text == expected
    assert result.position(result.text.index("?")) == (1, 0)


@pytest.mark.parametrize("template", ["%d", "%s %s", "%99999d", "%(a)s"])
def test_percent_refuses_what_does_not_fit(template) -> None:
    with pytest.raises(UnfoldableError):
        percent(FoldedText.of_literal(repr(template), 0), ["a"])


def test_filled_in_text_points_at_its_placeholder() -> None:
    text = FoldedText.of_literal("'N = $n; %d'", 0)
    made = percent(substitute(text, {"n": 12}, safe=False), [7])
    assert made.text == "N = 12; 7"
    assert [made.position(i) for i in (0, 4, 5, 6, 8)] == [(0, 1), (0, 5), (0, 5), (0, 7), (0, 9)]
    assert made.end_position(6) == (0, 7)
