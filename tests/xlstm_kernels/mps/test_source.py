"""The text for `torch.mps.compile_shader`. Needs neither PyTorch nor Metal.

`test_linted.py` compares the parameters of all kernels with those that MLX writes.
"""

from __future__ import annotations

import importlib
import struct
import sys

import mlx.core as mx
import pytest

from embercoach.checks import check_metal
from tests.xlstm_kernels.mps.shaders import built, parts_of
from xlstm_kernels.activation.soft_cap import FORWARD
from xlstm_kernels.executors.mps_source import (
    Argument,
    ArrayMetadata,
    MpsSource,
    mps_source,
    packed_integers,
)
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.norm.rows import norm_kernel

SCALAR = ArrayMetadata((), mx.float32)


def text_of(kernel: Kernel, *inputs: ArrayMetadata) -> MpsSource:
    return mps_source(kernel, inputs, kernel.launch(*inputs))


def test_a_text_has_prelude_header_template_signature_body_and_instance() -> None:
    kernel = Kernel(
        name="scaled",
        inputs=("x", "by"),
        outputs=("y",),
        header="constant float one = 1.0f;\n",
        body="    // x_ndim\n    y[thread_position_in_grid.x] = T(x[0] * by * x_shape[0]);",
        launch=lambda x, _: Launch((8, 1, 1), (8, 1, 1), (x.shape,), (x.dtype,), (("T", x.dtype),)),
    )
    source = text_of(kernel, ArrayMetadata((2, 1), mx.float16), SCALAR)
    assert source.text == (
        "#include <metal_stdlib>\n"
        "using namespace metal;\n"
        "typedef half float16_t;\n"
        "typedef bfloat bfloat16_t;\n"
        "constant float one = 1.0f;\n"
        "\n"
        "template <typename T>\n"
        "[[kernel]] void scaled(\n"
        "  const device float16_t* x [[buffer(0)]],\n"
        "  const constant int* x_shape [[buffer(1)]],\n"
        "  const constant float& by [[buffer(2)]],\n"
        "  device float16_t* y [[buffer(3)]],\n"
        "  uint3 thread_position_in_grid [[thread_position_in_grid]]) {\n"
        f"{kernel.body}\n"
        "}\n"
        "\n"
        'template [[host_name("scaled")]] [[kernel]] '
        "decltype(scaled<float16_t>) scaled<float16_t>;\n"
    )
    assert source.arguments == (
        Argument("input", 0),
        Argument("shape", 0),
        Argument("input", 1),
        Argument("output", 0),
    )
    assert parts_of(source.text) == (source.prelude, "scaled", kernel.body)


def test_template_arguments_are_types_numbers_and_booleans() -> None:
    template = (("T", mx.bfloat16), ("COUNT", 3), ("HELD", True), ("Index", mx.int64))
    kernel = Kernel(
        name="empty",
        inputs=(),
        outputs=("y",),
        body="",
        launch=lambda: Launch((1, 1, 1), (1, 1, 1), ((1,),), (mx.float32,), template),
    )
    text = text_of(kernel).text
    assert "template <typename T, int COUNT, bool HELD, typename Index>\n" in text
    assert "decltype(empty<bfloat16_t, 3, 1, int64_t>) empty<bfloat16_t, 3, 1, int64_t>;" in text


def test_without_template_arguments_there_is_no_template() -> None:
    kernel = Kernel(
        name="plain",
        inputs=(),
        outputs=("y",),
        body="y[0] = 1.0f;",
        launch=lambda: Launch((1, 1, 1), (1, 1, 1), ((1,),), (mx.float32,)),
    )
    text = text_of(kernel).text
    assert "template" not in text
    assert text.endswith(") {\ny[0] = 1.0f;\n}\n")


def test_a_dtype_that_pytorch_lacks_is_an_error() -> None:
    with pytest.raises(KeyError, match="complex64"):
        text_of(FORWARD, ArrayMetadata((2, 3), mx.complex64), SCALAR)


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4)])
def test_shapes_have_the_bytes_of_int32(shape) -> None:
    words = packed_integers(shape)
    data = struct.pack(f"<{len(words)}q", *words)
    assert struct.unpack_from(f"<{len(shape)}i", data) == shape


@pytest.mark.parametrize("dtype", [mx.bfloat16], ids=str)
def test_texts_compile_and_have_no_findings(dtype) -> None:
    x = ArrayMetadata((1, 3, 1, 40), dtype)
    texts = [
        text_of(FORWARD, ArrayMetadata((3, 5), dtype), SCALAR).text,
        text_of(norm_kernel(("weight",)), x, SCALAR, ArrayMetadata((40,), dtype)).text,
    ]
    for text in texts:
        assert check_metal(text).findings == ()
        assert built(text, checks=False).name == parts_of(text).name


def test_without_pytorch_the_package_names_the_extra(monkeypatch) -> None:
    for name in [name for name in sys.modules if name.startswith("xlstm_kernels.mps")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs PyTorch.*embercoach\[torch\]"):
        importlib.import_module("xlstm_kernels.mps")
