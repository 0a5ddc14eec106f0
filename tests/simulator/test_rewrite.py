from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from embercoach.metal.contract import Input, KernelArguments, Output, TemplateArgument
from embercoach.metal.program.texts import as_written
from embercoach.simulator.model import SimulatorError
from embercoach.simulator.rewrite.line_edits import LineEdit, apply
from embercoach.simulator.rewrite.translation import Rewritten, rewrite
from embercoach.simulator.rewrite.variables import fillings
from tests.metal.generated_text import generated_source

X = Input.of_shape("x", (16,), "float32")
Y = Output("y", "float32")


def generated(
    body: str,
    header: str = "",
    *,
    inputs: tuple[Input, ...] = (X,),
    outputs: tuple[Output, ...] = (Y,),
    template: tuple[TemplateArgument, ...] = (),
    atomic: bool = False,
) -> str:
    return generated_source(
        KernelArguments("k", inputs, outputs, body, header, template, atomic_outputs=atomic)
    )


def rewritten(body: str, header: str = "", **more: object) -> Rewritten:
    return rewrite(generated(body, header, **more), body, header)  # type: ignore[arg-type]


def body_of(result: Rewritten) -> list[str]:
    lines = result.edited.text.split("\n")
    first = result.lines.body_start - 1
    return lines[first : first + result.lines.body_lines]


def test_a_plain_kernel_keeps_every_character_of_its_body() -> None:
    body = "\n  uint i = thread_position_in_grid.x;\n  y[i] = x[i] * 2.0h;  // \u00e9\n"
    result = rewritten(body)
    assert "\n".join(body_of(result)) == body
    assert result.edited.text.split("\n")[: result.lines.body_start - 1] == [
        "static     void custom_kernel_k_float_float(",
        "  const device float* x              ,",
        "  device float* y              ,",
        "  uint3 thread_position_in_grid                            ) {",
    ]
    assert result.thunk == (
        'extern "C" EMBER_ENTRY void ember_kernel('
        "const ember_thread* ember_self, void* const* ember_buffers) { custom_kernel_k_float_float("
        "(const device float*)ember_buffers[0], (device float*)ember_buffers[1], "
        "uint3(ember_self->thread_position_in_grid[0], ember_self->thread_position_in_grid[1], "
        "ember_self->thread_position_in_grid[2])); }\n"
    )


def test_parameters_are_read() -> None:
    body = "y[0] = s + c[0] + x_shape[0] + x_strides[0] + x_ndim + thread_index_in_simdgroup;"
    inputs = (X, Input.of_shape("c", (4,), "bfloat16"), Input.of_shape("s", (), "int64"))
    found = {p.name: p for p in rewritten(body, inputs=inputs, atomic=True).parameters}
    forms = {
        name: (p.type, p.space, p.declarator, p.is_const, p.is_atomic, p.index, p.attribute)
        for name, p in found.items()
    }
    assert forms == {
        "x": ("float", "device", "*", True, False, 0, ""),
        "x_shape": ("int", "constant", "*", True, False, 1, ""),
        "x_strides": ("int64_t", "constant", "*", True, False, 2, ""),
        "x_ndim": ("int", "constant", "&", True, False, 3, ""),
        "c": ("bfloat16_t", "constant", "*", True, False, 4, ""),
        "s": ("int64_t", "constant", "&", True, False, 5, ""),
        "y": ("float", "device", "*", False, True, 6, ""),
        "thread_index_in_simdgroup": (
            "uint",
            "",
            "",
            False,
            False,
            None,
            "thread_index_in_simdgroup",
        ),
    }


@pytest.mark.parametrize(
    ("declaration", "storage"),
    [
        ("threadgroup float a[32];", ["a|float [32]"]),
        ("threadgroup float a;", ["a|float"]),
        ("threadgroup float a[32], b[4][N + 1];", ["a|float [32]", "b|float [4][N + 1]"]),
        ("float threadgroup a[3];", ["a|float [3]"]),
        ("static threadgroup float a[3];", ["a|float [3]"]),
        ("threadgroup volatile int a[2];", ["a|volatile int [2]"]),
        ("threadgroup unsigned long a[2];", ["a|unsigned long [2]"]),
        ("threadgroup vec<T, 4> a[2];", ["a|vec<T, 4> [2]"]),
        ("threadgroup metal::array<float, 4> a;", ["a|metal::array<float, 4>"]),
        ("threadgroup typename U::type a[2];", ["a|typename U::type [2]"]),
        ("threadgroup struct Pair a[2];", ["a|struct Pair [2]"]),
        ("threadgroup atomic<uint> a[4];", ["a|atomic<uint> [4]"]),
        ("threadgroup half (a)[2];", ["a|half [2]"]),
        ("threadgroup float* threadgroup a;", ["a|threadgroup float *"]),
        ("float* threadgroup a;", ["a|float *"]),
        ("device float* threadgroup a[2];", ["a|device float * [2]"]),
        ("threadgroup float a /* rows */ [4 /* n */];", ["a|float [4 ]"]),
        ("threadgroup float a [[maybe_unused]][3];", ["a|float [3]"]),
    ],
)
def test_threadgroup_variables_get_storage(declaration: str, storage: list[str]) -> None:
    (line,) = body_of(rewritten(f"{declaration}"))
    made = [part.split("|") for part in storage]
    expected = " ".join(f"EMBER_STORAGE({name}, , {kind})" for name, kind in made)
    assert line == expected


