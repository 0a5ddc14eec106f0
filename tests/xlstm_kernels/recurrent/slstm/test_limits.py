"""Gates at their limits: big ones, infinite ones, nothing let in, NaN."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.recurrent.slstm.inputs import Inputs, one_unit
from tests.xlstm_kernels.recurrent.slstm.oracle import VALUE
from xlstm_kernels.recurrent.slstm.sequence import slstm


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
    inputs, initial = draw_inputs((1, 6, 1, 5)), draw_states((1, 1, 5))
    wx = np.array(inputs.wx)
    wx[0, 0, 0, 0, 0] = wx[0, 3, 0, 0, 1] = wx[0, 2, 0, 0, 2] = wx[0, 0, 0, 0, 4] = i
    wx[0, 0, 1, 0, 0] = wx[0, 3, 1, 0, 3] = wx[0, 2, 1, 0, 2] = f
    inputs = inputs._replace(wx=mx.array(wx))
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


def test_slow_forgetting(device):
    """A forget gate of 14 takes 8e-7 from m at each step, in which 1 + exp(-14) has one digit."""
    steps = 200
    inputs = one_unit((0, 0, 0, 0), *[(-50, 14, 0, 0)] * (steps - 1))
    states, _ = slstm(*inputs, backend=device)
    expected = -math.log1p(math.exp(-14)) * np.arange(steps)
    np.testing.assert_allclose(np.array(states[3]).ravel(), expected, rtol=1e-6)


def test_fresh_start_is_per_unit(device):
    """Where n is 0 the old m does not count; in the unit beside it, it does."""
    initial = mx.array([[0.0, 0.0], [0.0, 2.0], [0.0, 4.0], [50.0, 50.0]]).reshape((4, 1, 1, 2))
    wx = mx.zeros((1, 1, 4, 1, 2))
    _, last = slstm(wx, mx.zeros((4, 1, 2, 2)), mx.zeros((4, 1, 2)), initial, backend=device)
    y, c, n, m = np.array(last).reshape(4, 2)
    np.testing.assert_allclose(m, [0, 50 - math.log(2)], rtol=1e-7)
    # m is rounded by up to 2e-6, for which c and n make up.
    np.testing.assert_allclose(n * np.exp(m - [0, 50 - math.log(2)]), [1, 4], rtol=1e-6)
    np.testing.assert_allclose(c * np.exp(m - [0, 50 - math.log(2)]), [0, 2], rtol=1e-6)
    np.testing.assert_allclose(y, [0, 0.25], rtol=1e-6)


def test_nan_stays_in_its_head(device, draw_inputs):
    inputs = draw_inputs((2, 3, 2, 5))
    wx = np.array(inputs.wx)
    wx[0, 1, 0, 0, 2] = math.nan
    states, _ = slstm(mx.array(wx), inputs.r, inputs.b, backend=device)
    bad = np.isnan(np.array(states)).any(axis=(0, 4))
    assert bad[0, 1:, 0].all()
    assert bad.sum() == 2
