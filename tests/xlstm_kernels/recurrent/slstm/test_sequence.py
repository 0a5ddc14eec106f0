"""slstm and slstm_step against a float64 oracle written from their definition."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.xlstm_kernels.recurrent.slstm.inputs import one_unit
from xlstm_kernels.recurrent.slstm.sequence import slstm, slstm_step

# --- the oracle itself -------------------------------------------------------------------------


def test_golden_values(device):
    # log sigmoid(0) = -log 2; i is 0, then log 2, then -log 4; tanh is 1/2, 0, -1/2; sigmoid 1/2.
    # The first step starts from nothing: m = 0, c = 1/2, n = 1, y = 1/4.
    # Then m = log 2, f' = 1/4, i' = 1: c = 1/8, n = 5/4, y = 1/20.
    # Then m = 0 again, f' = 1, i' = 1/4: c = 0, n = 3/2.
    half = math.atanh(0.5)
    inputs = one_unit(
        (0, 0, half, 0), (math.log(2), 0, 0, 0), (-math.log(4), 0, -half, math.log(3))
    )
    states, last = slstm(*inputs, backend=device)
    golden = [
        [1 / 4, 1 / 20, 0],
        [1 / 2, 1 / 8, 0],
        [1, 5 / 4, 3 / 2],
        [0, math.log(2), 0],
    ]
    np.testing.assert_allclose(np.array(states).reshape(4, 3), golden, atol=2e-7)
    np.testing.assert_allclose(np.array(last).reshape(4), [row[-1] for row in golden], atol=2e-7)


def test_golden_recurrence(device):
    """Unit 1 of head 1 hears unit 0 of its own head, and of no other."""
    wx, r = np.zeros((1, 2, 4, 2, 2), np.float32), np.zeros((4, 2, 2, 2), np.float32)
    wx[0, 0, 2, :, 0] = math.atanh(0.5)  # y = 1/4 in unit 0 of both heads
    wx[0, 1, 1] = -math.inf  # the second step forgets the first
    r[2, 1, 1, 0] = 4 * math.atanh(0.5)  # out 1, in 0
    states, _ = slstm(mx.array(wx), mx.array(r), mx.zeros((4, 2, 2)), backend=device)
    y = np.array(states)[0, 0]
    np.testing.assert_allclose(y[0], [[0.25, 0], [0.25, 0]], atol=1e-7)
    np.testing.assert_allclose(y[1], [[0, 0], [0, 0.25]], atol=1e-7)


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


def test_dtypes(device, precision, draw_inputs, draw_states, expect, check):
    """Inputs are float32 to the last bit, whatever held them, so results are as close as ever."""
    inputs = draw_inputs((2, 6, 3, 40), precision.dtype)
    initial = draw_states((2, 3, 40)).astype(precision.dtype)
    check(slstm(*inputs, initial, backend=device), expect(inputs, initial))


@given(
    batch=st.integers(0, 3),
    steps=st.integers(0, 5),
    heads=st.integers(0, 3),
    units=st.one_of(st.integers(0, 12), st.sampled_from([31, 32, 33, 63, 64, 65, 70])),
    scale=st.sampled_from([0.1, 1.0, 5.0]),
    first=st.booleans(),
    masked=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_shape(  # noqa: PLR0917
    batch, steps, heads, units, scale, first, masked, seed,
    device, draw, draw_inputs, draw_states, expect, check,
):  # fmt: skip
    draw.restart(seed)
    inputs = draw_inputs((batch, steps, heads, units), scale=scale)
    initial = None if first else draw_states((batch, heads, units))
    mask = draw((batch, steps), mx.float32) > 0 if masked else None
    results = slstm(*inputs, initial, mask=mask, backend=device)
    assert results[0].shape == (4, batch, steps, heads, units)
    assert results[1].shape == (4, batch, 1, heads, units)
    check(results, expect(inputs, initial, mask), scale)


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


@pytest.mark.parametrize("shape", [(0, 3, 2, 5), (2, 3, 0, 5), (2, 3, 2, 0)], ids=str)
def test_nothing_to_do(shape, device, draw_inputs):
    states, last = slstm(*draw_inputs(shape), backend=device)
    batch, steps, heads, units = shape
    assert states.shape == (4, batch, steps, heads, units)
    assert last.shape == (4, batch, 1, heads, units)


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


def test_masked_steps_may_hold_anything(device, draw_inputs, draw_states, expect, check):
    inputs, initial = draw_inputs((2, 4, 3, 5)), draw_states((2, 3, 5))
    mask = mx.array([[True, False, True, True], [True, False, True, True]])
    padded = mx.where(mask[:, :, None, None, None], inputs.wx, mx.array(math.nan))
    results = slstm(padded, inputs.r, inputs.b, initial, mask=mask, backend=device)
    check(results, expect(inputs, initial, mask))