@pytest.mark.parametrize(
    "declaration",
    [
        "threadgroup alignas(16) float a[3];",
        "alignas(16) threadgroup float a[3];",
        "threadgroup __attribute__((aligned(16))) float a[3];",
    ],
)
def test_alignment_goes_to_the_storage(declaration: str) -> None:
    (line,) = body_of(rewritten(declaration))
    name, attribute, kind = line.removeprefix("EMBER_STORAGE(").removesuffix(")").split(", ")
    assert (name, kind) == ("a", "float [3]")
    assert "16" in attribute


@pytest.mark.parametrize(
    "declaration",
    [
        "threadgroup float* p = a;",
        "threadgroup float* p = a, *q;",
        "const threadgroup float* p;",
        "threadgroup float (&r)[4] = *a;",
        "threadgroup float (*p)[4];",
        "threadgroup float* p[4];",
        "threadgroup auto& r = a[0];",
        "threadgroup float* const threadgroup* p;",
        "auto p = (threadgroup float*)(threadgroup uint*)a;",
        "using P = threadgroup float*;",
        "typedef threadgroup float T3[3];",
        "struct S { threadgroup float* p; };",
        "auto p = reinterpret_cast<threadgroup uint*>(a);",
        'const char* s = "threadgroup float a[3];";',
        "// threadgroup float a[3];",
        "/* threadgroup float a[3]; */",
    ],
)
def test_what_is_no_threadgroup_variable_stays(declaration: str) -> None:
    result = rewritten(declaration)
    assert body_of(result) == [declaration]
    assert result.problems == ()


@pytest.mark.parametrize(
    ("declaration", "word"),
    [
        ("threadgroup float a[2] = {0, 0};", "initializer"),
        ("threadgroup float a{1};", "initializer"),
        ("threadgroup float a[4], *p;", "split it"),
        ("threadgroup float *threadgroup p, a[4];", "split it"),
        ("extern threadgroup float a[4];", "extern"),
        ("threadgroup struct { float v; } a[4];", "define it before"),
    ],
)
def test_what_metal_refuses_is_a_problem_of_its_line(declaration: str, word: str) -> None:
    result = rewritten(f"int i;\n  {declaration}\n")
    (problem,) = result.problems
    assert word in problem.message
    assert (result.lines.place(problem.line), problem.column) == (("body", 2), 3)


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("SHARED float a[4];", "EMBER_STORAGE(a, , float [4])"),
        ("f(); SHARED float a[4];", "f(); EMBER_STORAGE(a, , float [4])"),
        ("float SHARED a[4], b;", "EMBER_STORAGE(a, , float [4]) EMBER_STORAGE(b, , float)"),
        ("SHARED float* p = a;", "SHARED float* p = a;"),
        ("f((SHARED float*)a); f();", "f((SHARED float*)a); f();"),
    ],
)
def test_a_macro_of_qualifiers_is_seen_through(declaration: str, expected: str) -> None:
    result = rewritten(declaration, "#define SHARED threadgroup\n")
    assert body_of(result) == [expected]


def test_a_macro_that_hides_a_declaration_is_named() -> None:
    header = "#define ARRAY(n) threadgroup float n[4]\n#define OTHER(n) float n[4]\n"
    result = rewritten("ARRAY(a);", header)
    assert body_of(result) == ["ARRAY(a);"]
    assert result.opaque == ("ARRAY",)


@pytest.mark.parametrize("mark", ["[[kernel]]", "kernel"])
def test_kernels_of_the_header_have_storage_too(mark: str) -> None:
    header = (
        f"{mark} void other(device float* p [[buffer(0)]]) {{ threadgroup float a[4]; }}\n"
        "void helper() { threadgroup float b[4]; }\n"
    )
    lines = rewritten("y[0] = 1;", header).edited.text.split("\n")
    assert "EMBER_STORAGE(a, , float [4])" in lines[0]
    assert "buffer" not in lines[0]
    assert lines[1] == "void helper() { threadgroup float b[4]; }"


