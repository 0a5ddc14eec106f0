"""Trees for the analysis equal libcst's but for trivia, and so do texts and positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import libcst as cst
import pytest
from hypothesis import HealthCheck, event, given, settings
from libcst.metadata import MetadataWrapper, PositionProvider

from embercoach.analysis.syntax import source_tree
from embercoach.analysis.syntax.parse import Span, outline_of, parse
from embercoach.analysis.syntax.source_tree import SourceTree, read_tree
from embercoach.fixes.source_file import LineIndex
from tests.analysis.programs import PROGRAMS

SOURCES = {
    "calls": "f(a, *b, key=c, **d)\nx = g(1)(2)[3].y\n",
    "continuation before a statement": "if a: \\\n    b; \\\n    c\nd\n",
    "bare tuples": "x[a, b]\nx[(a, b)]\nx[(a), (b)]\nx[()]\nx[(a):(b), (c)]\nx[(a, b),]\n",
    "starred subscripts": "x[*a]\nx[*a, b]\ndef f(*args: *Ts): a\n",
    "strings in a row": "f('a' \"b\", 'it\\'s', '''d\\'''', u'e' 'f')\nb'a' rb'b'\n",
    "keywords before positions": "f(a=1, *b, **c)\nclass A(*B, m=1, **d): pass\n",
    "names that Python normalizes": "ﬁt = 1\nx.ﬁt(ﬁt=2)\n",
    "decorators": "@a.b(c)\n@d\n# comment\n@e[f]\ndef g(h=i, *, j: k = l) -> m:\n    n(o)\n",
    "decorators in parentheses": "@( \\\n a)\n# é\n@(\n  b.c\n)\ndef d(e): f\n",
    "async decorated": "@a(b)\nasync def f(c=d): await e(g)\n",
    "try star": "try:\n    a(b)\nexcept* c(d) as e:\n    f(g)\nelse:\n    h(i)\n",
    "match as a name": "match(a)\nmatch = b(c)\ncase = 1\nprint(match)\n",
    "slices": "a[b(c):d, ::e, ...]\nx[(y)] = z\ndel a[b], c.d\n",
}


#: Fields that hold trivia, or punctuation that only generated code needs.
TRIVIA = {
    *("lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "comma", "semicolon", "dot"),
    *("first_colon", "second_colon", "colon", "header", "footer", "indent", "encoding"),
    *("leading_lines", "lines_after_decorators", "leading_whitespace", "trailing_whitespace"),
    *("default_indent", "default_newline", "has_trailing_newline"),
}


def pairs(mine: Any, real: Any) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The nodes of two trees side by side, which must be equal but for trivia."""
    if isinstance(real, (list, tuple)):
        assert len(mine) == len(real)
        for one, other in zip(mine, real, strict=True):
            yield from pairs(one, other)
        return
    assert type(mine) is type(real)
    if not isinstance(real, cst.CSTNode):
        assert mine == real
        return
    yield mine, real
    for field in fields(real):
        is_shown = field.name == "equal" and isinstance(real, cst.FormattedStringExpression)
        if is_shown or (field.name not in {*TRIVIA, "equal"} and "whitespace" not in field.name):
            yield from pairs(getattr(mine, field.name), getattr(real, field.name))


def statements_of(module: cst.Module) -> dict[cst.CSTNode, cst.CSTNode]:
    """Every expression and simple statement, with the statement that it stands in."""
    found: dict[cst.CSTNode, cst.CSTNode] = {}

    def walk(node: cst.CSTNode, statement: cst.CSTNode) -> None:
        if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            statement = node
        if isinstance(node, (cst.BaseExpression, cst.BaseSmallStatement)):
            found[node] = statement
        for child in node.children:
            walk(child, statement)

    walk(module, module)
    return found


def expected_spans(module: cst.Module) -> dict[cst.CSTNode, Span]:
    ranges = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    return {
        node: Span(r.start.line, r.start.column, r.end.line, r.end.column)
        for node, r in ranges.items()
    }


def disagreements(source: str) -> Iterator[str]:
    """Nodes that have another position or text than libcst gives them."""
    module = parse(source)
    expected = expected_spans(module)
    read = read_tree(source)
    real = dict(pairs(read.tree, module))
    wanted = statements_of(read.tree)
    together = read.spans(wanted)
    assert together.keys() == wanted.keys()
    for node, statement in wanted.items():
        code = module.code_for_node(real[node])
        alone = SourceTree(source, read.converted).spans({node: statement})[node]
        if not together[node] == alone == expected[real[node]]:
            yield f"{code!r}: {together[node]}, alone {alone}, not {expected[real[node]]}"
        if _lines(read.code(node)) != _lines(code):
            yield f"{read.code(node)!r} is not {code!r}"


def _lines(text: str) -> list[str]:
    """Without indentation: libcst generates a node as if its statement stood at the left."""
    return [line.lstrip() for line in text.splitlines()]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_nodes_positions_and_texts_are_those_of_libcst(source: str) -> None:
    assert not list(disagreements(source))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_positions_cut_the_node_s_own_text(source: str) -> None:
    read = read_tree(source)
    index = LineIndex(source)
    for node, span in read.spans(statements_of(read.tree)).items():
        start = index.offset(span.line, span.column + 1)
        text = source[start : index.offset(span.end_line, span.end_column + 1)]
        # A node's code has the parentheses around it, its position does not.
        assert text in read.code(node)
        assert text or read.code(node) == "()"


#: What libcst must parse as a whole.
WHOLE = {"continuation before a statement", "names that Python normalizes", "starred subscripts"}


@pytest.mark.parametrize("source", [SOURCES[name] for name in sorted(SOURCES.keys() - WHOLE)])
def test_most_sources_need_no_parse_of_the_whole(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if outline_of(source) is None:
        pytest.skip("newer syntax than this Python's")
    monkeypatch.setattr(source_tree, "parse", None)
    assert read_tree(source).converted.ranges is not None


@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(PROGRAMS)
def test_trees_of_made_up_programs(source: str) -> None:
    agree(source)


@pytest.mark.exhaustive
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(PROGRAMS)
def test_trees_of_many_made_up_programs(source: str) -> None:
    agree(source)


def agree(source: str) -> None:
    try:
        parse(source)
    except cst.ParserSyntaxError:
        event("does not parse")
        return
    event("converted" if read_tree(source).converted.ranges is not None else "parsed")
    assert not list(disagreements(source))
