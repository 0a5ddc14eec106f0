"""Literals against ``ast.literal_eval``, and the places of their characters."""

from __future__ import annotations

import ast
import warnings

import libcst as cst
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from embercoach.metal.source import LiteralError, read_content, read_literal

FRAGMENTS = st.sampled_from(
    [
        *("a", "é", "𝄞", " ", "\t", "{", "}", "{{", "}}", "'", '"', '""', "''", "\f"),
        *("\n", "\r", "\r\n", "\\\n", "\\\r\n", "\\\r", "\\\\", "\\'", '\\"'),
        *("\\n", "\\t", "\\a", "\\v", "\\0", "\\7", "\\12", "\\377", "\\1234", "\\8", "\\d", "\\ "),
        *("\\x41", "\\xff", "\\u00e9", "\\ud800", "\\U0001d11e", "\\N{BULLET}", "\\N{NBSP}", "\\é"),
        *(
            "\\x4",
            "\\u12",
            "\\U00110000",
            "\\N{NO SUCH}",
            "\\N",
            "\\",
            "\\{",
            "\\N{KEYCAP DIGIT ONE}",
        ),
    ]
)
CONTENTS = st.lists(FRAGMENTS, max_size=8).map("".join)
QUOTES = st.sampled_from(["'", '"', "'''", '"""'])


def parsed(source: str) -> ast.expr | None:
    """What Python reads in the source, None where it refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source, mode="eval").body
        except (SyntaxError, ValueError):
            return None


def value(source: str) -> object:
    expression = parsed(source)
    assert isinstance(expression, ast.Constant)
    return expression.value


def is_one(kind: type[cst.BaseExpression], source: str) -> bool:
    """Whether the source is one literal of a kind, not several side by side."""
    try:
        return isinstance(cst.parse_expression(source), kind)
    except cst.ParserSyntaxError:
        return False


@given(st.sampled_from(["", "r", "R", "u", "U"]), QUOTES, CONTENTS)
def test_value_equals_python(prefix, quote, content) -> None:
    source = f"{prefix}{quote}{content}{quote}"
    expression = parsed(source)
    assume(isinstance(expression, ast.Constant) and is_one(cst.SimpleString, source))
    runs = read_literal(source)
    assert "".join(run.text for run in runs) == expression.value
    for run in runs:
        stretch = source[run.at : run.at + run.width]
        assert run.text == (stretch if run.exact else value(f'"""{stretch}"""'))


# Python versions disagree on a backslash in front of a brace.
@given(st.booleans(), CONTENTS.filter(lambda content: "\\{" not in content))
def test_fragment_equals_f_string(raw, content) -> None:
    source = f'{"rf" if raw else "f"}"""{content}"""'
    expression = parsed(source)
    assume(isinstance(expression, ast.JoinedStr) and is_one(cst.FormattedString, source))
    assume(all(isinstance(part, ast.Constant) for part in expression.values))
    runs = read_content(content, raw=raw, doubled_braces=True)
    assert "".join(run.text for run in runs) == "".join(part.value for part in expression.values)


@pytest.mark.parametrize(
    "source", ["b'a'", "f'a'", "rb'a'", "t'a'", "'a", "a", "", "'", "'''a'", "1", "'\\x4'", "'\\N'"]
)
def test_no_plain_literal(source) -> None:
    with pytest.raises(LiteralError):
        read_literal(source)
