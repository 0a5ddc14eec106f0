from __future__ import annotations

from textwrap import dedent

import pytest

from embercoach.metal.contract import Input, KernelArguments, Output
from embercoach.metal.program import nodes
from embercoach.metal.program.lowering import SignatureNames, lower_body, lower_unit
from tests.metal.program.rendering import NAMES, body_lines, function_lines, shown_type


def _lines(text: str, header: str = "") -> list[str]:
    return body_lines(lower_body(dedent(text), dedent(header), NAMES))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x[0];", "x[0:int]"),
        ("x + 1;", "(x + 1:int):device float*"),
        ("*(x + 1);", "(x + 1:int):device float*[0:int]"),
        ("*x++;", "(x += 1:int postfix)[0:int]"),
        ("--x[1];", "(x[1:int] -= 1:int)"),
        ("&x[2];", "(&x[2:int]):device float*"),
        ("y[0] / 2;", "(y[0:int] / 2:int):int"),
        ("s * 2;", "(s * 2:int):float"),
        ("out[0] *= 1.0h;", "(out[0:int] *= 1.0:half)"),
        ("-x[0];", "(-x[0:int]):float"),
        ("!(1 < 2) && ~3;", "((!(1:int < 2:int):bool):bool && (~3:int):int):bool"),
        ("1 ? 2.0f : 3;", "(1:int ? 2.0:float : 3:int):float"),
        ("1, 2u;", "(1:int , 2:uint):uint"),
        ("q = r = 1;", "(q = (r = 1:int))"),
        ("true;", "1:bool"),
        ("'a';", "97:char"),
        ("'\\0';", "0:char"),
        ("nullptr;", "0:void*"),
        ("(float)y[0];", "<float>y[0:int]"),
        ("(half)(y[0]);", "<half>y[0:int]"),
        ("(uint)*y + 1;", "(<uint>y[0:int] + 1:int):uint"),
        ("(half)-s;", "<half>(-s):float"),
        ("(s) - 1;", "(s - 1:int):float"),
        ("q = (s) - y[0] * 2;", "(q = (s - (y[0:int] * 2:int):int):float)"),
        ("q = (N) - y[0] * 2;", "(q = (N - (y[0:int] * 2:int):int):int)"),
        ("q = (H)-s * N;", "(q = (<half>(-s):float * N):half)"),
        ("q = (uint)&x[1] + 2;", "(q = (<uint>(&x[1:int]):device float* + 2:int):uint)"),
        ("q = (T)*x;", "(q = opaque(`T` may be a type, x))"),
        ("q = (M_PI_F) * s;", "(q = (M_PI_F * s):float)"),
        ("float(1);", "<float>1:int"),
        ("long(s);", "<long>s"),
        ("T(1);", "<T>1:int"),
        ("H(1);", "<half>1:int"),
        ("static_cast<H>(s);", "<half>s"),
        ("as_type<uint>(s);", "<uint bits>s"),
        ("as_type<uint2>(float2(s));", "<uint2 bits>float2{s}"),
        ("reinterpret_cast<const device float4*>(x)[1];", "<device float4*>x[1:int]"),
        ("(device atomic_uint*)out;", "<device atomic_uint*>out"),
        ("float4(s, 0, 0, 1).xyz;", "float4{s, 0:int, 0:int, 1:int}.xyz"),
        ("metal::float2(1);", "float2{1:int}"),
        ("vec<T, N>(1);", "T4{1:int}"),
        ("vec<H, 2>(1);", "half2{1:int}"),
        ("float2{1, 2};", "float2{1:int, 2:int}"),
        ("sizeof(float4) / sizeof(x[0]);", "(16:ulong / 4:ulong):ulong"),
        ("sizeof(T);", "opaque(the size of an unknown type)"),
        ("metal::fast::exp(s);", "metal::fast::exp(s):float"),
        ("simd_sum(s) + 1;", "(simd_sum(s):float + 1:int):float"),
        ("(max)(s, 1.0f);", "max(s, 1.0:float):float"),
        ("simd_shuffle<float>(s, 1);", "simd_shuffle<float>(s, 1:int):float"),
        ("metal::numeric_limits<H>::max();", "metal::numeric_limits<H>::max():half"),
        ("q = Limits<H>::min + 1;", "(q = (Limits<H>::min + 1:int):half)"),
        (
            "make_filled_simdgroup_matrix<float, 8, 8>(0);",
            "make_filled_simdgroup_matrix<float,8,8>(0:int):simdgroup_float8x8",
        ),
        (
            "elem_to_loc(2u, x_shape, x_strides, x_ndim);",
            "elem_to_loc(2:uint, x_shape, x_strides, x_ndim):uint",
        ),
        ("elem_to_loc<int>(2u);", "elem_to_loc<int>(2:uint):int"),
        ("elem_to_loc_1(2u, x_strides[0]);", "elem_to_loc_1(2:uint, x_strides[0:int]):long"),
        ("f(mem_flags::mem_none);", "f(mem_flags::mem_none):?"),
        ("f(metal::mem_flags::mem_none);", "f(mem_flags::mem_none):?"),
        ("x_shape[0] + s_ndim;", "(x_shape[0:int] + s_ndim):int"),
        ("x_strides[1];", "x_strides[1:int]"),
        ("thread_position_in_grid.x;", "thread_position_in_grid.x"),
        ("M_PI_F * 1.0h;", "(M_PI_F * 1.0:half):float"),
        ("p->a;", "p[0:int].a"),
        ("(*p).a;", "p[0:int].a"),
        ("[](int i) { return i; }(3);", "opaque(not understood: what is called, 3:int)"),
        ("new int;", "opaque(not understood: new expression)"),
        ("s < N && y[0] > (2);", "((s < N):bool && (y[0:int] > 2:int):bool):bool"),
        ("bool b = s < N && N > (2);", "thread bool b = ((s < N):bool && (N > 2:int):bool):bool"),
        ("q = f(s < N, N > (2));", "(q = f((s < N):bool, (N > 2:int):bool):?)"),
        ("if (i < a && j >= b) 1;", "if ((i < a):bool && (j >= b):bool):bool"),
    ],
)
def test_expressions(text: str, expected: str) -> None:
    assert _lines(text)[0] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float a;", ["thread float a"]),
        ("int a = 1, *b = &a, c[3];", ["thread int a = 1:int", "thread int* b = (&a):thread int*",
                                      "thread int[3] c"]),
        ("const int a = 1;", ["const thread int a = 1:int"]),
        ("const device float* p = x;", ["device float* p = x"]),
        ("device float* const p = x;", ["const device float* p = x"]),
        ("threadgroup float a[N * 2][3];", ["threadgroup float[8][3] a"]),
        ("threadgroup float a[K];", ["threadgroup float[?] a"]),
        ("constexpr int K = 2 * N + 1; float a[K];",
         ["const thread int K = ((2:int * N):int + 1:int):int", "thread float[9] a"]),
        ("int K = 4; float a[K];", ["thread int K = 4:int", "thread float[?] a"]),
        ("float a[] = {1, 2};", ["thread float[2] a = float[2]{1:int, 2:int}"]),
        ("float a[2][1] = {{s}, {3}};",
         ["thread float[2][1] a = float[2][1]{float[1]{s}, float[1]{3:int}}"]),
        ("float4 a = {1, 2, 3, 4};", ["thread float4 a = float4{1:int, 2:int, 3:int, 4:int}"]),
        ("float4 a(1);", ["thread float4 a = float4{1:int}"]),
        ("uint a(s);", ["thread uint a = <uint>s"]),
        ("uint a{3};", ["thread uint a = 3:int"]),
        ("auto a = x + 1;", ["device float* a = (x + 1:int):device float*"]),
        ("auto a = x[0];", ["thread float a = x[0:int]"]),
        ("auto* a = x;", ["device float* a = x"]),
        ("device auto& a = out[1];", ["device half& a = out[1:int]"]),
        ("float w[2]; auto a = w;", ["thread float[2] w", "thread float* a = w"]),
        ("threadgroup float w[2]; threadgroup float (&a)[2] = w;",
         ["threadgroup float[2] w", "threadgroup float&[2] a = w"]),
        ("threadgroup float* a[2];", ["threadgroup float*[2] a"]),
        ("unsigned a; unsigned long b; unsigned char c; long long d; size_t e;",
         ["thread uint a", "thread ulong b", "thread uchar c", "thread long long d",
          "thread ulong e"]),
        ("int64_t a; uint8_t b; float16_t c; bfloat16_t d; packed_float3 e;",
         ["thread long a", "thread uchar b", "thread half c", "thread bfloat d",
          "thread packed_float3 e"]),
        ("threadgroup atomic<int> a; threadgroup atomic_float b;",
         ["threadgroup atomic_int a", "threadgroup atomic_float b"]),
        ("array<float, N> a; simdgroup_matrix<H, 8, 8> b; matrix<float, 3, 3> c;",
         ["thread float[4] a", "thread simdgroup_half8x8 b", "thread float3x3 c"]),
        ("using V = float4; typedef half W; V a; W b;", ["thread float4 a", "thread half b"]),
        ("decltype(x[0]) a;", ["thread float a"]),
        ("T a; H b; vec<T, 4> c;", ["thread T a", "thread half b", "thread T4 c"]),
        ("static constexpr constant float W[2] = {1, 2};",
         ["const constant float[2] W = float[2]{1:int, 2:int}"]),
        ("enum E { A, B = 5, C }; float a[C];",
         ["const constant int A", "const constant int B = 5:int", "const constant int C",
          "thread float[6] a"]),
        ("auto [a, b] = f();", ["opaque: a structured binding"]),
    ],
)  # fmt: skip
def test_declarations(text: str, expected: list[str]) -> None:
    assert _lines(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if (s) 1; else if (N) 2; else 3;",
         ["if s", "  1:int", "else", "  if N", "    2:int", "  else", "    3:int"]),
        ("if constexpr (N > 2) { 1; }", ["if (N > 2:int):bool", "  {", "    1:int", "  }"]),
        ("if (int k = f(); k) 1;",
         ["{", "  thread int k = f():?", "  if k", "    1:int", "}"]),
        ("if (int k = f()) 1;", ["{", "  thread int k = f():?", "  if k", "    1:int", "}"]),
        ("for (uint i = 0, n = 3; i < n; i += 2) 1;",
         ["for (thread uint i = 0:int; thread uint n = 3:int; (i < n):bool; (i += 2:int))",
          "  1:int"]),
        ("for (q = 0; ; ) {}", ["for ((q = 0:int); ; )", "  {", "  }"]),
        ("while (s) { continue; }", ["while (; s; )", "  {", "    continue", "  }"]),
        ("do q++; while (q < 3);", ["do (; (q < 3:int):bool; )", "  (q += 1:int postfix)"]),
        ("switch (q) { case 1: case 2: 3; break; default: { return; } }",
         ["switch q", "case 1:int", "case 2:int", "  3:int", "  break", "default", "  {",
          "    return", "  }"]),
        ("return; ;", ["return"]),
        ("{ 1; }", ["{", "  1:int", "}"]),
        ("[[unroll]] for (;;) {}", ["for (; ; )", "  {", "  }"]),
        ("for (auto e : q) {}", ["opaque: a loop over a range"]),
        ("goto done; done: 1;", ["opaque: not understood: goto statement", "1:int"]),
        ("static_assert(N > 2, \"\"); using namespace metal; // nothing", []),
    ],
)  # fmt: skip
def test_statements(text: str, expected: list[str]) -> None:
    assert _lines(text) == expected


