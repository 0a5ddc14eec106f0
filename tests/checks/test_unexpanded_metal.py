"""Metal text that the typed program leaves out, or holds elsewhere: its names are known as well."""

from __future__ import annotations

import pytest

from embercoach.checks import check_metal
from tests.checks.findings import launched, pointed

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
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


@pytest.mark.parametrize(
    ("text", "column"),
    [
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
