"""``.metal`` files as whole units: signatures, names, and what their kernels do."""

from __future__ import annotations

import pytest

from embercoach.checks import check_metal
from embercoach.finding import Finding
from tests.checks.findings import launched, pointed

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
UNIT = "KERNEL-UNIT"


def findings(text: str, family: str = "") -> list[Finding]:
    return [f for f in check_metal(HEAD + text).findings if f.code.startswith(family)]


def codes(text: str, family: str = "") -> list[str]:
    return [finding.code for finding in findings(text, family)]


def kernel(arguments: str, body: str = "", result: str = "void") -> str:
    return f"kernel {result} f({arguments}) {{ {body} }}\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("device float* x [[buffer(0)]], device float* y [[buffer(0)]]", [f"{UNIT}-001"]),
        ("texture2d<float> a [[texture(2)]], texture2d<float> b [[texture(2)]]", [f"{UNIT}-001"]),
        ("device float* x [[buffer(0)]], texture2d<float> y [[texture(0)]]", []),
        ("float* x [[buffer(0)]]", [f"{UNIT}-004"]),
        ("float4& x [[buffer(0)]]", [f"{UNIT}-004"]),
        ("uint n", [f"{UNIT}-004"]),
        ("uint4 i [[thread_position_in_grid]]", [f"{UNIT}-005"]),
        ("uint2 i [[thread_position_in_grid]], ushort3 j [[threads_per_grid]]", []),
    ],
)
def test_arguments(arguments: str, expected: list[str]) -> None:
    assert codes(kernel(arguments), UNIT) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (kernel("", "return 1.0f;", "float"), [f"{UNIT}-003"]),
        (kernel("", "return 0;", "device float*"), [f"{UNIT}-003"]),
        ("[[kernel]] uint2 f() { return uint2(0); }\n", [f"{UNIT}-003"]),
        # An explicit instantiation names types alone.
        ('template [[host_name("g")]] kernel void g<half>(device half*, uint);\n', []),
    ],
)
def test_functions(text: str, expected: list[str]) -> None:
    assert codes(text, UNIT) == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (kernel("device float* x", "x[0] = missing;"), ["missing"]),
        (
            "#ifndef G_h\n#define G_h\n"
            + kernel("device float* x", "x[0] = missing;")
            + "#endif\n",
            ["missing"],
        ),
    ],
)
def test_undeclared_names(text: str, names: list[str]) -> None:
    found = findings(text, "KERNEL-SIG")
    assert [f.message.split("`")[1] for f in found] == names
    assert {f.code for f in found} <= {"KERNEL-SIG-005"}


#: A reduction in two steps; the barrier before the second is what the cases differ by.
REDUCTION = """
kernel void total(
    device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
    uint group [[simdgroup_index_in_threadgroup]], uint local [[thread_position_in_threadgroup]],
    uint row [[threadgroup_position_in_grid]]) {{
  threadgroup float shared[32];
  float sum = simd_sum(x[i]);
  if (lane == 0) shared[group] = sum;
  {}
  float all = shared[lane];
  {}
  if (lane == 0) shared[group] = all;
}}
"""
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (BARRIER, BARRIER, []),
        ("", BARRIER, [("KERNEL-RACE-001", 13)]),
        (BARRIER, "", [("KERNEL-RACE-001", 15)]),
    ],
)
def test_races(first: str, second: str, expected: list[tuple[str, int]]) -> None:
    found = findings(REDUCTION.format(first, second), "KERNEL-RACE")
    assert [(f.code, f.line) for f in found] == expected
    for one in found:
        # The message names the line of the other access, which is a place of its own beside it.
        (other,) = one.related
        assert f"line {other.line}" in one.message
        assert other.line < one.line