HEADER = """
    using namespace metal;
    constant int ROWS = 8;
    constexpr constant int SIZE = ROWS * 2;
    constant float TABLE[2] = {1, 2};
    enum class Mode : uint { off, on = 4 };
    namespace inner { float deep() { return 1; } constant int LEVEL = 3; }
    template <typename T, int K = 4>
    inline T scaled(device const T* p, thread float& sum, int n = 1) {
        sum += p[0]; return p[n] * K;
    }
    float twice(float a) { return later(a) * 2; }
    float twice(float a, float b) { return a; }
    float later(float a) { return a; }
    struct Item {
        float value;
        int places[2];
        static constexpr constant int COUNT = 3;
        float times(int k) { return value * k + own(k); }
        int own(int k) { return COUNT * k; }
    };
    struct Built { Built(float a) { v = a; } float v; };
    template <typename T> struct Pair { T left; int right; };
    """


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float a[SIZE];", ["thread float[16] a"]),
        ("TABLE[1];", ["TABLE[1:int]"]),
        ("Mode::on;", ["on"]),
        ("float a[int(Mode::on)];", ["thread float[4] a"]),
        ("inner::deep() + deep() + inner::LEVEL;",
         ["((inner::deep#1():float + deep#1():float):float + LEVEL):float"]),
        ("twice(s);", ["twice#1(s):float"]),
        ("twice(s, s);", ["twice#1(s, s):float"]),
        ("twice();", ["twice():?"]),
        ("scaled<H, 2>(out, q);", ["scaled<H,2>#1(out, q):half"]),
        ("scaled(x, q, 3);", ["scaled#1(x, q, 3:int):float"]),
        ("Item a; a.value; a.places[1]; a.times(2); q = Item::COUNT;",
         ["thread Item a", "a.value", "a.places[1:int]", "a.times#1(2:int):float",
          "(q = COUNT)"]),
        ("Item a = {1, {2, 3}};",
         ["thread Item a = Item{1:int, int[2]{2:int, 3:int}}"]),
        ("device Item* a = (device Item*)x; auto b = a->value; auto c = a[1].places[0];",
         ["device Item* a = <device Item*>x", "thread float b = a[0:int].value",
          "thread int c = a[1:int].places[0:int]"]),
        ("Pair<float> a; auto b = a.left; auto c = a.right;",
         ["thread Pair<float> a", "? b = a.left", "thread int c = a.right"]),
        ("Built a(s); Built b{s};",
         ["thread Built a = opaque(a constructor, s)",
          "thread Built b = opaque(a constructor, s)"]),
        ("auto f = [&](int i) { return x[i]; }; auto a = f(1);",
         ["thread float a = f#1(1:int):float"]),
        ("auto f = [](int i) -> half { return i; }; auto a = f(1);",
         ["thread half a = f#1(1:int):half"]),
        ("auto f = [=](int i) { return x[i]; };", ["? f = opaque(a lambda expression)"]),
        ("int twice = 1; twice;", ["thread int twice = 1:int", "twice"]),
    ],
)  # fmt: skip
def test_what_a_header_declares(text: str, expected: list[str]) -> None:
    assert not lower_body(text, dedent(HEADER), NAMES).problems
    assert _lines(text, HEADER) == expected


