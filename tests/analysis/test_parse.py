"""Parsing: the same tree as libcst's own, made faster, and nothing left changed in libcst."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from libcst._nodes.base import CSTNode

import embercoach.checks
from embercoach.analysis.syntax.parse import parse

VALIDATE, WHITESPACE, NEWLINE = CSTNode.__post_init__, cst.SimpleWhitespace, cst.Newline


FILES = sorted(Path(embercoach.checks.__file__).parent.glob("*.py"))[::3]
ODD = ["", "\n", "a\r\nif b :\r\n\tc ;d\r\n", "x = ( 1 ,\\\n 2 )  # é\n\n", "if a:\n  b\n# end"]


@pytest.mark.parametrize("source", [*ODD, *(path.read_text("utf-8") for path in FILES)])
def test_the_tree_is_that_of_libcst(source: str) -> None:
    tree = parse(source)
    assert tree.deep_equals(cst.parse_module(source))
    assert tree.code == source


def test_statements_and_expressions_stay_apart() -> None:
    """Equal spaces may be one node; what facts are keyed by must not be."""
    tree = parse("a = f(b, b)\na = f(b, b)\n")
    first, second = tree.body
    assert isinstance(first, cst.SimpleStatementLine)
    assert isinstance(second, cst.SimpleStatementLine)
    call, other = (line.body[0].value for line in (first, second))
    assert first is not second
    assert call is not other
    assert len({id(a.value) for c in (call, other) for a in c.args}) == 4
