"""causal_conv1d against its definition in float64."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.xlstm_kernels.conv import oracle
from xlstm_kernels.conv import causal_runs
from xlstm_kernels.conv.causal_conv1d import causal_conv1d

LENGTHS = [0, 1, 2, 3, 8, 63, 64, 65, 129, 372]


def drawn(draw, batch, steps, channels, width, dtype=mx.float32, other_dtype=None):
    """x, weight, bias and states; the others than x of their own dtype where it is given."""
    other = other_dtype or dtype
    return (
        draw((batch, steps, channels), dtype),
        draw((channels, width), other),
        draw((channels,), other),
        draw((batch, width - 1, channels), other),
    )


def expected(wide, x, weight, bias=None, states=None, activation=None):
    arrays = (None if array is None else wide(array) for array in (x, weight, bias, states))
    return oracle.causal(*arrays, activation)


# --- the oracle itself -------------------------------------------------------------------------


def test_golden_values(device):
    """Taps 1, 10, 100: the digits of y, read from the left, are present, past, and before that."""
    x, weight = mx.array([[[1.0], [2.0], [3.0], [4.0]]]), mx.array([[1.0, 10.0, 100.0]])
    y = causal_conv1d(x, weight, backend=device)
    assert y.flatten().tolist() == [100, 210, 321, 432]
    states = mx.array([[[8.0], [9.0]]])
    y, final = causal_conv1d(x, weight, mx.array([0.5]), states, True, backend=device)
    assert y.flatten().tolist() == [198.5, 219.5, 321.5, 432.5]
    assert final.flatten().tolist() == [3, 4]
    y, final = causal_conv1d(x[:, :1], weight, None, states, True, "silu", backend=device)
    assert y.flatten().tolist() == [198]
    assert final.flatten().tolist() == [9, 1]


# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("steps", LENGTHS)
def test_lengths_and_widths(steps, width, device, draw, wide, relative_error):
    arrays = drawn(draw, 2, steps, 33, width)
    y, final = causal_conv1d(*arrays, True, "silu", backend=device)
    in_full, state = expected(wide, *arrays, "silu")
    assert (y.dtype, final.dtype) == (mx.float32, mx.float32)
    assert relative_error(y, in_full) < 2e-6
    assert final.shape == state.shape
    assert (wide(final) == state).all()


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_options(biased, continued, final, activation, device, draw, wide, relative_error):
    x, weight, bias, states = drawn(draw, 2, 37, 33, 4)
    given = (x, weight, bias if biased else None, states if continued else None)
    result = causal_conv1d(*given, final, activation, backend=device)
    in_full, state = expected(wide, *given, activation)
    if final:
        y, kept = result
        assert (wide(kept) == state).all()
    else:
        y = result
    assert relative_error(y, in_full) < 2e-6


@pytest.mark.parametrize("others", ["own dtype", "float32"])
def test_dtypes(others, device, precision, draw, wide, relative_error):
    other = mx.float32 if others == "float32" else precision.dtype
    arrays = drawn(draw, 2, 65, 40, 4, precision.dtype, other)
    y, final = causal_conv1d(*arrays, True, "silu", backend=device)
    in_full, _ = expected(wide, *arrays, "silu")
    assert (y.dtype, final.dtype) == (precision.dtype, precision.dtype)
    assert relative_error(y, in_full) < precision.value
    assert (wide(final) == wide(arrays[0][:, -3:])).all()


@pytest.mark.parametrize("shape", [(0, 5, 3), (2, 5, 0), (2, 0, 3), (0, 0, 0), (2, 1, 0)], ids=str)
@pytest.mark.parametrize("width", [1, 4])
def test_empty(shape, width, device, draw):
    arrays = drawn(draw, *shape, width)
    y, final = causal_conv1d(*arrays, True, "silu", backend=device)
    assert y.shape == shape
    assert final.shape == arrays[3].shape
    if not shape[1]:
        assert mx.array_equal(final, arrays[3])
        _, final = causal_conv1d(*arrays[:3], None, True, backend=device)
        assert not mx.any(final).item()


def test_initial_states_of_another_dtype_are_read_as_they_are(device):
    """1 + 2^-10 is no bfloat16: as a state it counts, as a final state it is rounded."""
    x, weight = mx.zeros((1, 1, 1), dtype=mx.bfloat16), mx.array([[0.0, 1024.0, 0.0]])
    states = mx.array([[[0.0], [1 + 2.0**-10]]])
    y, final = causal_conv1d(x, weight, mx.array([-1024.0]), states, True, backend=device)
    assert y.item() == 1
    assert (final.dtype, final.flatten().tolist()) == (mx.bfloat16, [1, 0])


def test_one_rounding(device):
    """Each partial sum rounds to 1 in bfloat16, the whole to the number above it."""
    x = mx.array([[[2.0**-16], [2.0**-8], [1.0]]], dtype=mx.bfloat16)
    y = causal_conv1d(x, mx.ones((1, 3), dtype=mx.bfloat16), backend=device)
    assert y.flatten().tolist()[-1] == 1 + 2.0**-7


def test_silu_far_out(device):
    x = mx.array([[[-200.0], [-90.0], [0.0], [90.0], [math.inf]]])
    y = causal_conv1d(x, mx.ones((1, 1)), activation="silu", backend=device)
    np.testing.assert_allclose(y.flatten().tolist(), [0, 0, 0, 90, math.inf], atol=1e-36)


def test_nan_stays_in_its_channel_and_window(device):
    x = np.ones((1, 40, 3), dtype=np.float32)
    x[0, 14, 1] = math.nan
    y = np.array(causal_conv1d(mx.array(x), mx.ones((3, 4)), backend=device))
    assert sorted(zip(*np.nonzero(np.isnan(y)), strict=True)) == [
        (0, step, 1) for step in (14, 15, 16, 17)
    ]


@pytest.mark.sampled(13)
@pytest.mark.parametrize("channels", [40, 42, 45])
@pytest.mark.parametrize("size", [(1, 4), (7, 4), (70, 1), (131, 4), (90, 8), (20, 9)], ids=str)
def test_packs_of_channels(
    size, channels, monkeypatch, precision, simulator, draw, wide, relative_error
):
    """Of 4, 2 and 1, as in arrays that keep a GPU busy; states may be of another dtype."""
    monkeypatch.setattr(causal_runs, "_BUSY_THREADS", 0)
    steps, width = size
    arrays = drawn(draw, 3, steps, channels, width, precision.dtype, mx.float32)
    y, final = causal_conv1d(*arrays, True, "silu", backend="metal")
    in_full, state = expected(wide, *arrays, "silu")
    assert relative_error(y, in_full) < precision.value
    if precision.dtype == mx.float32 or steps >= width - 1:
        assert (wide(final) == state).all()


@pytest.mark.parametrize("start", [1, 2, 4])
def test_packs_of_views(start, monkeypatch, simulator, draw, wide, relative_error):
    """Rows that begin anywhere, and channels that are apart."""
    monkeypatch.setattr(causal_runs, "_BUSY_THREADS", 0)
    weight = draw((16, 4), mx.float32)
    for x in (
        draw((2, 30, 21), mx.float32)[:, :, start : start + 16],
        draw((2, 16, 30), mx.float32).transpose(0, 2, 1),
    ):
        y = causal_conv1d(x, weight, backend="metal")
        assert relative_error(y, expected(wide, x, weight)[0]) < 2e-6


# --- pieces ------------------------------------------------------------------------------------


def convolved_in_pieces(x, weight, bias, states, lengths, device):
    outputs, start = [], 0
    for length in lengths:
        piece = x[:, start : start + length]
        y, states = causal_conv1d(piece, weight, bias, states, True, "silu", backend=device)
        outputs.append(y)
        start += length
    return mx.concatenate(outputs, axis=1), states


@given(lengths=st.lists(st.integers(0, 50), min_size=1, max_size=5), width=st.sampled_from([1, 4]))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_give_the_whole_bit_for_bit(lengths, width, device, draw):
    x, weight, bias, states = drawn(draw, 2, sum(lengths), 3, width)
    whole, final = causal_conv1d(x, weight, bias, states, True, "silu", backend=device)
    pieces, last = convolved_in_pieces(x, weight, bias, states, lengths, device)
    assert mx.array_equal(whole, pieces)
    assert mx.array_equal(final, last)


# --- layouts -----------------------------------------------------------------------------------


def test_strided_inputs(device, draw, wide, relative_error):
    x = draw((2, 66, 45), mx.float32).transpose(0, 2, 1)[:, ::-1, ::2]
    weight = draw((4, 33), mx.float32).transpose(1, 0)
    bias = draw((66,), mx.float32)[::2]
    states = draw((33, 3, 2), mx.float32).transpose(2, 1, 0)[:, ::-1]
    y, final = causal_conv1d(x, weight, bias, states, True, "silu", backend=device)
    in_full, state = expected(wide, x, weight, bias, states, "silu")
    assert relative_error(y, in_full) < 2e-6
    assert (wide(final) == state).all()


def test_transposed_input_is_not_copied(simulator, draw):
    x = draw((2, 20, 40), mx.float32).transpose(0, 2, 1)
    mx.eval(causal_conv1d(x, draw((20, 4), mx.float32)))
    (launch,) = simulator.launches
    assert launch.traffic["values_strides"].read > 0
    assert launch.traffic["values"].read == x.nbytes


# --- cost --------------------------------------------------------------------------------------


# --- transformations ---------------------------------------------------------------------------