def test_only_metals_own_attributes_go() -> None:
    header = (
        'struct [[maybe_unused]] V { float4 p [[position]]; [[clang::annotate("x")]] int i; };\n'
    )
    line = rewritten("y[0] = 1;", header).edited.text.split("\n")[0]
    assert line == header.rstrip("\n").replace("[[position]]", " " * 12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: "//" + s, "must begin with the kernel's header"),
        (lambda s: s.replace("y[0] = 1;", "y[0] = 2;"), "body is not in the source"),
        (lambda s: s + "\n", "unexpected end"),
        (lambda s: s.replace("[[buffer(0)]]", "[[texture(0)]]"), "unsupported generated parameter"),
        (lambda s: s.replace("custom_kernel_k_", "custom kernel k "), "cannot parse"),
        (lambda s: s.replace("[[kernel]]", "[[vertex]]"), "not marked"),
        (lambda s: "", "must begin"),
    ],
)
def test_a_text_that_is_not_mlxs_is_refused(change: object, words: str) -> None:
    header, body = "int f();\n", "y[0] = 1;"
    source = generated(body, header)
    with pytest.raises(SimulatorError, match=words):
        rewrite(change(source), body, header)  # type: ignore[operator]


def test_a_parameter_list_that_mlx_closes_too_early_is_explained() -> None:
    outputs = (Y, Output("z", "float32"))
    body = "y[0] = x_shape[0]; z[0] = 1;"
    with pytest.raises(SimulatorError, match="Mention a thread attribute"):
        rewritten(body, outputs=outputs)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("int a;\n#line 7\nint b;", "line 5 .*#line directive"),
        ('# line 3 "x.h"\n', "#line directive"),
        ("int a;\rint b;", "'\\\\r'"),
        ("int a;\0", "'\\\\x00'"),
        ("// \ud800", "ud800"),
    ],
)
def test_what_would_move_lines_is_refused(body: str, words: str) -> None:
    with pytest.raises(SimulatorError, match=words):
        rewritten(body)


STATEMENTS = st.sampled_from(
    [
        "threadgroup float a[32];",
        "threadgroup float b[4], c[2][2];\n",
        "threadgroup\n  half4 d[8]; ",
        "uint i = thread_position_in_grid.x;\n",
        "if (i > 3) { return; }\n",
        "y[i] = 1.0h;",
        "// threadgroup float e[2];\n",
        "threadgroup float* p = a;\n",
        "#pragma unroll\n",
        "for (int k = 0; k < 4; ++k) {\n",
        "}\n",
        "#define M 3\n",
        "'\\0' \"threadgroup\" ",
        "\u00e9\n",
    ]
)


@example(["a*a", "(", "threadgroup float a[32];"])
@given(st.lists(STATEMENTS | st.text("tgroupfla [];{}\n=,*&()#/\"'", max_size=12), max_size=12))
def test_any_body_keeps_its_lines(pieces: list[str]) -> None:
    body = "".join(pieces)
    result = rewritten(body)
    before, after = result.edited.original.split("\n"), result.edited.text.split("\n")
    assert len(before) == len(after)
    assert result.edited.original == generated(body)
    touched = {
        line
        for edit in result.edited.edits
        for line in range(
            result.edited.original.count("\n", 0, edit.start),
            result.edited.original.count("\n", 0, edit.end) + 1,
        )
    }
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        assert old == new or number in touched
    # Of the body, only declarations of threadgroup variables were touched; locals are filled, and
    # what reads as an array parameter (text behind an open parenthesis) is made the pointer it is.
    start = result.edited.original.index(") {\n") + 4
    for edit in result.edited.edits:
        if start <= edit.start < start + len(body):
            replaced = result.edited.original[edit.start : edit.end]
            if not replaced:
                assert edit.new.startswith(" EMBER_FILL(") or edit.new in {"*", "(*"}
            elif replaced.startswith("["):
                assert not edit.new.strip(")\n ")
            else:
                assert edit.new.startswith("EMBER_STORAGE(")
                assert "threadgroup" in replaced


@st.composite
def edits_of(draw: st.DrawFn) -> tuple[str, list[LineEdit]]:
    text = draw(st.text("ab\n\u00e9", max_size=40))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8, unique=True)))
    edits = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        breaks = text[start:end].count("\n")
        word = draw(st.text("xyz", max_size=6))
        edits.append(LineEdit(start, end, word + "\n" * breaks))
    return text, edits


