"""Log-gate prefix sums, against sums in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.mlstm.comparing import GATES, Draw, wide
from tests.xlstm_kernels.mlstm.oracle import log_sigmoid
from xlstm_kernels.mlstm.chunked.gates import log_gates


def definition(inputs, chunk_size):
    """log f' (cut off at -200), summed in each chunk; log i'; m."""
    i, f = wide(inputs.i), wide(inputs.f)
    batch, _, steps = i.shape
    m = np.zeros(i.shape[:2]) if inputs.states is None else wide(inputs.states[2])[..., 0]
    mask = np.ones((batch, steps), bool) if inputs.mask is None else np.array(inputs.mask)
    decay, admitted, ms = np.zeros_like(i), np.zeros_like(i), np.zeros_like(i)
    with np.errstate(invalid="ignore"):
        for t in range(steps):
            live = mask[:, None, t]
            kept = np.where(live, log_sigmoid(f[..., t]), 0) + m
            gate = np.where(live, i[..., t], -np.inf)
            m = np.maximum(kept, gate)
            off = np.isneginf(m)
            decay[..., t] = np.where(off, -200, kept - m)
            admitted[..., t] = np.where(off, -np.inf, gate - m)
            ms[..., t] = m
    decay = np.maximum(decay, -200)
    starts = range(0, steps, chunk_size)
    sums = [np.cumsum(decay[..., s : s + chunk_size], axis=-1) for s in starts]
    return np.concatenate(sums, axis=-1), admitted, ms


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("steps", "chunk_size"), [(1, 64), (31, 16), (70, 64), (130, 50), (96, 96)]
)
def test_prefix_sums(kind, masked, steps, chunk_size, device):
    draw = Draw(2, 3, steps, 5, 3, gates=kind, initial=True, masked=masked, seed=steps)
    inputs = draw.inputs()
    m_initial = inputs.states[2]
    gates = log_gates(
        inputs.i,
        inputs.f,
        m_initial,
        inputs.mask,
        chunk_size=chunk_size,
        sigmoid_input=False,
        backend=device,
    )
    sums, admitted, m = definition(inputs, chunk_size)

    def in_sequence(chunks):
        return wide(chunks).reshape(2, 3, -1)[..., :steps]

    prefix = in_sequence(gates.prefix) + in_sequence(gates.prefix_rest)
    # Each step's share is one float, and the last one takes up the rounding of m.
    assert np.all(np.abs(prefix - sums) <= 2e-7 * np.maximum(1, np.abs(sums)) + 1e-5)
    result = in_sequence(gates.admitted)
    finite = np.isfinite(admitted)
    assert np.array_equal(np.isneginf(result), ~finite)
    np.testing.assert_allclose(result[finite], admitted[finite], rtol=2e-7, atol=1e-5)
    np.testing.assert_allclose(wide(gates.m)[..., 0], m[..., -1], rtol=2e-7, atol=1e-7)
    live = np.ones_like(m, bool)
    if inputs.mask is not None:
        live = np.broadcast_to(np.array(inputs.mask)[:, None], m.shape)
    assert np.all(np.isposinf(in_sequence(gates.floor)[~live]))
    judged = live & (np.abs(m) < 80)
    np.testing.assert_allclose(in_sequence(gates.floor)[judged], np.exp(-m[judged]), rtol=1e-5)


@pytest.mark.parametrize("gate", [-63.1, -20.0, -1e-3])
def test_two_parts_keep_the_digits_of_an_input_gate(gate, device):
    i, f = mx.full((1, 1, 1), gate), mx.full((1, 1, 1), 5.3)
    gates = log_gates(
        *(i, f, mx.zeros((1, 1, 1)), None),
        chunk_size=1,
        sigmoid_input=False,
        backend=device,
    )
    exponent = wide(gates.admitted) + wide(gates.admitted_rest)
    assert exponent.item() == pytest.approx(wide(i).item() - wide(gates.m).item(), rel=1e-12)


@pytest.mark.parametrize("distance", [3, 20, 31])
def test_differences_behind_a_reset_keep_their_digits(distance, device):
    """G is near -20,000 where two neighbours differ by a ten-thousandth."""
    steps = 128
    forget = np.full((1, 1, steps), 9.0, np.float32)
    forget[..., : steps // 2] = -np.inf
    gates = log_gates(
        mx.full((1, 1, steps), -50.0),
        mx.array(forget),
        mx.zeros((1, 1, 1)),
        None,
        chunk_size=steps,
        sigmoid_input=False,
        backend=device,
    )
    high, low = wide(gates.prefix)[0, 0, 0], wide(gates.prefix_rest)[0, 0, 0]
    assert high[-1] < -12000
    first, second = steps // 2 + 1, steps // 2 + 1 + distance
    difference = (high[second] - high[first]) + (low[second] - low[first])
    # m stays at -50, so log f' is log sigmoid(f).
    assert difference == pytest.approx(distance * log_sigmoid(np.float64(9)), rel=1e-6)
