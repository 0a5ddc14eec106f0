"""The facts of Metal bodies and headers."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.program.written_facts import read_body, read_unit, undeclared

SCOPE = frozenset({"x", "y", "out", "x_shape", "n", "T", "N", *ATTRIBUTES})

CLEAN = [
    '_Pragma("clang loop unroll(full)") for (int i = 0; i < 4; ++i) { out[i] = i; }',
    "for (auto v : {1, 2}) { out[v] = v; }",
    "#define SETUP uint gid = 0;\nSETUP\nout[gid] = 1;",
    "auto [a, b] = get_pair<T>(); out[0] = a + b;".replace("get_pair<T>()", "float2(1)"),
    "out[0] = (max)(x[0], (half)(n));",
]


@pytest.mark.parametrize("source", CLEAN)
def test_clean_bodies(source) -> None:
    body = read_body(source)
    assert body.doubtful == ()
    assert undeclared(body, SCOPE) == ()


@pytest.mark.parametrize(
    "header",
    [
        "float twice(float v);",
        "namespace mine { float twice(float v) { return v; } }\nusing mine::twice;",
    ],
)
def test_header_names_reach_the_body(header) -> None:
    unit = read_unit(header)
    assert unit.doubtful == ()
    assert undeclared(unit) == ()
    assert "twice" in unit.names
    body = read_body("out[0] = twice(lost);", unit)
    assert {use.name for use in undeclared(body, SCOPE)} <= {"lost"}
    assert {use.name for use in undeclared(read_body("twice(1);"), SCOPE)} == {"twice"}


@pytest.mark.parametrize(
    ("source", "header"),
    [
        ("out[0] = lost; }", ""),
        ("out[0] = lost; } void more() {", ""),
        ("out[0] = (" * 400 + "lost" + ")" * 400 + ";" + "{" * 400 + "}" * 400, ""),
    ],
)
def test_doubt_is_silent(source, header) -> None:
    body = read_body(source, read_unit(header))
    assert undeclared(body, SCOPE) == ()
    assert not (body.parse_ok and body.names_known)


def test_macros_of_the_header_that_are_no_cpp() -> None:
    header = read_unit(
        '#define UNROLL _Pragma("clang loop unroll(full)")\n#define SPACE const device\n'
        "#define INLINE METAL_FUNC\n"
    )
    body = read_body("UNROLL\nfor (int i = 0; i < 4; ++i) { SPACE float* p = x; }", header)
    assert body.parse_ok
    assert undeclared(body, SCOPE) == ()


def test_plain_bodies_define_no_function() -> None:
    body = read_body("float v(x[0]); T w(n); out[0] = v + w; auto f = [](int a) { return a; };")
    assert body.functions == ()
    assert body.entry_points == ()


WORDS = st.sampled_from(
    [
        *"[](){};,.=+<>*&#\n\\\"'",
        *("x", "out", "::", "/*", "*/", "//", "if", "for", "return", "device", "kernel", "é", "1"),
        *("threadgroup", "struct", "template", "typename", "using", "namespace", "float", "T"),
        *("[[", "]]", "_Pragma", "#define", "#include", "#if", "case", "operator", "unsigned"),
    ]
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(WORDS, max_size=30).map(" ".join) | st.text(max_size=40))
def test_junk_never_crashes(text) -> None:
    for facts in (read_unit(text), read_body(text)):
        for place in (*facts.doubtful, *(use.place for use in facts.free)):
            assert 0 <= place.start <= place.end <= len(text)
        for use in facts.free:
            assert text[use.place.start : use.place.end] == use.name


@pytest.mark.sampled(4)
@pytest.mark.parametrize("unit", ["{", "(", "[", "if (x) ", "for (;;) ", "f(", "- ", "a ? b : "])
def test_deep_nesting_never_crashes(unit) -> None:
    for text in (unit * 1500, "out[0] = " + unit * 1500 + "1"):
        assert undeclared(read_body(text), SCOPE) == ()
        read_unit(text)
