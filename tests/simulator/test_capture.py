"""What MLX generates for a launch, and the memory that stands behind it."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embercoach.simulator.model import Limits, SimulatorError
from embercoach.simulator.rewrite.translation import read_layout
from embercoach.simulator.session.launching import buffers, capture, to_array
from embercoach.simulator.session.record import CapturedDefinition

BODY = "uint i = thread_position_in_grid.x;\no[i] = a[i] + a_shape[0] + a_strides[0] + a_ndim;"
ALL_DTYPES = [
    mx.bool_, mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.int8, mx.int16, mx.int32, mx.int64,
    mx.float16, mx.bfloat16, mx.float32, mx.complex64,
]  # fmt: skip


def kernel(body=BODY, inputs=("a",), outputs=("o",), header="", **options):
    real = mx.fast.metal_kernel(
        name="twice",
        input_names=inputs,
        output_names=outputs,
        source=body,
        header=header,
        **options,
    )
    return real, CapturedDefinition("twice", tuple(inputs), tuple(outputs), body, header)


def capture_call(built, **arguments):
    defaults = {
        "grid": (8, 1, 1),
        "threadgroup": (4, 1, 1),
        "output_shapes": [(8,)],
        "output_dtypes": [mx.float32],
    }
    return capture(*built, (), {**defaults, **arguments})


def bound(captured, init_value=None, limits=None):
    return {b.name: b for b in buffers(captured, init_value, limits or Limits())}


def element(buffer, index, dtype):
    start = buffer.offset + index * buffer.itemsize
    return buffer.data[start : start + buffer.itemsize].view(dtype)[0]


def test_the_text_and_the_geometry_are_mlx_own():
    captured = capture_call(kernel(), inputs=[mx.zeros((4, 3))], grid=(9, 2, 1))
    assert captured.source.startswith("[[kernel]] void custom_kernel_twice_float_float(\n")
    assert "const device float* a [[buffer(0)]]" in captured.source
    assert "const constant int64_t* a_strides [[buffer(2)]]" in captured.source
    assert captured.function == "custom_kernel_twice_float_float"
    assert (captured.grid, captured.threadgroup) == ((9, 2, 1), (4, 1, 1))
    assert captured.infos == ((True, True, True),)
    assert captured.output_shapes == ((8,),)
    assert captured.output_dtypes == (mx.float32,)
    assert captured.math_mode == "safe"


@pytest.mark.parametrize("mode", ["safe", "relaxed", "fast"])
def test_math_mode(mode):
    built = kernel(compile_options={"math_mode": mode})
    assert capture_call(built, inputs=[mx.zeros((4,))]).math_mode == mode


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"inputs": []}, ValueError, "Expected `inputs` to have size 1 but got size 0"),
        ({"output_shapes": []}, ValueError, "Expected `output_shapes` to have size 1"),
        ({"output_dtypes": [mx.float64]}, ValueError, "float64 is not supported on the GPU"),
        ({"grid": (8, 1)}, TypeError, "incompatible function arguments"),
        ({"stream": mx.cpu}, ValueError, "Only supports the GPU"),
    ],
)
def test_wrong_arguments_raise_what_mlx_raises(change, error, message):
    with pytest.raises(error, match=message) as caught:
        capture_call(kernel(), **{"inputs": [mx.zeros((8,))], **change})
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("value", "dtype", "declared"),
    [
        (3, np.int32, "int32_t"),
        (2**40, np.int64, "int64_t"),
        (0.5, np.float32, "float"),
        (True, np.bool_, "bool"),
        (1j, np.complex64, "complex64_t"),
        (np.float32(0.25), np.float32, "float"),
    ],
)
def test_scalars_are_bound_by_reference(value, dtype, declared):
    captured = capture_call(kernel("o[0] = a;"), inputs=[value])
    assert f"const constant {declared}& a [[buffer(0)]]" in captured.source
    assert element(bound(captured)["a"], 0, dtype) == value


def test_arrays_scalars_and_numpy_mix_in_order():
    built = kernel("o[0] = a[0] + b + c[0] + d[0];", ("a", "b", "c", "d"))
    array = mx.arange(4, dtype=mx.float32)
    captured = capture_call(built, inputs=[array, 7, np.array([5.0, 6.0], np.float32), array])
    memory = bound(captured)
    assert [b.index for b in memory.values()] == [0, 1, 2, 3, 4]
    assert element(memory["b"], 0, np.int32) == 7
    assert memory["c"].data.view(np.float32).tolist() == [5.0, 6.0]
    assert memory["a"].data.view(np.float32).tolist() == [0, 1, 2, 3]
    assert memory["d"].data.tolist() == memory["a"].data.tolist()


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (2, 0)], ids=str)
def test_every_dtype_and_shape_goes_there_and_back(dtype, shape):
    array = mx.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(dtype)
    captured = capture_call(kernel("o[0] = 1;"), inputs=[array])
    data = bound(captured)["a"].data
    assert data.dtype == np.uint8
    assert data.size == array.nbytes
    back = to_array(data, shape, dtype)
    assert back.dtype == dtype
    assert back.shape == shape
    assert mx.array_equal(back, array)


def test_double_inputs_are_refused():
    with mx.stream(mx.cpu):
        array = mx.zeros((8,), dtype=mx.float64)
    with pytest.raises((SimulatorError, ValueError), match="float64"):
        bound(capture_call(kernel("o[0] = 1;"), inputs=[array]))


def test_rows_are_made_contiguous_with_the_strides_of_the_copy():
    array = mx.arange(12, dtype=mx.int32).reshape(3, 4).T
    memory = bound(capture_call(kernel(), inputs=[array]))
    assert memory["a"].data.view(np.int32).tolist() == array.flatten().tolist()
    assert memory["a_shape"].data.view(np.int32).tolist() == [4, 3]
    assert memory["a_strides"].data.view(np.int64).tolist() == [3, 1]
    assert memory["a_ndim"].data.view(np.int32).tolist() == [2]
    assert {b.role for name, b in memory.items() if name.startswith("a_")} == {"info"}
    numbered = {"a": 0, "a_shape": 1, "a_strides": 2, "a_ndim": 3, "o": 4}
    assert {name: b.index for name, b in memory.items()} == numbered


def read_by_strides(memory, dtype, shape):
    """The elements as a kernel reaches them, through the strides that it is given."""
    if "a_strides" not in memory:
        strides = ()
        assert shape == ()
    else:
        strides = memory["a_strides"].data.view(np.int64)
        assert memory["a_shape"].data.view(np.int32).tolist() == list(shape)
    values = np.empty(shape, dtype)
    for index in np.ndindex(*shape):
        place = sum(int(i) * int(s) for i, s in zip(index, strides, strict=True))
        values[index] = element(memory["a"], place, dtype)
    return values


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(-3, 3).filter(bool), st.booleans()),
        min_size=1,
        max_size=3,
    ),
    st.randoms(),
)
@settings(max_examples=60)
def test_any_view_is_read_through_its_strides(axes, random):
    shape = [extent * 2 for extent, _, _ in axes]
    array = mx.arange(int(np.prod(shape)), dtype=mx.int32).reshape(shape)
    array = array[tuple(slice(None, None, step) for _, step, _ in axes)]
    order = list(range(len(axes)))
    random.shuffle(order)
    array = array.transpose(order)
    for axis, (_, _, spread) in enumerate(axes):
        if spread:
            first = mx.take(array, mx.array([0]), axis=axis)
            array = mx.broadcast_to(first, array.shape)
    memory = bound(capture_call(kernel(ensure_row_contiguous=False), inputs=[array]))
    assert (read_by_strides(memory, np.int32, array.shape) == np.array(array)).all()


def test_no_memory_but_the_elements_reach_is_bound():
    array = mx.arange(24, dtype=mx.int32).reshape(4, 6)[1:3, 2:4]
    buffer = bound(capture_call(kernel(ensure_row_contiguous=False), inputs=[array]))["a"]
    assert buffer.offset == 0
    assert buffer.data.view(np.int32).tolist() == list(range(8, 16))


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_outputs_begin_with_the_initial_value(dtype):
    built = kernel("o[0] = a[0];")
    captured = capture_call(built, inputs=[mx.zeros((8,))], output_dtypes=[dtype], init_value=1.0)
    output = bound(captured, 1.0)["o"]
    assert output.initialized
    assert mx.array_equal(to_array(output.data, (8,), dtype), mx.ones((8,), dtype=dtype))
    bare = bound(captured)["o"]
    assert not bare.initialized
    assert (bare.role, bare.data.size, bare.itemsize) == ("output", 8 * dtype.size, dtype.size)


def test_more_memory_than_allowed_is_refused_before_it_is_taken():
    captured = capture_call(kernel(), inputs=[mx.zeros((8,))], output_shapes=[(2**17, 2**17)])
    with pytest.raises(SimulatorError, match=r"68,719,476,768 bytes.*the limit is"):
        bound(captured)
    negative = capture_call(kernel(), inputs=[mx.zeros((8,))], output_shapes=[(-1,)])
    with pytest.raises(SimulatorError, match="negative extent"):
        bound(negative)


@pytest.mark.parametrize("template", [None, [("T", mx.float32), ("N", 3), ("B", True)]])
@pytest.mark.parametrize("body", ["", "o[0] = 1;", "\n  o[0] = 1;\n\n  o[1] = 2;\n", "}\n{\n}\n"])
@pytest.mark.parametrize("header", ["", "\n", "// one\n", "// one\n// two\n", "int f();"])
def test_lines_of_the_text_are_those_of_header_and_body(template, body, header):
    built = kernel(body, header=header)
    captured = capture_call(built, inputs=[mx.zeros((8,))], template=template)
    lines, text = read_layout(captured.source, body, header).lines, captured.source.split("\n")
    assert lines.body_lines == len(body.split("\n"))
    for number, line in enumerate(body.split("\n"), 1):
        generated = lines.body_start + number - 1
        assert text[generated - 1] == line
        assert lines.place(generated) == ("body", number)
    last = header.count("\n") + (header != "" and not header.endswith("\n"))
    assert lines.header_lines == last
    if last:
        assert lines.place(last) == ("header", last)
    assert lines.place(last + 1)[0] == "generated"
