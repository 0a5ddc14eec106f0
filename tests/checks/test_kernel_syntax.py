"""KERNEL-SYNTAX: errors that nothing explains, and kernels that the parser does not understand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach.checks.programs.metal_findings import check_unit
from embercoach.metal.program.written_facts import read_body, read_unit
from embercoach.metal.syntax_errors import syntax_fault
from embercoach.metal.work_budget import WorkBudget
from tests.checks.findings import messages
from tests.checks.test_kernel_language import kernel

INDEX = "uint i = thread_position_in_grid.x;"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("uint i = thread_position_in_grid.x\ny[i] = x[i];", "expected `;` after `x`"),
        (f"{INDEX} y[i] = x[i]", "expected `;` after `]`"),
        (f"{INDEX} y[i] = x[i]\nfloat v = 1;", "expected `;` after `]`"),
        (f"{INDEX} float v = 1\nfloat w = 2;", "expected `;` after `1`"),
        (f"{INDEX} y[i] = exp(x[i])\nreturn;", "expected `;` after `)`"),
        (f"{INDEX} uint j = i\nuint k = i;", "expected `;` after `i`"),
        (f"{INDEX} if (i < 4) {{ y[i] = x[i] }}", "expected `;` after `]`"),
        (f"{INDEX} y[i] = x[i] +;", "expected an expression before `;`"),
        (f"{INDEX} y[i] = max(x[i], );", "expected an expression before `)`"),
        ("threadgroup float s[64;", "expected `]` before `;`"),
        (f"{INDEX} y[i] = exp(x[i];", "expected `)` before `;`"),
        (f"{INDEX} y[i] = exp(x[i]];", "`]` does not close `(` of line 1"),
        (f"{INDEX} if (i < 4) {{ y[i] = x[i];", "nothing closes `{`"),
        (f"{INDEX} y[i] = x[i]);", "`)` closes nothing"),
        (f"{INDEX} if (i < 4) y[i] = 1; }}", "`}` closes nothing"),
        ("this is not metal code", "expected `;` after `code`"),
    ],
)
def test_errors_that_nothing_explains(body: str, expected: str) -> None:
    assert messages(kernel(body), "KERNEL-SYNTAX") == [f"syntax error: {expected}"]


UNCHECKED = "kernel not checked: EmberCoach does not understand body line 1"


@pytest.mark.parametrize(
    ("body", "header", "expected"),
    [
        ("y[0] = max(x[0],\n#if A\nx[1]\n#else\nx[2]\n#endif\n);", "", []),
        ("this->operator half();", "", [UNCHECKED]),
        ("y[0] = 1; } void f() {", "", [UNCHECKED]),
        ("STORE(x[0]) STORE(x[1])", "\n#define STORE(v) y[0] = v;\n", []),
        ("y[0] = x[0] ADD x[1];", "\n#define ADD +\n", []),
        ("y[0] = x[0] plus x[1];", '\n#include "own.h"\n', [UNCHECKED]),
        ("BEGIN y[0] = x[0]; }", "\n#define BEGIN if (x[0] > 0) {\n", []),
        ("y[0] = x[0] and x[1]; auto f = [=] { return 1; }; float4 v = (float4){1, 2};", "", []),
    ],
)
def test_code_that_may_compile_is_no_error(body: str, header: str, expected: list[str]) -> None:
    assert messages(kernel(body, header), "KERNEL-SYNTAX") == expected


def test_unknown_parts_of_a_text_may_be_anything() -> None:
    program = 'def build(end): return mx.fast.metal_kernel(name="k", input_names=["x"],'
    program += ' output_names=["y"], source=f"y[0] = x[0] {end}")\n'
    assert messages(program, "KERNEL-SYNTAX") == []


FILE = "#include <metal_stdlib>\nusing namespace metal;\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{FILE}kernel void f(device float* y [[buffer(0)]] uint t) {{}}", "KERNEL-SYNTAX-001"),
        (
            f"{FILE}kernel void f(device float* y, uint t [[ thread_position_in_grid] ]) {{}}",
            "KERNEL-SYNTAX-002",
        ),
        (f"{FILE}#define MAKE(n) kernel void n() {{}}\nMAKE(f)\nMAKE(g)\n", None),
        ("kernel void f(device float* y [[buffer(0)]]) {\n y[0] = ;", "KERNEL-SYNTAX-001"),
        (
            f"{FILE}kernel void f(device float* y [[buffer(0)]]) {{ y[0] = !; }}",
            "KERNEL-SYNTAX-002",
        ),
    ],
)
def test_files(text: str, expected: str | None) -> None:
    found = [f.code for f in check_unit(text, WorkBudget()) if f.code.startswith("KERNEL-SYNTAX")]
    assert found == ([] if expected is None else [expected])


GOOD = """
    uint i = thread_position_in_grid.x;
    uint k = 0;
    while (++k < 4) {
        if (x[k] > 0 && i < 8) { y[i] += float4(x[k], 1, 2, 3).x; } else y[i] = -x[k];
    }
"""


@given(st.integers(0, GOOD.count(";") - 1))
def test_a_missing_semicolon_is_at_its_line(number: int) -> None:
    parts = GOOD.split(";")
    text = ";".join(parts[: number + 1]) + " " + ";".join(parts[number + 1 :])
    fault = syntax_fault(read_body(text))
    assert fault is not None
    assert abs(fault.place.line - (";".join(parts[: number + 1]).count("\n") + 1)) <= 1


@given(st.text("(){}[];,.+-=<>#\n ax1/*\"'\\", max_size=40))
def test_any_text_has_a_result(text: str) -> None:
    for read in (read_body(text), read_unit(text)):
        fault = syntax_fault(read)
        assert fault is None or text[fault.place.start : fault.place.end]
