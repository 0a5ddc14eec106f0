"""The facts of Metal bodies and headers."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.written.body import (
    EMPTY,
    read_body,
    read_unit,
    redeclared,
    undeclared,
)

SCOPE = frozenset({"x", "y", "out", "x_shape", "n", "T", "N", *ATTRIBUTES})

CLEAN = [
    "uint i = thread_position_in_grid.x; out[i] = T(float(x[i]) * y);",
    "const device float* p = x + 4; out[0] = p[0];",
    "auto p = (const device uint*)(x); auto q = static_cast<device half4*>(out); q[0] = p[0];",
    "threadgroup T shared[32][N]; shared[0][n] = x[0]; thread float* l = nullptr;",
    "vec<T, 4> v = *(const device vec<T, 4>*)(x); float3 d = v.xyz; d.zyx += 1;",
    "simdgroup_matrix<float, 8, 8> a; simdgroup_float8x8 b; simdgroup_load(a, x, 8);",
    "half h = 1.0h; bfloat b = bfloat(1.5); long k = long(n) * short(2) + unsigned(3);",
    "float e = metal::precise::exp(as_type<float>(n)); e = fast::log(e); out[0] = e;",
    "atomic_fetch_add_explicit(&out[0], 1.0f, memory_order_relaxed);",
    "threadgroup_barrier(mem_flags::mem_threadgroup);",
    '_Pragma("clang loop unroll(full)") for (int i = 0; i < 4; ++i) { out[i] = i; }',
    "#pragma unroll\nfor (int i = 0; i < 4; ++i) { out[i] = i; }",
    "MLX_MTL_PRAGMA_UNROLL\nfor (int i = 0; i < 4; ++i) out[i] = simd_sum(x[i]);",
    "for (auto v : {1, 2}) { out[v] = v; }",
    "auto f = [&, k = n](int a) { return a + x[k]; }; out[0] = f(1);",
    "struct S { int get() { return a + b; } int a; int b; }; S s; s.a = 1; out[0] = s.get();",
    "enum class E { A, B = 3 }; E e = E::A; out[0] = int(e);",
    "using U = float; typedef int4 I; U u = 1; I i = 2; out[0] = u + i.x;",
    "#define TWICE(a) ((a) * 2)\nout[0] = TWICE(x[0]);",
    "#define DECLARE(name) float name = 1\nDECLARE(fresh);\nout[0] = fresh;",
    "#define SETUP uint gid = 0;\nSETUP\nout[gid] = 1;",
    "#ifdef FAST\nint k = 1;\n#else\nint k = 2;\n#endif\nout[0] = k;",
    "if (float t = x[0]) { out[0] = t; } else { out[0] = -t; }",
    "switch (n) { case 1: { int q = 1; out[0] = q; break; } default: break; }",
    "auto [a, b] = get_pair<T>(); out[0] = a + b;".replace("get_pair<T>()", "float2(1)"),
    "out[0] = INFINITY + M_PI_F + FLT_MAX + UINT_MAX + HUGE_VALF + NAN + Limits<T>::max;",
    "out[elem_to_loc(n, x_shape, x_shape, 3)] = ceildiv(n, 2u); complex64_t z = {1, 2};",
    "float a = 1, *p = &a, b[2] = {a, *p}; out[0] = b[1];",
    "int a = n < 3 ? 1 : 2; bool c = a < n && n > a; out[0] = c;",
    "goto end; end: out[0] = 1;",
    "texture2d<float, access::read> t; sampler s(coord::normalized, filter::linear);",
    "out[0] = (max)(x[0], (half)(n));",
    "float4 v = {.x = 1}; v.w = v.template foo<3>(n);",
    "METAL_FUNC_LIKE_NAME: ;",
    'static_assert(N > 0, "positive"); constexpr constant int K = sizeof(T) + sizeof(float4);',
    "// device float* é\nout[0] = 1; /* x_size */",
]


@pytest.mark.parametrize("source", CLEAN)
def test_clean_bodies(source) -> None:
    body = read_body(source)
    assert body.doubtful == ()
    assert undeclared(body, SCOPE) == ()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("out[0] = inp0[0];", ["inp0"]),
        ("out[0] = x[x_size - 1];", ["x_size"]),
        ("out[0] = x[0] * cap;", ["cap"]),
        ("{ float w = 1; } out[0] = w;", ["w"]),
        ("for (int i = 0; i < 4; ++i) {} out[i] = 1;", ["i"]),
        ("out[0] = w; float w = 1;", ["w"]),
        ("U v = x[0]; out[0] = v;", ["U"]),
        ("out[0] = static_cast<U>(x[0]);", ["U"]),
        ("out[0] = erf(x[0]);", ["erf"]),
        ("out[0] = helper<T>(x[0]);", ["helper"]),
        ("out[0] = std::exp(x[0]);", ["std"]),
        ("out[0] = x[0] * step + bias;", ["step", "bias"]),
        ("out[0] = exp(scale);", ["scale"]),
        ("threadgroup float s[SIZE]; s[0] = 1;", ["SIZE"]),
        ("device float* p = data; p[0] = 1;", ["data"]),
        ("if (x < a && n > (c)) { out[0] = 1; }", ["a", "c"]),
        ("auto f = [](int a) { return a; }; out[0] = f(a);", ["a"]),
        ("struct S { int v; }; S s; out[0] = v;", ["v"]),
        ("out[0] = WorkPerThread<U>::n;", ["U"]),
        ("out[0] = x.foo(missing).bar[other];", ["missing", "other"]),
        ("#define TWICE(a) ((a) * 2)\nout[0] = TWICE(x[0]) + lost;", ["lost"]),
    ],
)
def test_undeclared_names(source, names) -> None:
    body = read_body(source)
    found = undeclared(body, SCOPE)
    assert [use.name for use in found] == names
    for use in found:
        assert source[use.place.start : use.place.end] == use.name


def test_uses_point_into_the_text() -> None:
    source = "// naïve — é\nfloat w = 1;\n  out[0] = lost;\n"
    (use,) = undeclared(read_body(source), SCOPE)
    assert (use.place.line, use.place.column) == (3, 12)
    assert source[use.place.start : use.place.end] == "lost"


@pytest.mark.parametrize("use", ["a[0];", "a[0].x += 1;", "a = 1;", "a += 1;", "++a;", "a--;"])
def test_uses_that_only_a_variable_has(use) -> None:
    (free,) = read_body(use).free
    assert (free.name, free.variable) == ("a", True)


@pytest.mark.parametrize("use", ["k(a);", "int b = a;", "a b;", "a(1);", "x[a];", "b = a;", "-a;"])
def test_uses_that_a_template_argument_may_have(use) -> None:
    assert {u.variable for u in read_body(use).free if u.name == "a"} == {False}


def test_out_of_scope_declaration_is_named() -> None:
    (use,) = undeclared(read_body("if (n) {\n  int w = 1;\n}\nout[0] = w;"), SCOPE)
    assert use.elsewhere is not None
    assert (use.elsewhere.line, use.elsewhere.column) == (2, 7)


@pytest.mark.parametrize(
    "header",
    [
        "template <typename T> T twice(T v) { return v + v; }",
        "METAL_FUNC float twice(float v) { return 2 * v; }",
        "static inline half twice(const device half* v, thread int& k) { return v[k]; }",
        "float twice(float v);",
        "#define twice(v) ((v) + (v))",
        "constant float twice[4] = {1, 2, 3, 4};",
        "namespace mine { float twice(float v) { return v; } }\nusing namespace mine;",
        "namespace mine { float twice(float v) { return v; } }\nusing mine::twice;",
        "struct twice { float v; twice(float a) : v(a) {} };",
        "using twice = float;",
        "#include <metal_simdgroup>\nusing namespace metal;\ntypedef float twice;",
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
        ("out[0] = lost;", '#include "mine.h"'),
        ("out[0] = lost;", "#include <mlx/kernels/utils.h>"),
        ("out[0] = lost;", "#define MAKE(a, b) a##b"),
        ("out[0] = lost;", "void broken( {"),
        ("out[0] = lost; float (;", ""),
        ("out[0] = lost; }", ""),
        ("out[0] = lost; } void more() {", ""),
        ("{ out[0] = lost;", ""),
        ("#define M(a) a##_1\nout[0] = lost;", ""),
        ("out[0] = (" * 400 + "lost" + ")" * 400 + ";" + "{" * 400 + "}" * 400, ""),
        ("/* out[0] = lost;", ""),
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


def test_full_signature() -> None:
    source = """\
