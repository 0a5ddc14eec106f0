"""KERNEL-MEMORY: threadgroup memory that is too large, and arrays that Metal refuses."""

from __future__ import annotations

import pytest

from tests.checks.findings import findings, messages

TOO_MUCH = "KERNEL-MEMORY-001"
ARRAY = "KERNEL-MEMORY-002"


def kernel(body: str, header: str = "", launch: str = "") -> str:
    return (
        'K = mx.fast.metal_kernel(name="k", input_names=["x", "n"], output_names=["y"],\n'
        f'    header="""{header}""", source="""{body}""")\n{launch}'
    )


def refused(body: str, header: str = "") -> list[str]:
    return messages(kernel(body, header), ARRAY)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("uint m = 4; threadgroup float a[m]; a[0] = 1;", "m"),
        ("float a[4][thread_execution_width]; a[0][0] = 1;", "thread_execution_width"),
        ("uint m = 4; const uint k = m * 2; float a[k + 1]; a[0] = 1;", "k"),
        ("const uint k = threads_per_grid.x; float a[k]; a[0] = 1;", "threads_per_grid"),
        ("for (int m = 1; m < 4; ++m) { float a[m]; a[0] = 1; }", "m"),
    ],
)
def test_variable_sizes(body: str, name: str) -> None:
    (message,) = refused(body)
    assert f"depends on run-time value `{name}`" in message


@pytest.mark.parametrize(
    "body",
    [
        "const int m = 4; const int k = m * 2; threadgroup float a[k]; a[0] = 1;",
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
    assert refused(body) == []


@pytest.mark.parametrize(
    "body", ["threadgroup float s = 0;", "threadgroup int a[2] = {1, 2};", "threadgroup float s{};"]
)
def test_initializers(body: str) -> None:
    (message,) = refused(body + " y[0] = 0;")
    assert "can't have an initializer" in message


@pytest.mark.parametrize(
    "body",
    [
        "threadgroup float a[4]; threadgroup float& f = a[0]; f = 1;",
    ],
)
def test_pointers_and_locals_may_have_initializers(body: str) -> None:
    assert refused(body) == []


def test_a_helper_has_no_threadgroup_memory() -> None:
    header = "float f(float v) {\n  threadgroup float a[4];\n  a[0] = v;\n  return a[0];\n}\n"
    (finding,) = findings(kernel("y[0] = f(x[0]);", header), ARRAY)
    assert "which is not a kernel" in finding.message
    assert (finding.line, finding.column) == (5, 21)


LAUNCH = """
def launch(x):
    return K(inputs=[x, 4], template=[{}], grid=(32, 1, 1), threadgroup=(32, 1, 1),
             output_shapes=[x.shape], output_dtypes=[x.dtype])[0]
"""


def too_much(body: str, template: str = "", header: str = "") -> list[str]:
    return messages(kernel(body, header, LAUNCH.format(template)), TOO_MUCH)


@pytest.mark.parametrize(
    ("body", "template", "bytes_taken"),
    [
        ("threadgroup float a[8193]; y[0] = a[0];", "", "32,772"),
        ("threadgroup float a[64][129]; y[0] = a[0][0];", "", "33,024"),
        ("threadgroup float3 a[2049]; y[0] = a[0].x;", "", "32,784"),
        ("threadgroup float a[N * 64]; y[0] = a[0];", '("N", 256)', "65,536"),
        ("threadgroup T a[16384]; y[0] = a[0];", '("T", mx.float32)', "65,536"),
        ("constexpr int W = 128; threadgroup float a[W][W]; y[0] = a[0][0];", "", "65,536"),
    ],
)  # fmt: skip
def test_more_than_there_is(body: str, template: str, bytes_taken: str) -> None:
    (message,) = too_much(body, template)
    assert f"{bytes_taken} bytes" in message


def test_the_template_of_the_launch_is_told() -> None:
    (message,) = too_much("threadgroup float a[N]; y[0] = a[0];", '("N", 10000)')
    assert "(N = 10000)" in message