@given(edits_of())
def test_every_place_leads_back(case: tuple[str, list[LineEdit]]) -> None:
    text, edits = case
    edited = apply(text, edits)
    assert edited.text.count("\n") == text.count("\n")
    inserted: list[bool] = []
    done = 0
    for edit in edits:
        inserted += [False] * (edit.start - done) + [True] * len(edit.new)
        done = edit.end
    inserted += [False] * (len(text) - done)
    line = 1
    start = 0
    for offset, character in enumerate(edited.text):
        if not inserted[offset] and character != "\n":
            column = len(edited.text[start:offset].encode()) + 1
            own_line, own_column = edited.original_place(line, column)
            assert own_line == line
            assert text.split("\n")[own_line - 1][own_column - 1] == character
        if character == "\n":
            line, start = line + 1, offset + 1


def test_places_beyond_the_text_are_harmless() -> None:
    edited = apply("ab\ncd", [LineEdit(0, 1, "xyz")])
    assert edited.original_place(1, 99) == (1, 3)
    assert edited.original_place(9, 4) == (9, 1)


@pytest.mark.parametrize(
    "edits",
    [[LineEdit(0, 3, "x")], [LineEdit(0, 1, "\n")], [LineEdit(0, 2, "x"), LineEdit(1, 2, "y")]],
)
def test_edits_that_move_lines_or_overlap_are_refused(edits: list[LineEdit]) -> None:
    with pytest.raises(SimulatorError, match="in place"):
        apply("ab\ncd", edits)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1.5bf", "1.5_bf"),
        ("1BF", "1_bf"),
        ("2.0H", "2.0_h"),
        ("2H", "2_h"),
        ("2h", "2_h"),
        ("1.0h", "1.0h"),
        ("1e3h", "1e3h"),
        ("0x1.8p3h", "0x1.8p3h"),
        ("0x10BF", "0x10BF"),
        ("1.0f", "1.0f"),
        ("2u", "2u"),
    ],
)
def test_literals_get_suffixes_that_clang_takes(written: str, expected: str) -> None:
    body = f'#define E {written} + 1\ny[0] = E * {written}; // {written}\n"{written}";'
    assert body_of(rewritten(body)) == [
        f"#define E {expected} + 1",
        f"y[0] = E * {expected}; // {written}",
        f'"{written}";',
    ]


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("constant const int s[2]", "constant const int *s   "),
        ("const device float a[][3]", "const device float (*a)  [3]"),
        ("device float a[4][3][2]", "device float (*a)   [3][2]"),
        ("device float* a[3]", "device float* a[3]"),
        ("constant int (&a)[3]", "constant int (&a)[3]"),
        ("int a[3]", "int a[3]"),
    ],
)
def test_array_parameters_of_a_space_are_pointers(declared: str, expected: str) -> None:
    result = rewritten("y[0] = 1;", f"float f({declared}, int n);\n")
    assert result.edited.text.split("\n")[0] == f"float f({expected}, int n);"


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        (["float f() const device;"], ["float f() const       ;"]),
        (["void f() threadgroup {}", "void f() thread {}"], ["void f()             {}", ""]),
        (["float f() const { }", "float f() const device { }"], ["float f() const { }", ""]),
        (["float f() device;", "float f() const device;"], None),
        (["float f() constant;", "float f() const device;"], ["float f() const   ;", ""]),
        (["float f(int i) device {}", "float f() device {}"], None),
        (["template <int N> int f() device {}", "template <typename T> int f() device {}"], None),
        (["template <int N> int f() device {}", "template <int N> int f() thread {}"], [None, ""]),
        (["S(float x) thread : v(x) {}", "S(float x) constant : v(x) {}"], [None, ""]),
        (["S() constant {}"], ["S()          {}"]),
        (["operator float() const device {}", "operator float() const thread {}"], [None, ""]),
        (["device S& operator=(S s) device {}"], ["       S& operator=(S s)        {}"]),
        (["device float& f() device {}"], ["device float& f()        {}"]),
        # Twice the same is the user's mistake.
        (["void f() {}", "void f() {}"], ["void f() {}", "void f() {}"]),
    ],
)
def test_methods_serve_every_space(methods: list[str], expected: list[str | None] | None) -> None:
    header = "\n".join(["struct S { float v;", *methods, "};"]) + "\n"
    lines = rewritten("y[0] = 1;", header).edited.text.split("\n")[1 : 1 + len(methods)]
    for line, method, wanted in zip(lines, methods, expected or [None] * len(methods), strict=True):
        # Without an own expectation a method only loses the space.
        whole = method.replace(") const device", ") const       ")
        for space in ("device", "thread"):
            whole = whole.replace(f") {space}", ")".ljust(len(space) + 2))
        assert line.rstrip() == (whole if wanted is None else wanted)
        assert len(line) == len(method)