def test_functions() -> None:
    program = lower_unit(dedent(HEADER))
    assert not program.problems
    (scaled,) = program.functions["scaled"]
    assert function_lines(scaled) == [
        "T scaled<T,K>(device T* p, thread float& sum, thread int n)",
        "  {",
        "    (sum += p[0:int])",
        "    return (p[n] * K):?",
        "  }",
    ]
    assert len(scaled.defaults) == 1
    one, two = program.functions["twice"]
    assert (len(one.parameters), len(two.parameters)) == (1, 2)
    assert "    return (later#1(a):float * 2:int):float" in function_lines(one)
    (times,) = program.structs["Item"].methods["times"]
    assert "((this.value * k):float + own#1(k):int):float" in function_lines(times)[2]
    assert times.owner is not None
    assert times.owner.type.reference


def test_entry_points() -> None:
    text = """
    kernel void first(device float* a [[buffer(0)]], constant uint& n [[buffer(1)]],
                      threadgroup float* shared [[threadgroup(0)]],
                      uint2 at [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]])
    { if (at.x < n) a[at.x] = shared[lane]; }
    [[kernel]] void second(uint i [[thread_position_in_grid]]) {}
    float helper(float a);
    """
    program = lower_unit(text)
    assert program.body is None
    assert not program.problems
    (first,), (second,) = program.functions["first"], program.functions["second"]
    assert first.entry
    assert second.entry
    assert [(v.kind, v.attribute, shown_type(v.type)) for v in first.parameters] == [
        ("parameter", "", "device float*"),
        ("parameter", "", "constant uint&"),
        ("parameter", "", "threadgroup float*"),
        ("attribute", "thread_position_in_grid", "thread uint2"),
        ("attribute", "thread_index_in_simdgroup", "thread uint"),
    ]
    (helper,) = program.functions["helper"]
    assert not helper.bodies
    assert not helper.entry


