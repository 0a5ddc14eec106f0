"""KERNEL-WRITE and KERNEL-BOUNDS-001 of inputs: writes to an input, and reads past its end."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, findings, launched, messages

CODE = "KERNEL-WRITE-001"
HEADER = """
#define WRITABLE device float*
#define READABLE const device float*
void fill(device float* p) { p[0] = 1; }
void show(const device float* p) {}
template <typename T> void any(device T* p) {}
template <typename T> void put(device T* p) { *p = 1; }
"""


def complaints(body: str) -> list[str]:
    program = launched(body, inputs='"x", "eps"', passed="x, 0.5", header=HEADER)
    return messages(program, CODE)


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("eps = 1;", "write to input `eps`"),
        ("device float* p = x + 4; y[0] = p[0];", "writable pointer `p` to input `x`"),
        ("WRITABLE p = x; y[0] = p[0];", "writable pointer `p` to input `x`"),
        ("const device float* p = x; p[1] = 2;", "through `p`"),
        ("auto p = x; auto q = p + 1; q[0] = 2;", "through `q`"),
        ("const device float& e = x[1]; e = 2;", "through `e`"),
        ("auto p = (device float*)x; p[0] = 2;", "a cast may drop its `const`"),
        ("((device float4*)x)[0] = 1;", "a cast may drop its `const`"),
        ("fill(x);", "by `fill`"),
        ("put(x);", "by `put`"),
    ],
)
def test_flagged(body: str, reported: str) -> None:
    (message,) = complaints(body)
    assert reported in message


@pytest.mark.parametrize(
    "body",
    [
        "x += 4; y[0] = x[0];",
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


PROGRAM = """
def launch(x: mx.array):
    kernel = mx.fast.metal_kernel(
        name="k", input_names=["x"], output_names=["y"],
        source="uint i = thread_position_in_grid.x; {body}",
    )
    return kernel(
        inputs=[x], grid=({threads}, 1, 1), threadgroup=(256, 1, 1),
        output_shapes=[(1000,)], output_dtypes=[mx.float32],
    )

launch(mx.ones({shape}))
"""


@pytest.mark.parametrize(
    ("body", "shape", "threads", "reported"),
    [
        ("y[i] = x[i] + x[i + 1];", "(1000,)", 1000, True),
        ("y[i] = x[i * 2];", "(10, 100)", 1000, True),
        ("float4 v = ((const device float4*)x)[i]; y[i] = v.x;", "(1000,)", 1000, True),
    ],
)
def test_reads_of_inputs(body: str, shape: str, threads: int | str, reported: bool) -> None:
    program = PROGRAM.format(body=body, shape=shape, threads=threads)
    assert codes(f"n = unknown()\n{program}", "KERNEL-BOUNDS") == ["KERNEL-BOUNDS-001"] * reported


@pytest.mark.parametrize(
    ("function", "found"),
    [
        ("void f(const device float* x) { x[0] = 1; }", ["KERNEL-WRITE-002"]),
        ("void f(constant float& x) { x = 1; }", ["KERNEL-WRITE-002"]),
        ("template <typename T> void f(device const T* x) { x[1] += 1; }", ["KERNEL-WRITE-002"]),
        ("void f(const device float* x) { x += 1; x = x + 1; }", []),
        ("void f(const device float* x) { ((device float*)x)[0] = 1; }", []),
        ("struct A { device float* y; }; void f(constant A& a) { a.y[0] = 1; }", []),
    ],
)
def test_writes_to_constant_parameters_of_functions(function: str, found: list[str]) -> None:
    program = launched("y[0] = 1;", header=function)
    assert codes(program, "KERNEL-WRITE-002") == found
