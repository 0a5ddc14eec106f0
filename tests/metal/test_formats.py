"""Format strings filled in: what Python makes of them, and every character keeps its place."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection
from typing import Any

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

SOURCE = "'S\\n!'"


def assert_same(
    template: str,
    python: Callable[[str, Any], str],
    made: Callable[[FoldedText, Any], FoldedText],
    refused: Collection[str] = (),
) -> None:
    """Fill a template in with Python and with what is tested, from a text of another literal.

    Args:
        template: of a literal.
        python: the template and the text to the result.
        made: the same for folded texts.
        refused: parts of templates that are left alone on purpose.
    """
    sources = [f'"""{template}"""', SOURCE]
    text = FoldedText.of_literal(SOURCE, 1)
    try:
        expected = python(template, text.text)
    except (LookupError, TypeError, ValueError, OverflowError):
        expected = None
    try:
        result = made(FoldedText.of_literal(sources[0], 0), text)
    except UnfoldableError:
        assert expected is None or any(part in template for part in refused)
        return
    assert result.text == expected
    assert_map(result, sources)


FIELDS = st.sampled_from(
    [
        *("{}", "{0}", "{1}", "{n}", "{s}", "{n:>4}", "{s!r:>9}", "{n:04d}", "{x:.2f}", "{b}"),
        *("{!s}", "{{", "}}", "{", "}", "a", "\n", " ", "{n.real}", "{s[0]}", "{missing}"),
        *("{n:{n}}", "{s:d}"),
    ]
)


@given(st.lists(FIELDS, max_size=6).map("".join), st.booleans())
def test_format(template, mapped) -> None:
    plain = {"n": 3, "x": 1.5, "b": True}
    assert_same(
        template,
        lambda text, s: text.format("P", 7, **plain, s=s),
        lambda text, s: format_text(text, ["P", 7], {**plain, "s": s if mapped else s.text}),
        ("n.real", "s[0]", "n:{n}"),  # fields that look into their value
    )


CONVERSIONS = st.sampled_from(
    ["%s", "%d", "%5.2f", "%%", "%x", "%-4d|", "%r", "%c", "a", "\n", "%", "%*d", "%(n)s", "%q"]
)


@given(st.lists(CONVERSIONS, max_size=5).map("".join), st.lists(st.integers(0, 300), max_size=5))
def test_percent_with_a_tuple(template, numbers) -> None:
    assert_same(
        template,
        lambda text, _: text % tuple(numbers),
        lambda text, _: percent(text, numbers),
        ("*", "%c"),
    )


BY_KEY = st.sampled_from(["%(n)s", "%(s)s", "%(n)03d", "%(x)d", "%%", "a", " ", "%s", "%(n"])


@given(st.lists(BY_KEY, max_size=5).map("".join))
def test_percent_with_a_dictionary(template) -> None:
    assert_same(
        template,
        lambda text, s: text % {"n": 3, "s": s},
        lambda text, s: percent(text, {"n": 3, "s": s}),
        ("%s",),
    )


NAMES = st.sampled_from(["$n", "${s}", "$$", "$missing", "$", "${", "a", " ", "1", "$1", "$N"])


@given(st.lists(NAMES, max_size=6).map("".join), st.booleans())
def test_substitute(template, safe) -> None:
    method = "safe_substitute" if safe else "substitute"
    assert_same(
        template,
        lambda text, s: getattr(string.Template(text), method)({"n": 3, "s": s}),
        lambda text, s: substitute(text, {"n": 3, "s": s}, safe=safe),
    )


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
