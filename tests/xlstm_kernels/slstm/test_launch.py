"""What the kernel reads and writes, what MLX may transform, and what is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.slstm import oracle
from tests.xlstm_kernels.slstm.inputs import Inputs
from xlstm_kernels.slstm import sequence
from xlstm_kernels.slstm.sequence import slstm, slstm_step

if TYPE_CHECKING:
    from collections.abc import Callable

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
    ("units", "streamed"), [(5, False), (33, False), (64, False), (70, True), (400, True)]
)
def test_nothing_is_read_twice(units, streamed, simulator, draw):
    """Not even a copy of a transposed input is made; only weights that fit nowhere are reread."""
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
    assert read["recurrent"] == 4 * one_state * units * (steps if streamed else 1)
    written = sum(traffic.written for traffic in launch.traffic.values())
    assert written == 4 * (steps + 1) * one_state


def test_strided_input_arrives_as_it_lies(generate, draw_inputs):
    wx, r, b = draw_inputs((2, 3, 2, 5))
    inputs = [wx, r, b, mx.zeros((4, 2, 2, 5))]
    kernel = sequence._KERNELS[0]
    assert not kernel.contiguous_inputs
    generated = generate(kernel, inputs, kernel.launch(*inputs))
    assert any("gate_input_strides" in line for line in generated.signature)


# --- transformations ---------------------------------------------------------------------------


def loss_of(backend, weights, mask=None):
    def loss(wx, r, b, initial):
        states, last = slstm(wx, r, b, initial, mask=mask, backend=backend)
        return mx.sum(states * weights[0]) + mx.sum(last * weights[1])

    return loss


def slopes(function: Callable[..., float], arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Central differences in every element."""
    step, gradients = 1e-6, []
    for array in arrays:
        gradient = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            value = array[index]
            array[index] = value + step
            ahead = function(*arrays)
            array[index] = value - step
            gradient[index] = (ahead - function(*arrays)) / (2 * step)
            array[index] = value
        gradients.append(gradient)
    return gradients


@pytest.mark.parametrize("masked", [False, True])
def test_gradient(masked, device, draw, draw_inputs, draw_states, wide, relative_error):
    inputs, initial = draw_inputs((2, 3, 2, 3)), draw_states((2, 2, 3))
    mask = mx.array([[True, False, True], [True, True, False]]) if masked else None
    weights = draw((4, 2, 3, 2, 3), mx.float32), draw((4, 2, 1, 2, 3), mx.float32)

    def exact(wx, r, b, initial):
        result = oracle.slstm(wx, r, b, initial, None if mask is None else np.array(mask))
        in_states = (result.states * wide(weights[0])).sum()
        return in_states + (result.last * wide(weights[1])[:, :, 0]).sum()

    gradients = mx.grad(loss_of(device, weights, mask), argnums=(0, 1, 2, 3))(*inputs, initial)
    expected = slopes(exact, [wide(array) for array in (*inputs, initial)])
    for actual, slope in zip(gradients, expected, strict=True):
        assert relative_error(actual, slope) < 5e-6


def test_second_derivative(device, draw, draw_inputs, draw_states, wide):
    """Along two directions of Wx, against a mixed difference of the oracle."""
    inputs, initial = draw_inputs((1, 3, 2, 3)), draw_states((1, 2, 3))
    one, other = (draw((1, 3, 4, 2, 3), mx.float32) for _ in range(2))
    first = mx.grad(lambda wx: mx.sum(slstm(wx, *inputs[1:], initial, backend=device)[0][0] ** 2))
    actual = mx.sum(mx.grad(lambda wx: mx.sum(first(wx) * one))(inputs.wx) * other)

    def exact(along_one, along_other):
        wx = wide(inputs.wx) + along_one * wide(one) + along_other * wide(other)
        states = oracle.slstm(wx, wide(inputs.r), wide(inputs.b), wide(initial)).states
        return (states[0] ** 2).sum()

    h = 1e-4
    mixed = exact(h, h) - exact(h, -h) - exact(-h, h) + exact(-h, -h)
    assert actual.item() == pytest.approx(mixed / (4 * h * h), rel=1e-4)


