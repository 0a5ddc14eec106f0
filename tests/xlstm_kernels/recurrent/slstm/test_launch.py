"""What the kernel reads and writes, what MLX may transform, and what is refused."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.recurrent.slstm.inputs import Inputs
from xlstm_kernels.recurrent.slstm import sequence_kernel
from xlstm_kernels.recurrent.slstm.sequence import slstm, slstm_step

# --- memory ------------------------------------------------------------------------------------


def test_transposed_inputs(device, draw, draw_inputs, expect, check):
    """As a projection to (B, T, N, 4, D) gives them, time reversed, every other unit."""
    wx = draw((2, 6, 3, 4, 10), mx.float32).transpose(0, 1, 3, 2, 4)[:, ::-1, :, :, ::2]
    _, r, b = draw_inputs((2, 6, 3, 5))
    inputs = Inputs(wx, r.swapaxes(-1, -2), b.transpose(1, 0, 2).transpose(1, 0, 2))
    initial = draw((2, 3, 5, 4), mx.float32).transpose(3, 0, 1, 2) + mx.array(2.0)
    mask = draw((6, 2), mx.float32).T > 0
    results = slstm(*inputs, initial, mask=mask, backend=device)
    check(results, expect(inputs, initial, mask))


@pytest.mark.parametrize(
    ("units", "padded", "resident"),
    [(5, 8, 8), (33, 64, 64), (64, 64, 64), (70, 96, 32), (400, 512, 0)],
)
def test_nothing_is_read_twice(units, padded, resident, simulator, draw):
    """No copy of a transposed input is made; only rows of R that fit no register are reread."""
    batch, steps, heads = 2, 3, 2
    wx = draw((batch, steps, heads, 4, units), mx.float32).transpose(0, 1, 3, 2, 4)
    r, b = draw((4, heads, units, units), mx.float32, 0.1), draw((4, heads, units), mx.float32)
    mx.eval(slstm(wx, r, b, draw((4, batch, heads, units), mx.float32)))
    (launch,) = simulator.launches
    read = {name: traffic.read for name, traffic in launch.traffic.items()}
    one_state = 4 * batch * heads * units
    assert read["gate_input"] == 4 * steps * one_state
    assert read["initial"] == 4 * one_state
    assert read["bias"] == 4 * one_state  # once for each sequence
    rows = resident + steps * (padded - resident)
    assert read["recurrent"] == 16 * batch * heads * padded * rows
    written = sum(traffic.written for traffic in launch.traffic.values())
    assert written == 4 * (steps + 1) * one_state


def test_strided_input_arrives_as_it_lies(generate, draw_inputs):
    wx, r, b = draw_inputs((2, 3, 2, 5))
    inputs = [wx, r, b, mx.zeros((4, 2, 2, 5))]
    kernel = sequence_kernel.KERNELS[0]
    assert not kernel.contiguous_inputs
    generated = generate(kernel, inputs, kernel.launch(*inputs, threads=256))
    assert any("gate_input_strides" in line for line in generated.signature)


# --- transformations ---------------------------------------------------------------------------


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["lstm", "gru", "", None])
def test_rejects_other_functions(function, draw_inputs):
    with pytest.raises(ValueError, match='slstm: function must be "slstm", got'):
        slstm(*draw_inputs((1, 1, 1, 2)), function=function)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 3, 2, 5), (2, 3, 2, 4, 5)], ids=str)
def test_rejects_wx(shape):
    with pytest.raises(ValueError, match=r"slstm: Wx must be \(B, T, 4, N, D\)"):
        slstm(mx.zeros(shape), mx.zeros((4, 2, 5, 5)), mx.zeros((4, 2, 5)))


def test_rejects_wx_of_a_step():
    with pytest.raises(ValueError, match=r"slstm_step: Wx_t must be \(B, 4, N, D\), got"):
        slstm_step(mx.zeros((2, 1, 4, 2, 5)), mx.zeros((4, 2, 5, 5)), mx.zeros((4, 2, 5)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"R": (4, 2, 5, 4)}, r"R must have shape \(4, 2, 5, 5\), \(4, N, D, D\); got"),
        ({"R": (2, 4, 5, 5)}, r"R must have shape \(4, 2, 5, 5\)"),
        ({"b": (4, 10)}, r"b must have shape \(4, 2, 5\), \(4, N, D\); got \(4, 10\)"),
        ({"states": (4, 3, 1, 2, 4)}, r"states must be \(4, B, 1, N, D\) = \(4, 3, 1, 2, 5\)"),
        ({"states": (4, 1, 3, 2, 5)}, r"states must be .* or \(4, B, N, D\) = \(4, 3, 2, 5\), got"),
        ({"mask": (3,)}, r"mask must have shape \(3, 7\), \(B, T\); got \(3,\)"),
    ],
    ids=str,
)
def test_rejects_shapes(changed, message):
    shapes = {"Wx": (3, 7, 4, 2, 5), "R": (4, 2, 5, 5), "b": (4, 2, 5)} | changed
    arrays = {
        name: mx.zeros(shape, dtype=mx.bool_ if name == "mask" else mx.float32)
        for name, shape in shapes.items()
    }
    with pytest.raises(ValueError, match="slstm: " + message):
        slstm(**arrays)


@pytest.mark.parametrize("name", ["Wx", "R", "b", "states"])
def test_rejects_dtypes(name, draw_inputs):
    arrays = dict(zip(("Wx", "R", "b"), draw_inputs((1, 2, 1, 3)), strict=True))
    arrays["states"] = mx.zeros((4, 1, 1, 3))
    arrays[name] = arrays[name].astype(mx.int32)
    with pytest.raises(TypeError, match=f"slstm: {name} must be float32, float16 or bfloat16"):
        slstm(**arrays)
    arrays[name] = np.zeros(arrays[name].shape, np.float32)
    with pytest.raises(TypeError, match=f"slstm: {name} must be an mlx.core.array, got ndarray"):
        slstm(**arrays)


@pytest.mark.parametrize(
    ("mask", "kind"), [(mx.ones((1, 2)), "float32"), ([[True, True]], "list")], ids=str
)
def test_rejects_masks(mask, kind, draw_inputs):
    with pytest.raises(TypeError, match=f"slstm: mask must be an array of booleans, got.*{kind}"):
        slstm(*draw_inputs((1, 2, 1, 3)), mask=mask)


def test_rejects_backends(draw_inputs):
    with pytest.raises(ValueError, match="unknown backend 'opencl'"):
        slstm(*draw_inputs((1, 2, 1, 3)), backend="opencl")
    with pytest.raises(ValueError, match="unknown backend 'opencl'"):
        slstm(*draw_inputs((1, 0, 1, 3)), backend="opencl")


def test_more_units_than_a_kernel_holds(simulator):
    wx, b = mx.zeros((0, 1, 4, 1, 4097)), mx.zeros((4, 1, 4097))
    r = mx.broadcast_to(mx.zeros((1,)), (4, 1, 4097, 4097))
    with pytest.raises(ValueError, match="at most 4096 units a head, got 4097; use backend='nat"):
        slstm(wx, r, b)
    assert simulator.launches == []