#include <metal_stdlib>
using namespace metal;

kernel void soft(
    device float* a [[buffer(0)]],
    constant float& cap [[buffer(1)]],
    uint3 i [[thread_position_in_grid]]) {
  a[i.x] = tanh(a[i.x] / cap);
}"""
    body = read_body(source)
    assert body.parse_ok
    (function,) = body.entry_points
    assert (function.name, function.entry, function.body) == ("soft", "kernel", True)
    assert (function.place.line, function.extent.line) == (4, 4)
    assert [(p.name, p.type, p.address_space, p.pointer) for p in function.parameters] == [
        ("a", "float", "device", True),
        ("cap", "float", "constant", True),
        ("i", "uint3", None, False),
    ]
    assert [(m.name, m.arguments) for p in function.parameters for m in p.attributes] == [
        ("buffer", "0"),
        ("buffer", "1"),
        ("thread_position_in_grid", None),
    ]
    assert [(mark.name, mark.place.line) for mark in body.marks] == [
        ("buffer", 5),
        ("buffer", 6),
        ("thread_position_in_grid", 7),
    ]
    assert [(d.kind, d.target) for d in body.directives] == [
        ("include", "<metal_stdlib>"),
        ("using namespace", "metal"),
    ]
    include = body.directives[0].place
    assert source[include.start : include.end] == "#include <metal_stdlib>"


@pytest.mark.parametrize(
    ("source", "entry"),
    [
        ("[[kernel]] void f(device float* a [[buffer(0)]]) {}", "kernel"),
        ("template <typename U> [[kernel]] void f(device U* a) {}", "kernel"),
        ("fragment float4 f() { return 1; }", "fragment"),
        ("float f(float a) { return a; }", None),
    ],
)
def test_functions_in_a_body(source, entry) -> None:
    (function,) = (f for f in read_body(source).functions if f.body)
    assert (function.name, function.entry) == ("f", entry)


def test_methods_are_members() -> None:
    text = "struct S { int f() { return 1; } }; int g() { return 2; }"
    assert [(f.name, f.member) for f in read_body(text).functions] == [("f", True), ("g", False)]


def test_plain_bodies_define_no_function() -> None:
    body = read_body("float v(x[0]); T w(n); out[0] = v + w; auto f = [](int a) { return a; };")
    assert body.functions == ()
    assert body.entry_points == ()


def test_marks_without_a_function() -> None:
    body = read_body("device float* p [[buffer(0)]] = out;\n[[maybe_unused]] int a = 1;")
    assert [(m.name, m.arguments) for m in body.marks] == [("buffer", "0"), ("maybe_unused", None)]


def test_declarations() -> None:
    body = read_body(
        "threadgroup float4 tile[N][8];\nconst device T* p = x + 1;\nif (n) { int k; }\n"
        "for (uint i = 0; i < 4; ++i) {}"
    )
    found = {d.name: d for d in body.declarations}
    assert list(found) == ["tile", "p", "k", "i"]
    assert found["tile"].dimensions == ("N", "8")
    assert (found["tile"].type, found["tile"].address_space) == ("float4", "threadgroup")
    assert (found["p"].address_space, found["p"].pointer, found["p"].value) == (
        "device",
        True,
        "x + 1",
    )
    assert [found[name].depth for name in found] == [0, 0, 2, 1]
    assert body.threadgroup_arrays == (found["tile"],)


def test_calls() -> None:
    body = read_body("out[0] = metal::fast::exp(x[0], g<T, 4>(n));")
    assert [(c.name, c.template) for c in body.calls] == [
        ("metal::fast::exp", ()),
        ("g", ("T", "4")),
    ]


def test_attribute_uses() -> None:
    body = read_body(
        "uint i = thread_position_in_grid.x; uint3 g = threads_per_grid;\n"
        "{ uint grid_size = 3; out[grid_size] = i; }"
    )
    assert [(u.name, u.component) for u in body.attribute_uses] == [
        ("thread_position_in_grid", "x"),
        ("threads_per_grid", None),
    ]


def test_attributes_that_only_the_header_mentions() -> None:
    header = read_unit(
        "#define TID thread_position_in_grid.x\n"
        "uint lane() { return thread_index_in_simdgroup; }\n"
        "uint fine(uint threads_per_grid) { return threads_per_grid; }"
    )
    free = {use.name for use in header.free}
    assert free & ATTRIBUTES.keys() == {"thread_index_in_simdgroup"}
    assert header.macros.mentioned & ATTRIBUTES.keys() == {"thread_position_in_grid"}


def test_redeclared_parameters() -> None:
    body = read_body("uint grid_size = 1; { int x = 2; out[x] = 1; } float fresh = out[0];")
    assert [(d.name, d.place.column) for d in redeclared(body, SCOPE)] == [("grid_size", 6)]


def test_header_of_blanks_is_empty() -> None:
    assert read_unit(" \n") is EMPTY


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