@pytest.mark.parametrize(
    ("guard", "reported"),
    [
        ("if (i >= n) return;", True),
        ("if (t >= n) return;", False),  # the host launches n threads to a group
        ("if (t == 0) return;", True),
    ],
)
def test_barriers_behind_an_early_return(guard: str, reported: bool) -> None:
    text = kernel(
        "device float* x [[buffer(0)]], constant uint& n [[buffer(1)]], "
        "uint i [[thread_position_in_grid]], uint row [[threadgroup_position_in_grid]], "
        "uint t [[thread_position_in_threadgroup]]",
        f"{guard} {BARRIER} x[i] = 0;",
    )
    assert codes(text, "KERNEL-BARRIER") == ["KERNEL-BARRIER-001"] * reported


def test_a_kernel_of_one_simd_group_is_tried_as_such() -> None:
    """It strides by 32, so that it is launched with 32 threads: nobody else writes its elements."""
    text = kernel(
        "device float* y [[buffer(0)]], constant uint& n [[buffer(1)]], "
        "uint lane [[thread_index_in_threadgroup]], uint row [[threadgroup_position_in_grid]]",
        "for (uint i = lane; i < n; i += 32) { y[row * n + i] = i + lane; }",
    )
    assert codes(text, "KERNEL-RACE") == []


STAGED = """
kernel void f(
    device float* y [[buffer(0)]], uint lane [[thread_index_in_simdgroup]],
    uint group [[simdgroup_index_in_threadgroup]], threadgroup float* s [[threadgroup(0)]]) {{
  s[lane] = y[lane];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  float v = s[31 - lane];
  {}
}}
"""


@pytest.mark.parametrize(
    ("use", "codes_of_races"),
    [
        ("if (group == 0) y[lane] = v;", []),  # launched with one simdgroup
        ("y[group * 32 + lane] = v;", ["KERNEL-RACE-001"]),
    ],
)
def test_a_kernel_that_asks_for_the_first_simdgroup_may_have_one(
    use: str, codes_of_races: list[str]
) -> None:
    assert codes(STAGED.format(use), "KERNEL-RACE-001") == codes_of_races


