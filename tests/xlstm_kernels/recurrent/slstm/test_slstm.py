"""slstm and slstm_step against a float64 oracle written from their definition."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.recurrent.slstm.inputs import Inputs, one_unit
from tests.xlstm_kernels.recurrent.slstm.oracle import VALUE
from xlstm_kernels.recurrent.slstm.sequence import slstm, slstm_step

# --- values ------------------------------------------------------------------------------------

SHAPES = [
    (2, 7, 3, 5),
    (1, 1, 1, 1),
    (3, 4, 1, 1),
    (1, 3, 2, 4),
    (1, 9, 1, 32),
    (1, 5, 3, 33),
    (2, 3, 1, 64),
    (1, 4, 1, 66),
    (1, 3, 2, 100),
    (1, 2, 1, 386),
    (1, 2, 1, 1030),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_value(shape, device, draw_inputs, draw_states, expect, check):
    inputs = draw_inputs(shape)
    check(slstm(*inputs, backend=device), expect(inputs))
    batch, _, heads, units = shape
    initial = draw_states((batch, heads, units))
    check(slstm(*inputs, initial, backend=device), expect(inputs, initial))


# --- states ------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_time", [False, True])
def test_step_by_step_is_whole(with_time, device, draw_inputs, draw_states, expect, check):
    inputs, initial = draw_inputs((2, 7, 3, 40)), draw_states((2, 3, 40))
    states, trace = mx.expand_dims(initial, axis=2) if with_time else initial, []
    for t in range(7):
        states = slstm_step(inputs.wx[:, t], inputs.r, inputs.b, states, backend=device)
        assert states.shape == ((4, 2, 1, 3, 40) if with_time else (4, 2, 3, 40))
        trace.append(states.reshape((4, 2, 3, 40)))
    whole = mx.stack(trace, axis=2)
    check((whole, whole[:, :, -1:]), expect(inputs, initial))


def test_no_steps(device, draw_inputs, draw_states):
    initial = draw_states((2, 3, 5)).astype(mx.float16)
    states, last = slstm(*draw_inputs((2, 0, 3, 5)), initial, backend=device)
    assert (states.shape, states.dtype) == ((4, 2, 0, 3, 5), mx.float32)
    assert (last.shape, last.dtype) == ((4, 2, 1, 3, 5), mx.float32)
    assert mx.array_equal(last[:, :, 0], initial)


def test_mask(device, draw_inputs, draw_states, expect, check):
    inputs, initial = draw_inputs((2, 5, 3, 40)), draw_states((2, 3, 40))
    mask = mx.array([[True, False, True, True, False], [False, False, True, False, True]])
    states, last = slstm(*inputs, initial, mask=mask, backend=device)
    check((states, last), expect(inputs, initial, mask))
    y = np.array(states[0])
    assert not y[~np.array(mask)].any()
    assert y[np.array(mask)].all()
    # What is fed back is the y of the last live step, though the masked one shows none.
    assert mx.array_equal(last[0, 0, 0], states[0, 0, 3])
    assert mx.array_equal(states[1:, 0, 1], states[1:, 0, 0])


# --- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [30.0, 100.0])
def test_big_gates(scale, device, draw_inputs, expect, check_product):
    inputs = draw_inputs((2, 40, 2, 33), scale=scale)
    check_product(slstm(*inputs, backend=device), expect(inputs))


def test_m_does_not_drift(device, expect, relative_error):
    """A slow forgetting from a big m: each step's rounding goes the same way."""
    steps = 300
    wx = np.zeros((1, steps, 4, 1, 4), np.float32)
    wx[0, :, 0] = -2000
    wx[0, 0, 0] = 1000
    wx[0, :, 1] = 2.3  # log sigmoid = -0.0955, m has steps of 6e-5
    wx[0, :, 2] = np.linspace(-1, 1, steps)[:, None, None]
    inputs = Inputs(mx.array(wx), mx.zeros((4, 1, 4, 4)), mx.zeros((4, 1, 4)))
    states, _ = slstm(*inputs, backend=device)
    expected = expect(inputs)
    assert relative_error(states[3], expected.states[3]) < 6e-8
    assert relative_error(states[0], expected.states[0]) < VALUE


@pytest.mark.parametrize("f", [-math.inf, -1000.0, -100.0, 40.0, 100.0, math.inf])
@pytest.mark.parametrize("i", [-math.inf, -1000.0, -100.0, 40.0, 100.0])
def test_one_gate_at_its_limit(i, f, device, draw_inputs, draw_states, expect, check_product):
    """From nothing and from something, in the first step, in the middle, and in both gates."""
    inputs, initial = draw_inputs((1, 6, 1, 5)).limited(i, f), draw_states((1, 1, 5))
    for start in (None, initial):
        states, last = slstm(*inputs, start, backend=device)
        expected = expect(inputs, start)
        # Minus infinity minus itself is no distance: compare where m is there, then the rest.
        known = np.isfinite(expected.states[3])
        assert (np.isfinite(np.array(states[3])) == known).all()
        assert np.isfinite(np.array(states[:3])).all()
        expected.states[3][~known] = 0
        finite = mx.where(mx.array(known), states[3], mx.array(0.0))
        check_product((mx.concatenate([states[:3], finite[None]]), last), expected)


def test_nothing_let_in_is_nothing(device):
    """Input gates of -inf: n stays 0, y is 0 and no NaN, and the next input starts afresh."""
    off = -math.inf
    inputs = one_unit((off, 1, 1, 1), (off, off, 1, 1), (3, off, math.atanh(0.5), 0))
    states, last = slstm(*inputs, backend=device)
    y, c, n, m = np.array(states).reshape(4, 3)
    assert (y[:2].tolist(), c[:2].tolist(), n[:2].tolist()) == ([0, 0], [0, 0], [0, 0])
    assert m.tolist() == [off, off, 3]
    np.testing.assert_allclose([y[2], c[2], n[2]], [0.25, 0.5, 1], rtol=1e-6)
    assert np.array(last).ravel().tolist() == [y[2], c[2], n[2], m[2]]


def test_memory_that_nothing_counts(device):
    """c without an n, as no sequence leaves it: y is 0, not infinite."""
    initial = mx.array([0.0, 3.0, 0.0, 0.0]).reshape((4, 1, 1, 1))
    states, _ = slstm(*one_unit((-math.inf, 0, 0, 0)), initial, backend=device)
    assert np.array(states).ravel().tolist() == [0, 3, 0, -math.inf]


def test_nan_stays_in_its_head(device, draw_inputs):
    inputs = draw_inputs((2, 3, 2, 5))
    wx = np.array(inputs.wx)
    wx[0, 1, 0, 0, 2] = math.nan
    states, _ = slstm(mx.array(wx), inputs.r, inputs.b, backend=device)
    bad = np.isnan(np.array(states)).any(axis=(0, 4))
    assert bad[0, 1:, 0].all()
    assert bad.sum() == 2


# --- memory ------------------------------------------------------------------------------------


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
