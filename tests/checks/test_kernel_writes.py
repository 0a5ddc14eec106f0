"""KERNEL-WRITE: what writes to an input, and what only looks like it."""

from __future__ import annotations

import pytest

from tests.checks.findings import findings, launched, messages

CODE = "KERNEL-WRITE-001"
HEADER = """
void fill(device float* p) { p[0] = 1; }
void show(const device float* p) {}
template <typename T> void any(device T* p) {}
template <typename T> void put(device T* p) { *p = 1; }
"""


def complaints(body: str) -> list[str]:
    program = launched(body, inputs='"x", "eps"', passed="x, 0.5", header=HEADER)
    return messages(program, CODE)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("x[0] = 1;", "this writes to it:"),
        ("x[0] += 1; x[1]++;", "this writes to it (the first of 2 such places):"),
        ("*x = 1;", "this writes to it:"),
        ("eps = 1;", "`eps` is an input, and this writes to it:"),
        ("x_shape[0] = 1;", "`x_shape` is passed beside an input"),
        ("device float* p = x + 4; y[0] = p[0];", "the pointer `p` may write to it"),
        ("const device float* p = x; p[1] = 2;", "through `p`:"),
        ("auto p = x + 1; p[0] = 2;", "through `p`:"),
        ("auto p = x; auto q = p + 1; q[0] = 2;", "through `q`:"),
        ("const device float& e = x[1]; e = 2;", "through `e`:"),
        ("auto p = (device float*)x; p[0] = 2;", "changes an array that others may hold"),
        ("((device float4*)x)[0] = 1;", "changes an array that others may hold"),
        (
            "atomic_fetch_add_explicit((device atomic_int*)x, 1, memory_order_relaxed);",
            "`atomic_fetch_add_explicit` writes to it",
        ),
        ("fill(x);", "`fill` writes to it"),
        ("put(x);", "`put` writes to it"),
        ("fill(&x[2]);", "`fill` writes to it"),
    ],
)
def test_flagged(body: str, told: str) -> None:
    (message,) = complaints(body)
    assert told in message


@pytest.mark.parametrize(
    "body",
    [
        "y[0] = x[0]; y[1] += x[1];",
        "x += 4; y[0] = x[0];",
        "const device float* p = x; p += 1; p = x; y[0] = p[0];",
        "device const float* p = x; y[0] = *p;",
        "{ float x[3]; x[0] = 1; y[0] = x[0]; }",
        "float v = x[0]; v += 1; y[0] = v;",
        "auto v = x[0]; v += 1; y[0] = v;",
        "device float* p = y; p[0] = x[0];",
        "show(x); any(x);",
        "atomic_load_explicit((device atomic_int*)x, memory_order_relaxed);",
        "auto p = x; p = y; p[0] = 1;",
        "const device float4* p = (const device float4*)x; y[0] = p[0].x;",
    ],
)
def test_silent(body: str) -> None:
    assert complaints(body) == []


def test_a_scalar_of_unknown_rank_may_be_a_pointer_that_is_moved() -> None:
    program = (
        'K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
        '    source="x = x + 1; y[0] = x[0];")\n'
    )
    assert findings(program, CODE) == []