def test_gradient_dtypes(device, precision, draw_inputs):
    inputs = draw_inputs((1, 2, 1, 4), precision.dtype)
    gradients = mx.grad(lambda *inputs: slstm(*inputs, backend=device)[0].sum(), argnums=(0, 1, 2))(
        *inputs
    )
    assert [gradient.dtype for gradient in gradients] == [precision.dtype] * 3


def test_gradient_where_gates_are_closed(device, draw_inputs):
    inputs = draw_inputs((1, 4, 1, 3))
    wx = np.array(inputs.wx)
    wx[0, 0, 0] = wx[0, 2, :2] = -math.inf
    gradients = mx.grad(
        lambda *inputs: slstm(*inputs, backend=device)[0][:3].sum(), argnums=(0, 1, 2)
    )(mx.array(wx), inputs.r, inputs.b)
    assert all(np.isfinite(np.array(gradient)).all() for gradient in gradients)
    assert not np.array(gradients[0])[0, 0].any()


def test_compile(device, draw_inputs, draw_states, expect, check):
    """Few steps, as compiling for the CPU takes a second for each."""
    inputs, initial = draw_inputs((2, 2, 2, 5)), draw_states((2, 2, 5))
    mask = mx.array([[True, False], [True, True]])
    compiled = mx.compile(lambda *arrays: slstm(*arrays[:-1], mask=arrays[-1], backend=device))
    check(compiled(*inputs, initial, mask), expect(inputs, initial, mask))


def test_compiled_gradient(device, draw, draw_inputs, draw_states):
    inputs, initial = draw_inputs((2, 1, 2, 5)), draw_states((2, 2, 5))
    weights = draw((4, 2, 1, 2, 5), mx.float32), draw((4, 2, 1, 2, 5), mx.float32)
    step = mx.value_and_grad(loss_of(device, weights), argnums=(0, 1, 2, 3))
    loss, gradients = step(*inputs, initial)
    compiled_loss, compiled = mx.compile(step)(*inputs, initial)
    assert compiled_loss.item() == pytest.approx(loss.item(), rel=1e-5)
    for one, other in zip(compiled, gradients, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-4, atol=1e-5)


def test_vmap_over_weights(draw, draw_inputs):
    inputs = draw_inputs((1, 3, 2, 5))
    biases = draw((2, 4, 2, 5), mx.float32)
    states, _ = mx.vmap(lambda b: slstm(inputs.wx, inputs.r, b, backend="native"))(biases)
    for mapped, b in zip(states, biases, strict=True):
        expected, _ = slstm(inputs.wx, inputs.r, b, backend="native")
        np.testing.assert_allclose(np.array(mapped), np.array(expected), rtol=1e-5, atol=1e-6)


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["lstm", "gru", "", None])
def test_rejects_other_functions(function, draw_inputs):
    with pytest.raises(ValueError, match='slstm: function must be "slstm", the only one'):
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
    with pytest.raises(ValueError, match="unknown backend 'cuda'"):
        slstm(*draw_inputs((1, 2, 1, 3)), backend="cuda")
    with pytest.raises(ValueError, match="unknown backend 'cuda'"):
        slstm(*draw_inputs((1, 0, 1, 3)), backend="cuda")


def test_more_units_than_a_kernel_holds(simulator):
    wx, b = mx.zeros((0, 1, 4, 1, 4097)), mx.zeros((4, 1, 4097))
    r = mx.broadcast_to(mx.zeros((1,)), (4, 1, 4097, 4097))
    with pytest.raises(ValueError, match="at most 4096 units a head, got 4097; use backend='nat"):
        slstm(wx, r, b)
    assert simulator.launches == []