OWN_TEXT = "void fold(uint v, thread uint& borrow) { borrow = v; }\n"
BODY = "uint borrow; fold(n, borrow); x[i] = borrow;"
ARGUMENTS = (
    "device uint* x [[buffer(0)]], constant uint& n [[buffer(1)]], "
    "uint i [[thread_position_in_grid]]"
)
INSTANCES = """
#define make_d(type, gs, bits, codec) \\
  instantiate_kernel("d_" #codec "_" #type, d_ ## codec, type, gs, bits)
make_d(float, 128, 2, q1)
make_d(float, 64, 2, q2)
make_d(float, 128, 1, q3)

template <typename T>
[[kernel]] void accum(device T* out [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  out[i] = static_cast<T>(i);
}
"""
REVERSED = """
    uint r = 0, v = i;
    for (uint k = 0; k < n; k++) { r = (r << 1) | (v & 1); v >>= 1; }
    x[r] = i;
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OWN_TEXT + kernel(ARGUMENTS, BODY), []),
        ('#include "field.h"\n' + kernel(ARGUMENTS, BODY), []),  # it may take a reference
        (kernel(ARGUMENTS, "uint v; x[i] = v + n;"), ["KERNEL-INIT-001"]),
        (kernel(ARGUMENTS, REVERSED), []),  # an index of as many bits as the loop has turns
        (kernel(ARGUMENTS, "x[i / 2] = i;"), ["KERNEL-RACE-002"]),
        ("template <typename T> T cast_of(int v) = delete;\n" + kernel(""), []),
        ('extern "C" struct P { uint n; };\n' + kernel(""), []),
        (INSTANCES, []),
        ("[[mesh]] void m(uint t [[thread_index_in_threadgroup]]) { threadgroup uint s; }", []),
        ("void m(uint t) { threadgroup uint s; }\n" + kernel(""), ["KERNEL-MEMORY-002"]),
        (kernel("", "auto f = [](float v) { return v; };"), []),  # the project has Metal 4
        (
            "template <int n> void sum(device float* x) {\n"
            "float s[n] = {0}; for (int k = 0; k < n; k++) { s[k] += x[k]; } x[0] = s[0]; }\n"
            + kernel("device float* x [[buffer(0)]]", "sum<4>(x);"),
            [],
        ),
    ],
)
def test_files_of_real_projects(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "\n",
        "\x0c",
    ],
)
def test_nothing_that_is_written_breaks_it(text: str) -> None:
    assert [f for f in check_metal(text).findings if not f.code.startswith("KERNEL")] == []


STEP = """
kernel void step(
    device float* state [[buffer(0)]], device float* y [[buffer(1)]],
    constant uint& rows [[buffer(2)]], constant uint& columns [[buffer(3)]],
    {} [[{}]]) {{
  uint column = i.x, row = i.y;
  if (column >= columns || row >= rows) return;
  float decayed = 0.5f * state[row];
  if (column == 0) {{
    state[row] = decayed;
  }}
  y[row * columns + column] = decayed;
}}
"""


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        # It knows nothing of its threadgroup, so that it has to be right for any.
        ("thread_position_in_grid", [("KERNEL-RACE-002", 12)]),
        # It may be meant for a row of a few threads.
        ("thread_position_in_threadgroup", []),
    ],
)
def test_state_that_is_read_while_it_is_updated(
    attribute: str, expected: list[tuple[str, int]]
) -> None:
    found = findings(STEP.format("uint2 i", attribute), "KERNEL-RACE")
    assert [(f.code, f.line) for f in found] == expected


KERNEL = "kernel void k(device float* b [[buffer(0)]], uint i [[thread_position_in_grid]]) {{ {} }}"
UNDECLARED = "KERNEL-SIG-005"
ARRAY = "KERNEL-MEMORY-002"
LOCAL = "KERNEL-MSL-001"
POINTER = "KERNEL-SPACE-001"


@pytest.mark.parametrize(
    ("body", "code", "reported"),
    [
        ("#if __METAL_VERSION__ > 300\nint m = x_shape[0]; float a[m];\n#endif\n", ARRAY, ["m"]),
        ("#if 0\ndevice float v;\n#endif\n", LOCAL, []),
        ("auto f = [=](float v) { float* p = y; return v; };", POINTER, ["p"]),
        ("float v[2] = {1, 2}; for (float e : v) { device float w; }", LOCAL, ["w"]),
        ("#define COUNT m\nint m = x_shape[0]; float a[COUNT];\n", ARRAY, []),
    ],
)
def test_body(body: str, code: str, reported: list[str]) -> None:
    assert pointed(launched(body), code) == [(code, text) for text in reported]


def test_call_in_an_argument_of_a_macro_is_reported_where_it_is() -> None:
    program = launched("#define SAME(e) (e)\ny[0] = SAME(isnan(x[0])) ? 0 : 1;\n")
    program = program.replace("source=", 'compile_options={"math_mode": "fast"}, source=')
    assert pointed(program, "KERNEL-MATH") == [("KERNEL-MATH-001", "isnan(x[0])")]


def test_statements_of_a_function_that_the_parser_lost_are_not_at_file_scope() -> None:
    text = (
        "instantiate_all(256, float)\n"
        "[[kernel]] void f(device float* y [[buffer(1)]]) {\n  y[r] = a;\n  float a = 0.0f;\n}\n"
    )
    assert findings(f"{HEAD}{text}", LOCAL) == []
    (found,) = findings(f"{HEAD}namespace n {{\nfloat lost;\n}}\n{text}", LOCAL)
    assert "`lost`" in found.message


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("u16 lost(int v) { return v; }", 1),
        ("struct A { float a; A(float v) : a(lost) {} };", 36),
        ("struct A : lost { float a; };", None),
        ('static_assert(lost > 1, "");', 15),
        ("template <typename T> T f(T v) { return v; } constant float c = f<lost>(1);", None),
        ("constant array<float, lost> a = {};", None),
    ],
)
def test_undeclared_name(text: str, column: int | None) -> None:
    found = check_metal(f"{HEAD}{text}\n{KERNEL.format('b[i] = 1;')}\n").findings
    places = [(f.line, f.column) for f in found if f.code == UNDECLARED]
    assert places == ([] if column is None else [(3, column)])
