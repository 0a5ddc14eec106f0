"""KERNEL-MSL: what Metal lacks, and what only looks like it."""

from __future__ import annotations

import pytest

from tests.checks.findings import findings, messages

CODE = "KERNEL-MSL-001"
INDEX = "uint i = thread_position_in_grid.x;"


def kernel(body: str, header: str = "") -> str:
    return (
        'K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
        f'    header="""{header}""", source="""{body}""")\n'
    )


def complaints(body: str, header: str = "") -> list[str]:
    return messages(kernel(body, header), CODE)


FOREIGN = {
    "double d = 1; y[0] = d;": "`double` is not a Metal type",
    "y[0] = (double)x[0] * 2;": "`double` is not a Metal type",
    "y[0] = static_cast<double>(x[0]);": "`double` is not a Metal type",
    "long double d = 1; y[0] = d;": "`long double` is not a Metal type",
    "long long n = 1; y[0] = n;": "`long long` is not a Metal type",
    "unsigned long long int n = 1; y[0] = n;": "`unsigned long long int` is not a Metal type",
    "float* p = new float[4]; y[0] = p[0];": "Metal has no `new`",
    "thread float* p = 0; delete p; y[0] = 0;": "Metal has no `delete`",
    "try { y[0] = x[0]; } catch (int e) { y[0] = 0; }": "Metal has no exceptions: `try`",
    "if (x[0] < 0) throw 1; y[0] = 0;": "Metal has no exceptions: `throw`",
    "if (x[0] < 0) goto end; y[0] = 1; end: return;": "Metal has no `goto`",
    "struct S { virtual float f() { return 1; } }; y[0] = 0;": "Metal has no virtual functions",
    "thread_local int n = 1; y[0] = n;": "Metal has no `thread_local` variables",
    "auto p = dynamic_cast<thread float*>(&v); y[0] = 0;": "Metal has no `dynamic_cast`",
    "y[0] = std::max(x[0], 0.0f);": "C++ standard library: `std::max`",
    "y[0] = std::numeric_limits<float>::max();": "C++ standard library: `std::numeric_limits`",
    "std::array<float, 4> a; y[0] = a[0];": "C++ standard library: `std::array`",
    "using namespace std; y[0] = max(x[0], 0.0f);": "C++ standard library: `using namespace std`",
    "using std::max; y[0] = max(x[0], 0.0f);": "C++ standard library: `std::max`",
    "auto f = [&](float v) { return v; }; y[0] = f(x[0]);": "lambda expressions need Metal 4",
}


@pytest.mark.parametrize("body", FOREIGN)
def test_flagged(body: str) -> None:
    (message,) = complaints(body)
    assert FOREIGN[body] in message


@pytest.mark.parametrize(
    "body",
    [
        "long a = 1; ulong b = 2; unsigned long c = 3; long int d = 4; y[0] = a + b + c + d;",
        "int64_t a = long(x[0]); y[0] = a; // double, new, goto, std::max",
        'y[0] = x[0]; /* try { throw "double"; } */',
        "float double_buffer = 1, new_value = 2, goto_x = 3; y[0] = double_buffer + new_value;",
        "struct S { float doubled, delete_me; }; S s; y[0] = s.doubled;",
        "y[0] = metal::max(x[0], metal::numeric_limits<float>::min());",
        "#define double float\ndouble d = x[0]; y[0] = d;",
        "#if 0\ndouble d = 1;\n#else\nfloat d = 1;\n#endif\ny[0] = d;",
        "float d = x[0]; y[0] = d < 1 ? d : float(1);",
        "int a[3] = {1, 2, 3}; y[a[0]] = 0;",
    ],
)
def test_silent(body: str) -> None:
    assert complaints(body) == []


@pytest.mark.parametrize(
    ("header", "reported"),
    [
        ("\n#include <vector>\n", ["standard header `<vector>`"]),
        ("\n#include <metal_stdlib>\n#include <stdint.h>\n", []),
        ("float f(double v) { return v; }", ["`double` is not a Metal type"]),
        ("namespace std { float one() { return 1; } }\nfloat g() { return std::one(); }", []),
        ("struct A {};\nstruct B : A { float v; };\nfloat f() noexcept { return 1; }", []),
        ("float f(double v) { return v; }\nfloat g(double v) { return v; }", ["(2 times)"]),
    ],
)
def test_headers(header: str, reported: list[str]) -> None:
    found = complaints(INDEX + " y[i] = x[i];", header)
    assert len(found) == len(reported)
    assert all(text in message for text, message in zip(reported, found, strict=True))


def test_the_place_is_in_the_string() -> None:
    (finding,) = findings(kernel(f"\n{INDEX}\n  double d = x[i];\n  y[i] = d;\n"), CODE)
    assert (finding.line, finding.column, finding.end_column) == (6, 3, 9)


def test_the_place_is_in_the_header() -> None:
    (finding,) = findings(kernel("y[0] = 0;", "\n  double d() { return 1; }\n"), CODE)
    assert (finding.line, finding.column, finding.end_column) == (5, 3, 9)


def test_a_shared_header_is_told_once() -> None:
    program = 'H = "float f(double v) { return v; }"\n' + "".join(
        f'K{n} = mx.fast.metal_kernel(name="k{n}", input_names=["x"], output_names=["y"],\n'
        f'    header=H, source="y[{n}] = f(x[0]);")\n'
        for n in (1, 2)
    )
    assert len(findings(program, CODE)) == 1


@pytest.mark.parametrize(
    ("body", "header", "expected"),
    [
        ("device float total = 0; y[0] = total;", "", CODE),
        ("if (x[0] > 0) { device uint n[4] = {0, 0, 0, 0}; y[0] = n[0]; }", "", CODE),
        ("y[0] = f();", "inline float f() { device float v = 1; return v; }", CODE),
        ("threadgroup atomic_float t; y[0] = 1;", "", "KERNEL-ATOMIC-001"),
        ("threadgroup metal::atomic<float> t[4]; y[0] = 1;", "", "KERNEL-ATOMIC-001"),
        ("device float* p = y; const device float& q = x[0]; p[0] = q;", "", None),
        ("threadgroup atomic_uint t; threadgroup float s[4]; y[0] = 1;", "", None),
        ("device atomic_float* t = (device atomic_float*)y; y[0] = 1;", "", None),
        ("y[0] = f(y);", "inline float f(device float* p) { return p[0]; }", None),
        ("y[0] = 1; // device float total;", "struct S { device float* p; };", None),
    ],
)
def test_variables_in_the_wrong_memory(body: str, header: str, expected: str | None) -> None:
    found = findings(kernel(body, header), (CODE, "KERNEL-ATOMIC-001"))
    assert [finding.code for finding in found] == ([] if expected is None else [expected])
