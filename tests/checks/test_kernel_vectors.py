"""KERNEL-INDEX-003: one element in all components of a vector."""

from __future__ import annotations

import pytest

from tests.checks.findings import messages

CODE = "KERNEL-INDEX-003"


def reported(body: str, header: str = "", before: str = "") -> list[str]:
    program = (
        "from texts import TEXT\n"
        f'K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
        f'    header="""{header}""", source={before}"""{body}""")\n'
    )
    return messages(program, CODE)


@pytest.mark.parametrize(
    ("body", "is_reported"),
    [
        ("float2 v = x[0]; y[0] = v.x + v.y;", True),
        ("const half4 v = x[0], w = x[1]; y[0] = fma(v.r, v.g, w.x);", True),
        ("metal::vec<float, 4> v = x[0]; y[0] = v.x + v.w;", True),
        ("float2 v = x[0]; y[0] = v.x + v.x;", False),
        ("float4 v = x[0]; y[0] = v.x + v.y + dot(v, v);", False),
        ("float4 v = x[0]; y[0] = v.x + v.y + v.zw.x;", False),
        ("float4 v = x[0]; v.y += 1; y[0] = v.x + v.y;", False),
        ("float4 v = x[0]; v.y++; y[0] = v.x + v.y;", False),
        ("float4 v = x[0]; thread float* p = (thread float*)&v; y[0] = v.x + v.y + *p;", False),
        ("float4 v[2] = {x[0], x[1]}; y[0] = v[0].x + v[0].y;", False),
        ("threadgroup float4 x4[2]; float4 v = x4[0]; y[0] = v.x + v.y;", False),
        ("#define PUT v.y = 1\nfloat4 v = x[0]; PUT; y[0] = v.x + v.y;", False),
        ("#if 0\nfloat4 v = x[0]; y[0] = v.x + v.y;\n#endif\n", False),
    ],
)
def test_vectors_of_one_element(body: str, is_reported: bool) -> None:
    assert bool(reported(body)) is is_reported


def test_pointers_of_helper_functions() -> None:
    header = "float f(device const TYPE* p) { float2 v = p[0]; return v.x * v.y; }"
    (message,) = reported("y[0] = f(x);", header.replace("TYPE", "float"))
    assert message.startswith("one element of `p` in all components of a `float2`")
    assert reported("y[0] = f(x);", header.replace("TYPE", "float2")) == []
    assert reported("y[0] = f(x);", "template <typename T> " + header.replace("TYPE", "T")) == []


def test_unknown_text_may_declare_the_array() -> None:
    assert reported("float2 v = x[0]; y[0] = v.x + v.y;", before="TEXT + ") == []
