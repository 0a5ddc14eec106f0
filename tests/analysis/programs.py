"""Programs that hypothesis makes: every kind of statement and expression, spaced in odd ways."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = st.sampled_from(["x", "y", "self.w", "mx", "naïve", "变量", "f", "xs"])
ATOMS = NAMES | st.sampled_from(
    ["1", "0.5", "1_0j", "'a'", '"ü"', "b'x'", "None", "True", "...", "'''a\nb'''", "rf'{x}é'"]
)
GAPS = st.sampled_from(["", " ", "  ", " \\\n ", "\n", " # é\n "])
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "  # end\n", " ; \n"])
INDENTS = st.sampled_from(["  ", "    ", "\t", " "])


def _extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(
        ["+", "-", "*", "**", "@", "//", "<<", "and", "or", "<", "==", "in", "not in", "is not"]
    )
    # A gap may hold a line end, so that it stands inside brackets alone.
    return st.one_of(
        st.builds("({}{}{})".format, GAPS, inner, GAPS),
        st.builds("({} {}{}{})".format, inner, operators, GAPS.map(lambda g: g or " "), inner),
        st.builds("(-{})".format, inner),
        st.builds("(not {})".format, inner),
        st.builds("f({}{},{}key={})".format, inner, GAPS, GAPS, inner),
        st.builds("mx.exp({})".format, inner),
        st.builds("({}).item()".format, inner),
        st.builds("({}).real".format, inner),
        st.builds("({})[{}:{}, ...]".format, inner, inner, inner),
        st.builds("[{},{}*{}]".format, inner, GAPS, inner),
        st.builds("{{{}:{}{}, **{}}}".format, inner, GAPS, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("[{} for x in {} if {}]".format, inner, inner, inner),
        st.builds("(lambda a, *b, c={}, **d: {})".format, inner, inner),
        st.builds("(x := {})".format, inner),
        st.builds("f'{{{}!r:>{{{}}}}} é {{y}}'".format, NAMES, NAMES),
        st.builds("'a' {} 'b'".format, st.sampled_from(["f'{x}'", "r'c'", "''"])),
    )


EXPRESSIONS = st.recursive(ATOMS, _extend, max_leaves=8)
TARGETS = st.sampled_from(["x", "self.w", "xs[0]", "(a, b)", "[a, *b]", "变量"])
SIMPLE = st.one_of(
    EXPRESSIONS,
    st.builds("{} = {}".format, TARGETS, EXPRESSIONS),
    st.builds("a = {} = {}".format, TARGETS, EXPRESSIONS),
    st.builds("x: {} = {}".format, EXPRESSIONS, EXPRESSIONS),
    st.builds("x += {}".format, EXPRESSIONS),
    st.builds("assert {}, {}".format, EXPRESSIONS, EXPRESSIONS),
    st.builds("del {}".format, TARGETS),
    st.builds("raise {}".format, EXPRESSIONS),
    st.sampled_from(["pass", "import mlx.core as mx", "from a import (b,\n c as d)", "global g"]),
)
LINES = st.builds(
    lambda parts, end: "; ".join(parts) + end, st.lists(SIMPLE, min_size=1, max_size=3), ENDS
)


def _suite(body: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    block = st.builds(
        lambda statements, indent: "\n" + _indented("".join(statements), indent),
        st.lists(body, min_size=1, max_size=3),
        INDENTS,
    )
    return block | LINES.map(lambda line: " " + line)


def _indented(text: str, indent: str) -> str:
    # Lines inside brackets and long strings are indented along, which keeps the program whole.
    return "".join(indent + line for line in text.splitlines(keepends=True))


def _compound(body: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    suite, e = _suite(body), EXPRESSIONS
    return st.one_of(
        st.builds("if {}:{}".format, e, suite),
        st.builds("if {}:{}elif {}:{}else:{}".format, e, suite, e, suite, suite),
        st.builds("for {} in {}:{}".format, TARGETS, e, suite),
        st.builds("for x in {}:{}else :{}".format, e, suite, suite),
        st.builds("while {}:{}else:{}".format, e, suite, suite),
        st.builds("with {} as x, {}:{}".format, e, e, suite),
        st.builds("with ({} as x,\n  {}):{}".format, e, e, suite),
        st.builds("try:{}except {} as e:{}else:{}finally:{}".format, suite, e, suite, suite, suite),
        st.builds("try:{}except* {}:{}".format, suite, e, suite),
        st.builds("match {}:\n case [x, {{'k': y}}] if {}:{} case _:{}".format, e, e, suite, suite),
        st.builds("@{}\n# é\n@f\ndef f(a, /, b: {}={}, *c, d) -> {}:{}".format, e, e, e, e, suite),
        st.builds("async def f():{}".format, suite),
        st.builds("@f({})\nclass A(B, metaclass={}):{}".format, e, e, suite),
    )


STATEMENTS = st.recursive(LINES, _compound, max_leaves=6)
PROGRAMS = st.lists(STATEMENTS, min_size=1, max_size=4).map("".join)
