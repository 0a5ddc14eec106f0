"""KERNEL-MEMORY: arrays that Metal refuses."""

from __future__ import annotations

import pytest

from tests.checks.findings import findings

ARRAY = "KERNEL-MEMORY-002"


def kernel(body: str, header: str = "", launch: str = "") -> str:
    return (
        'K = mx.fast.metal_kernel(name="k", input_names=["x", "n"], output_names=["y"],\n'
        f'    header="""{header}""", source="""{body}""")\n{launch}'
    )


def messages(body: str, header: str = "") -> list[str]:
    return [finding.message for finding in findings(kernel(body, header), ARRAY)]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("threadgroup float a[threads_per_threadgroup.x]; a[0] = 1;", "threads_per_threadgroup"),
        ("uint m = 4; threadgroup float a[m]; a[0] = 1;", "m"),
        ("float a[4][thread_execution_width]; a[0][0] = 1;", "thread_execution_width"),
        ("uint m = 4; const uint k = m * 2; float a[k + 1]; a[0] = 1;", "k"),
        ("const uint k = threads_per_grid.x; float a[k]; a[0] = 1;", "threads_per_grid"),
        ("for (int m = 1; m < 4; ++m) { float a[m]; a[0] = 1; }", "m"),
    ],
)
def test_variable_sizes(body: str, name: str) -> None:
    (message,) = messages(body)
    assert f"depends on `{name}`" in message


@pytest.mark.parametrize(
    "body",
    [
        "threadgroup float a[32]; a[0] = 1;",
        "constexpr uint m = 4; threadgroup float a[m * 2]; a[0] = 1;",
        "const int m = 4; const int k = m * 2; threadgroup float a[k]; a[0] = 1;",
        "static constant constexpr int m = 4; float a[m]; a[0] = 1;",
        "threadgroup float a[N * sizeof(T)]; a[0] = 1;",
        "#define WIDTH (4 * 8)\nthreadgroup float a[WIDTH]; a[0] = 1;",
        "uint m = 4; float a[sizeof(m)]; a[0] = 1;",
        "enum { WIDTH = 4 }; float a[WIDTH]; a[0] = 1;",
        "metal::integral_constant<int, 4> m; float a[m]; a[0] = 1;",
        "float a[] = {1, 2, 3}; y[0] = a[0];",
        "uint m = 4; float a[4]; a[m] = 1; threadgroup float* p = nullptr;",
        "uint m = 4; metal::array<float, 4> a; a[m] = 1;",
    ],
)
def test_constant_sizes(body: str) -> None:
    assert messages(body) == []


@pytest.mark.parametrize(
    "body", ["threadgroup float s = 0;", "threadgroup int a[2] = {1, 2};", "threadgroup float s{};"]
)
def test_initializers(body: str) -> None:
    (message,) = messages(body + " y[0] = 0;")
    assert "no variable can have an initializer" in message


@pytest.mark.parametrize(
    "body",
    [
        "threadgroup float a[4]; threadgroup float* p = a; p[0] = 1;",
        "threadgroup float a[4]; threadgroup float& f = a[0]; f = 1;",
        "float a[2] = {1, 2}; y[0] = a[0];",
    ],
)
def test_pointers_and_locals_may_have_initializers(body: str) -> None:
    assert messages(body) == []


def test_a_helper_has_no_threadgroup_memory() -> None:
    header = "float f(float v) {\n  threadgroup float a[4];\n  a[0] = v;\n  return a[0];\n}\n"
    (finding,) = findings(kernel("y[0] = f(x[0]);", header), ARRAY)
    assert "only kernel functions can have some" in finding.message
    assert (finding.line, finding.column) == (5, 21)


@pytest.mark.parametrize(
    "header",
    [
        "float f(threadgroup float* a) { return a[0]; }",
        "float f(threadgroup float* a) { threadgroup float* p = a + 1; return p[0]; }",
        "constant float a[4] = {1, 2, 3, 4};",
        "[[kernel]] void other(device float* a) { threadgroup float t[4]; t[0] = a[0]; }",
    ],
)
def test_headers_without_it(header: str) -> None:
    assert messages("y[0] = 0;", header) == []