def test_a_declaration_and_its_definition_are_one_function() -> None:
    header = """
    float f(float a);
    template <typename T> T g(T a);
    float early(float a) { return f(a) + g(a); }
    float f(float b) { return b; }
    float f(int b) { return b; }
    template <typename T> T g(T a) { return a; }
    float f(float c);
    """
    program = lower_body("f(1.0f); f(1.0h); g(s);", header, NAMES)
    assert [[v.name for v in f.parameters] for f in program.functions["f"]] == [["b"], ["b"]]
    assert all(f.bodies for f in program.functions["f"])
    (early,) = program.functions["early"]
    assert "    return (f#1(a):float + g#1(a):float):float" in function_lines(early)
    assert body_lines(program) == ["f#1(1.0:float):float", "f#2(1.0:half):float", "g#1(s):float"]


def test_instantiations_are_nothing() -> None:
    text = """
    template <typename T> [[kernel]] void k(device T* a) { a[0] = 1; }
    template [[host_name("k_float")]] [[kernel]] void k<float>(device float*);
    template [[host_name("k_half")]] [[kernel]] decltype(k<half>) k<half>;
    """
    program = lower_unit(text)
    assert not program.problems
    (kernel,) = program.functions["k"]
    assert kernel.entry


def test_variables_of_the_signature() -> None:
    program = lower_body("out[thread_position_in_grid.x] = x[x_shape[0]] + N + zero;", "", NAMES)
    assert {name: (v.kind, shown_type(v.type)) for name, v in program.variables.items()} == {
        "out": ("output", "device half*"),
        "thread_position_in_grid": ("attribute", "uint3"),
        "x": ("input", "device float*"),
        "x_shape": ("metadata", "constant int*"),
        "N": ("template", "int"),
    }


