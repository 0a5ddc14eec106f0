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
    "long double d = 1; y[0] = d;": "`long double` is not a Metal type",
    "long long n = 1; y[0] = n;": "`long long` is not a Metal type",
    "unsigned long long int n = 1; y[0] = n;": "`unsigned long long int` is not a Metal type",
    "if (x[0] < 0) throw 1; y[0] = 0;": "Metal has no exceptions: `throw`",
    "if (x[0] < 0) goto end; y[0] = 1; end: return;": "Metal has no `goto`",
    "struct S { virtual float f() { return 1; } }; y[0] = 0;": "Metal has no virtual functions",
    "auto p = dynamic_cast<thread float*>(&v); y[0] = 0;": "Metal has no `dynamic_cast`",
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
        "#if 0\ndouble d = 1;\n#else\nfloat d = 1;\n#endif\ny[0] = d;",
    ],
)
def test_silent(body: str) -> None:
    assert complaints(body) == []


@pytest.mark.parametrize(
    ("header", "reported"),
    [
        ("\n#include <vector>\n", ["Metal has no header `<vector>`"]),
        ("namespace std { float one() { return 1; } }\nfloat g() { return std::one(); }", []),
        ("struct A {};\nstruct B : A { float v; };\nfloat f() noexcept { return 1; }", []),
    ],
)
def test_headers(header: str, reported: list[str]) -> None:
    found = complaints(INDEX + " y[i] = x[i];", header)
    assert len(found) == len(reported)
    assert all(text in message for text, message in zip(reported, found, strict=True))


@pytest.mark.parametrize(
    ("body", "header", "expected"),
    [
        ("device float total = 0; y[0] = total;", "", CODE),
        ("if (x[0] > 0) { device uint n[4] = {0, 0, 0, 0}; y[0] = n[0]; }", "", CODE),
        ("y[0] = f();", "inline float f() { device float v = 1; return v; }", CODE),
        ("threadgroup atomic_float t; y[0] = 1;", "", "KERNEL-ATOMIC-001"),
        ("threadgroup metal::atomic<float> t[4]; y[0] = 1;", "", "KERNEL-ATOMIC-001"),
        ("device float* p = y; const device float& q = x[0]; p[0] = q;", "", None),
    ],
)
def test_variables_in_the_wrong_memory(body: str, header: str, expected: str | None) -> None:
    found = findings(kernel(body, header), (CODE, "KERNEL-ATOMIC-001"))
    assert [finding.code for finding in found] == ([] if expected is None else [expected])
