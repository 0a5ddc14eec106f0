from __future__ import annotations

from textwrap import dedent

import pytest

from embercoach.metal.program import nodes
from embercoach.metal.program.lowering import lower_body, lower_unit
from tests.metal.program.rendering import NAMES, body_lines, function_lines, shown_type


def _lines(text: str, header: str = "") -> list[str]:
    return body_lines(lower_body(dedent(text), dedent(header), NAMES))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + 1;", "(x + 1:int):device float*"),
        ("'a';", "97:char"),
        ("'\\0';", "0:char"),
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
        ("vec<T, N>(1);", "T4{1:int}"),
        ("vec<H, 2>(1);", "half2{1:int}"),
        ("float2{1, 2};", "float2{1:int, 2:int}"),
        ("sizeof(float4) / sizeof(x[0]);", "(16:ulong / 4:ulong):ulong"),
        ("sizeof(T);", "opaque(the size of an unknown type)"),
        ("(max)(s, 1.0f);", "max(s, 1.0:float):float"),
        ("p->a;", "p[0:int].a"),
        ("[](int i) { return i; }(3);", "opaque(not understood: what is called, 3:int)"),
        ("bool b = s < N && N > (2);", "thread bool b = ((s < N):bool && (N > 2:int):bool):bool"),
        ("q = f(s < N, N > (2));", "(q = f((s < N):bool, (N > 2:int):bool):?)"),
    ],
)
def test_expressions(text: str, expected: str) -> None:
    assert _lines(text)[0] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float a[] = {1, 2};", ["thread float[2] a = float[2]{1:int, 2:int}"]),
        ("uint a(s);", ["thread uint a = <uint>s"]),
        ("uint a{3};", ["thread uint a = 3:int"]),
        ("unsigned a; unsigned long b; unsigned char c; long long d; size_t e;",
         ["thread uint a", "thread ulong b", "thread uchar c", "thread long long d",
          "thread ulong e"]),
        ("threadgroup atomic<int> a; threadgroup atomic_float b;",
         ["threadgroup atomic_int a", "threadgroup atomic_float b"]),
        ("array<float, N> a; simdgroup_matrix<H, 8, 8> b; matrix<float, 3, 3> c;",
         ["thread float[4] a", "thread simdgroup_half8x8 b", "thread float3x3 c"]),
        ("using V = float4; typedef half W; V a; W b;", ["thread float4 a", "thread half b"]),
        ("decltype(x[0]) a;", ["thread float a"]),
        ("T a; H b; vec<T, 4> c;", ["thread T a", "thread half b", "thread T4 c"]),
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
        ("if (int k = f()) 1;", ["{", "  thread int k = f():?", "  if k", "    1:int", "}"]),
        ("for (q = 0; ; ) {}", ["for ((q = 0:int); ; )", "  {", "  }"]),
        ("[[unroll]] for (;;) {}", ["for (; ; )", "  {", "  }"]),
        ("for (auto e : q) {}", ["opaque: a loop over a range"]),
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
        ("Mode::on;", ["on"]),
        ("float a[int(Mode::on)];", ["thread float[4] a"]),
        ("inner::deep() + deep() + inner::LEVEL;",
         ["((inner::deep#1():float + deep#1():float):float + LEVEL):float"]),
        ("twice();", ["twice():?"]),
        ("scaled<H, 2>(out, q);", ["scaled<H,2>#1(out, q):half"]),
        ("Item a; a.value; a.places[1]; a.times(2); q = Item::COUNT;",
         ["thread Item a", "a.value", "a.places[1:int]", "a.times#1(2:int):float",
          "(q = COUNT)"]),
        ("device Item* a = (device Item*)x; auto b = a->value; auto c = a[1].places[0];",
         ["device Item* a = <device Item*>x", "thread float b = a[0:int].value",
          "thread int c = a[1:int].places[0:int]"]),
        ("Pair<float> a; auto b = a.left; auto c = a.right;",
         ["thread Pair<float> a", "? b = a.left", "thread int c = a.right"]),
        ("Built a(s); Built b{s};",
         ["thread Built a = opaque(a constructor, s)",
          "thread Built b = opaque(a constructor, s)"]),
        ("auto f = [](int i) -> half { return i; }; auto a = f(1);",
         ["thread half a = f#1(1:int):half"]),
        ("auto f = [=](int i) { return x[i]; };", ["? f = opaque(a lambda expression)"]),
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


@pytest.mark.parametrize(
    "text",
    [
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
