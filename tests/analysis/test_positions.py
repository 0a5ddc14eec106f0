"""Positions: those of ``locate`` equal those of libcst's ``PositionProvider``, node by node."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import pytest
from hypothesis import HealthCheck, event, given, settings
from libcst.metadata import MetadataWrapper, PositionProvider

from embercoach.analysis import positions
from embercoach.analysis.parse import parse, skeleton
from embercoach.analysis.positions import Span, locate, locate_in_whole
from tests.analysis.programs import PROGRAMS

SOURCES = {
    "calls": "f(a, *b, key=c, **d)\nx = g(1)(2)[3].y\n",
    "parentheses": "((((a))))\nx = (  ( b ) + (c ))\n(yield)\n( a ) , ( b ) = c\n",
    "several lines": "x = f(\n    a,\n    # é\n    b=(\n        c\n    ),\n)\ny = [\n  1,\n]\n",
    "continuation": "x = a + \\\n    b\nif a and \\\n   b:\n    c\nassert \\\n  a\n",
    "semicolons": "a; b ; c = d;\nif x: a; b\nfor i in x: y; z\n",
    "one line": "if a: b\nelif c: d\nelse: e\nwhile a: b\nclass A: x\ndef f(): return a\n",
    "elif": "if a:\n    b\nelif c:\n    d\nelif e:\n    f\nelse:\n    g\n",
    "else if": "if a:\n    b\nelse:\n    if c:\n        d\n    else:\n        e\n",
    "nested": "def f():\n  if a:\n        for b in c:\n         while d:\n          e\n  else: g\n",
    "tabs": "if a:\n\tif b:\n\t\tc(d)\n\telse:\n\t\te\n",
    "form feed": "a\n\x0c\nb(c)\nif a:\n\x0c    b\n",
    "crlf": "if a:\r\n    b(c)\r\nelse:\r\n    d\r\nx = '''\r\n''' + e\r\n",
    "cr": "a\rif b:\r    c(d)\r",
    "no newline at the end": "if a:\n    b(c)",
    "blank": "\n\n# comment\n\na(b)\n\n\n",
    "docstring": '"""é\n\nb"""\nx = 1\n',
    "unicode": "é = 'ü' + ñ(变量)\nif 'é': x('ß', y)\n'🎉'; z(a)\n",
    "unicode in a block": "def f():\n    'é'; g(h)\n    x = '🎉', y\n",
    "unicode separators": "x = '\u2028'; y(z)\na = '\x85'; b(c)\nd\n",
    "decorators": "@a.b(c)\n@d\n# comment\n@e[f]\ndef g(h=i, *, j: k = l) -> m:\n    n(o)\n",
    "decorated class": "@a(b)\nclass C(D, metaclass=E):\n    @f(g)\n    def h(self): i(j)\n",
    "async": "async def f():\n    async with a(b) as c, d: f\n    async for h in i: await k(l)\n",
    "async decorated": "@a(b)\nasync def f(c=d): await e(g)\n",
    "with": "with a(b) as c, d(e):\n    f(g)\nwith (a(b) as c, d(e),): f(g)\nwith (a): b\n",
    "try": "try:\n    a(b)\nexcept c(d) as e:\n    f(g)\nexcept: h\nelse: i(j)\nfinally: k\n",
    "try star": "try:\n    a(b)\nexcept* c(d) as e:\n    f(g)\nelse:\n    h(i)\n",
    "for else": "for a, b in c(d):\n    e(f)\nelse:\n    g(h)\nwhile a(b): c\nelse: d(e)\n",
    "match": (
        "match a(b), c:\n"
        "    case [d, *e] if f(g): h(i)\n"
        "    case {'k': 1 | 2, **r}:\n        j(k)\n"
        "    case A(x=1) as b: pass\n"
    ),
    "match as a name": "match(a)\nmatch = b(c)\ncase = 1\nprint(match)\n",
    "f-strings": "f'{a(b)!r:>{c(d)}} {e=}'\nx = f'''\n{f(g)}\n''' 'h' f'{i}'\n",
    "strings": "x = ('a'\n     'b'\n     f'{c}')\nd('''e\nf''', g)\n",
    "lambda": "x = lambda a, *b, c=d, **e: f(g)\nh(lambda: (yield))\n",
    "comprehensions": "[a(b) for c in d(e) if f(g) for h in i]\n(x async for x in y)\n",
    "comparisons": "a < b(c) <= d not in e is not f\nnot a(b)\n",
    "slices": "a[b(c):d, ::e, ...]\nx[(y)] = z\ndel a[b], c.d\n",
    "walrus": "if (n := a(b)): c\n[y := f(x), y]\n",
    "global": "def f():\n    global a, b\n    nonlocal c\n    return d(e)\n",
    "imports": "import a.b as c, d\nfrom . import (e,\n    f as g)\nfrom .h import *\ni(j)\n",
    "star": "a, *b = c(d)\nprint(*e(f), **g)\n[*h, i]\n",
    "raise": "raise a(b) from c(d)\nassert a(b), c(d)\nreturn_ = e\n",
    "annotations": "x: a[b] = c(d)\ny: e\nself.z: f = g(h)\n",
    "augmented": "x += a(b)\ny[c(d)] **= e\n",
    "type parameters": "def f[T: a](x: T) -> T:\n    b(c)\nclass A[T]:\n    d(e)\ntype X = f[g]\n",
    "deep indentation": "".join("  " * i + f"if a{i}(b):\n" for i in range(30))
    + "  " * 30
    + "c(d)\n",
    "comment after a header": "if a(b):  # é\n    # c\n    d(e)  # f\n# g\nh(i)\n",
    "empty class": "class A: ...\nclass B(): pass\nclass C(D()): x(y)\n",
    "indented comment": "def f():\n        # odd\n    a(b)\n  # odder\n    c(d)\n",
}


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
    """Nodes that ``locate`` places elsewhere, alone or with all others."""
    module = parse(source)
    wanted = statements_of(module)
    expected = expected_spans(module)
    found = locate(module, source, wanted)
    assert found.keys() == wanted.keys()
    for node, statement in wanted.items():
        alone = locate(module, source, {node: statement})[node]
        if not found[node] == alone == expected[node]:
            code = module.code_for_node(node)
            yield f"{code!r}: {found[node]}, alone {alone}, not {expected[node]}"


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_positions_are_those_of_libcst(source: str) -> None:
    assert not list(disagreements(source))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_positions_from_the_whole_module(source: str) -> None:
    module = parse(source)
    wanted = statements_of(module)
    expected = expected_spans(module)
    assert locate_in_whole(module, wanted) == {node: expected[node] for node in wanted}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_positions_cut_the_node_s_own_text(source: str) -> None:
    from embercoach.fixes.source import LineIndex

    module = parse(source)
    index = LineIndex(source)
    for node, span in locate(module, source, statements_of(module)).items():
        text = source[
            index.offset(span.line, span.column + 1) : index.offset(
                span.end_line, span.end_column + 1
            )
        ]
        # A node's code has the parentheses around it, its position does not.
        assert text in module.code_for_node(node)
        assert text


#: Where whole modules are generated again; all else must take the quick way.
SLOW = {
    "match",
    "decorators",
    "decorated class",
    "async decorated",
    "try",
    "try star",
}


@pytest.mark.parametrize("source", [SOURCES[name] for name in sorted(SOURCES.keys() - SLOW)])
def test_most_positions_take_the_quick_way(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if skeleton(source) is None:
        pytest.skip("newer syntax than this Python's")
    module = parse(source)
    monkeypatch.setattr(positions, "locate_in_whole", None)
    assert locate(module, source, statements_of(module))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS)
def test_positions_of_made_up_programs(source: str) -> None:
    try:
        module = parse(source)
    except cst.ParserSyntaxError:
        event("does not parse")
        return
    wanted = statements_of(module)
    expected = expected_spans(module)
    found = locate(module, source, wanted)
    assert found == {node: expected[node] for node in wanted}


def test_nothing_wanted() -> None:
    module = parse("a")
    assert locate(module, "a", {}) == locate_in_whole(module, ()) == {}