def test_nothing_is_edited_in_a_method_that_goes() -> None:
    header = "struct S { int f() device { return 1; }\nint f() thread { int t; return 2H; } };\n"
    lines = rewritten("y[0] = 1;", header).edited.text.split("\n")
    assert lines[1].split() == ["};"]


@pytest.mark.parametrize(
    ("parameter", "kind"),
    [
        ("float* p", "pointer"),
        ("const float4& p", "reference"),
        ("int* const p", "pointer"),
        ("void* p", "pointer"),
    ],
)
def test_a_parameter_without_an_address_space_is_a_problem(parameter: str, kind: str) -> None:
    result = rewritten("y[0] = 1;", f"constant int n = 1;\nvoid f(int i, {parameter}) {{}}\n")
    (problem,) = result.problems
    assert (problem.line, problem.column) == (2, 15)
    assert f"{kind} without an address space" in problem.message
    assert parameter in problem.message


@pytest.mark.parametrize(
    "header",
    [
        "void f(device float* p, thread int& n, float device* q) {}",
        "void f(float* thread p) {}",
        "#define SHARED threadgroup\nvoid f(SHARED float* p) {}",
        "#define SHARED threadgroup\nvoid f(float SHARED* p) {}",
        "template <typename T> void f(T* p, T& q) {}",
        "using P = device float;\nvoid f(P* p) {}",
        "void f(void (*g)(float*)) {}",
        "void f(float* p);",
        "#if 0\nvoid f(float* p) {}\n#endif",
        "struct S { S(const S& other) {} };",
        "void f(float p, float4 q) { auto g = [](float& r) {}; }",
    ],
)
def test_parameters_that_may_have_an_address_space_are_let_be(header: str) -> None:
    assert rewritten("y[0] = 1;", f"{header}\n").problems == ()


def filled(body: str) -> str:
    """A body with its fillings."""
    for filling in sorted(fillings(as_written(body, "body")), key=lambda f: -f.end):
        body = body[: filling.start] + filling.new + body[filling.end :]
    return body


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("float a;", "float a; EMBER_FILL(a)"),
        ("float a, b[4];", "float a, b[4]; EMBER_FILL(a) EMBER_FILL(b)"),
        ("float a = 1, b;", "float a = 1, b; EMBER_FILL(b)"),
        ("thread half4 acc[2][N];", "thread half4 acc[2][N]; EMBER_FILL(acc)"),
        ("metal::vec<T, 2> v;", "metal::vec<T, 2> v; EMBER_FILL(v)"),
        ("Moments m;", "Moments m; EMBER_FILL(m)"),
        ("if (x) { int k; }", "if (x) { int k; EMBER_FILL(k) }"),
        (
            "switch (x) { case 0: int k; k = 1; }",
            "switch (x) { case 0: int k; EMBER_FILL(k) k = 1; }",
        ),
        (
            "auto f = [&]() { int k; return k; };",
            "auto f = [&]() { int k; EMBER_FILL(k) return k; };",
        ),
    ],
)
def test_local_without_a_value_is_filled(declaration: str, expected: str) -> None:
    assert filled(declaration) == expected


@pytest.mark.parametrize(
    "declaration",
    [
        "float a = 1;",
        "float a{1};",
        "float a(1);",
        "float c, s = sincos(v, c);",
        "const float a[2] = {1, 2};",
        "constexpr int n = 3;",
        "static int n;",
        "threadgroup float a[3];",
        "device float* p;",
        "float& r = a;",
        "float f(int);",
        "auto [a, b] = pair;",
        "for (int i, j = 0; j < 3; ++j) {}",
        "struct S { float a; };",
        "using T = float;",
        "extern float a;",
    ],
)
def test_everything_else_stays(declaration: str) -> None:
    assert filled(declaration) == declaration


def test_functions_of_the_header_but_no_constants_and_no_members() -> None:
    header = """
struct S { float a; float f() { float b; return b; } };
constant float c[2] = {1, 2};
constexpr int n() { int k = 0; int l; return k; }
float g() { float d; return d; }
"""
    names = [filling.new for filling in fillings(as_written(header, "file"))]
    assert names == [" EMBER_FILL(b)", " EMBER_FILL(d)"]