def test_names_of_a_kernel() -> None:
    inputs, outputs = (Input("a"),), (Output("b", "int32"),)
    names = SignatureNames.of(
        KernelArguments("k", inputs, outputs, "", template=None, atomic_outputs=True)
    )
    program = lower_body("b[0]; a[0]; T q;", "", names)
    assert shown_type(program.variables["b"].type) == "device atomic_int*"
    assert shown_type(program.variables["a"].type) == "?*"
    assert body_lines(program)[2] == "thread T q"


def test_scopes() -> None:
    text = "float a = 1; { int a = 2; a; } a; for (uint a = 0;;) a; int x = 1; x;"
    program = lower_body(text, "", NAMES)
    assert not program.variables
    uses = _names(program.body)
    assert [shown_type(use.type) for use in uses] == [
        "thread int",
        "thread float",
        "thread uint",
        "thread int",
    ]
    assert uses[0].variable is not uses[1].variable


def _names(node: object) -> list[nodes.Name]:
    """The names in a program, in order."""
    if isinstance(node, nodes.Name):
        return [node]
    if isinstance(node, nodes.Block):
        return [name for part in node.statements for name in _names(part)]
    if isinstance(node, nodes.Evaluate):
        return _names(node.expression)
    if isinstance(node, nodes.Loop):
        return _names(node.body)
    return []


def test_loops_around_a_declaration() -> None:
    text = "int a; for (int b = 0;;) { int c; while (1) { int d; } }"
    program = lower_body(text)
    found: dict[str, int] = {}

    def visit(node: object) -> None:
        if isinstance(node, nodes.Declare):
            found[node.variable.name] = node.variable.loops
        for part in getattr(node, "statements", ()) or getattr(node, "start", ()):
            visit(part)
        if isinstance(node, nodes.Loop):
            visit(node.body)

    visit(program.body)
    assert found == {"a": 0, "b": 0, "c": 1, "d": 2}


def test_spots_count_characters() -> None:
    text = "// é\nfloat a = 1;\n  a += 2;"
    program = lower_body(text)
    assert program.body is not None
    spots = [statement.spot for statement in program.body.statements]
    assert [(s.text, s.place.line, s.place.column) for s in spots] == [
        ("body", 2, 7),
        ("body", 3, 3),
    ]
    assert text[spots[1].place.start : spots[1].place.end] == "a += 2;"


@pytest.mark.parametrize(
    "text",
    [
        "float a = ;",
        "}",
        "{",
        "if (",
        "kernel void k() { }",
        "(" * 500 + "1" + ")" * 500 + ";",
        "{" * 3000 + "}" * 3000,
        "x = " + " + ".join("1" * 3000) + ";",
        "else { }",
    ],
)
def test_what_is_no_metal_is_a_problem(text: str) -> None:
    program = lower_body(text, "", NAMES)
    opaque = program.body is not None and any(
        isinstance(part, nodes.Opaque) for part in program.body.statements
    )
    assert program.problems or opaque
    lower_unit(text)


def test_a_header_that_nests_too_deep() -> None:
    header = "constant int a = " + "(" * 500 + "1" + ")" * 500 + ";"
    program = lower_body("1;", header)
    assert [problem.spot.text for problem in program.problems] == ["header"]


def test_a_struct_with_a_base_is_a_problem() -> None:
    program = lower_unit("struct A { int a; }; struct B : A { int b; };")
    assert [problem.why for problem in program.problems] == ["a struct with a base"]
