"""causal_conv1d_update: step by step what causal_conv1d gives at once."""

from __future__ import annotations

import mlx.core as mx
import pytest

from tests.xlstm_kernels.conv import oracle
from xlstm_kernels.conv.causal_conv1d import causal_conv1d
from xlstm_kernels.conv.causal_conv1d_update import (
    causal_conv1d_update,
    causal_conv1d_update_reference,
)


def test_golden_values(device):
    weight, state = mx.array([[1.0, 10.0, 100.0]]), mx.array([[[8.0], [9.0]]])
    y, new_state = causal_conv1d_update(mx.array([[1.0]]), state, weight, backend=device)
    assert (y.tolist(), new_state.tolist()) == ([[198]], [[[9], [1]]])
    # The state that was given is a value, and as it was.
    assert state.flatten().tolist() == [8, 9]
    y, new_state = causal_conv1d_update(
        mx.array([[2.0]]), new_state, weight, mx.array([0.5]), backend=device
    )
    assert (y.tolist(), new_state.tolist()) == ([[219.5]], [[[1], [2]]])


@pytest.mark.parametrize("activation", [None, "swish"])
@pytest.mark.parametrize("width", [1, 2, 4, 7])
def test_one_by_one(width, activation, device, draw, wide, relative_error):
    x, weight, bias = (draw(s, mx.float32) for s in ((9, 19, 33), (33, width), (33,)))
    state = mx.zeros((9, width - 1, 33))
    whole, final = causal_conv1d(x, weight, bias, None, True, activation, backend=device)
    steps = []
    for t in range(x.shape[1]):
        y, state = causal_conv1d_update(x[:, t], state, weight, bias, activation, backend=device)
        assert y.shape == (9, 33)
        steps.append(y)
    together = mx.stack(steps, axis=1)
    assert mx.array_equal(together, whole)
    assert mx.array_equal(state, final)
    in_full, _ = oracle.causal(wide(x), wide(weight), wide(bias), None, activation)
    assert relative_error(together, in_full) < 2e-6


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_several_steps(steps, device, precision, draw, wide, relative_error):
    x, state = draw((3, steps, 40), precision.dtype), draw((3, 3, 40), precision.dtype)
    weight, bias = draw((40, 4), mx.float32), draw((40,), mx.float32)
    y, new_state = causal_conv1d_update(x, state, weight, bias, "silu", backend=device)
    in_full, last = oracle.causal(*map(wide, (x, weight, bias, state)), "silu")
    assert (y.dtype, new_state.dtype) == (precision.dtype, precision.dtype)
    assert relative_error(y, in_full) < precision.value
    assert (wide(new_state) == last).all()


def test_strided_inputs(device, draw, wide, relative_error):
    x, state = draw((33, 5), mx.float32).T, draw((5, 33, 3), mx.float32).transpose(0, 2, 1)
    weight = draw((4, 33), mx.float32).T
    y, new_state = causal_conv1d_update(x, state, weight, backend=device)
    in_full, last = oracle.causal(wide(x)[:, None], wide(weight), None, wide(state))
    assert relative_error(y, in_full[:, 0]) < 2e-6
    assert (wide(new_state) == last).all()


def test_reference(draw):
    arrays = [draw(s, mx.float32) for s in ((2, 5, 3), (2, 3, 3), (3, 4), (3,))]
    native = causal_conv1d_update(*arrays, "silu", backend="native")
    for one, other in zip(causal_conv1d_update_reference(*arrays, "silu"), native, strict=True):
        assert mx.array_equal(one, other)


# --- errors, which name the function that was called ---------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (1, 2, 5, 3)], ids=str)
def test_rejects_x_of_other_ranks(shape):
    with pytest.raises(
        ValueError, match=r"causal_conv1d_update: x must be \(B, C\) or \(B, S, C\)"
    ):
        causal_conv1d_update(mx.ones(shape), mx.ones((2, 3, 3)), mx.ones((3, 4)))


@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 3, 4), (3, 3)], ids=str)
def test_rejects_states_that_do_not_fit(shape):
    """Among them the K rows of xlstm's own state."""
    message = r"causal_conv1d_update: conv_state must be \(B, K-1, C\) = \(2, 3, 3\), got"
    with pytest.raises(ValueError, match=message):
        causal_conv1d_update(mx.ones((2, 3)), mx.ones(shape), mx.ones((3, 4)))


def test_rejects_what_else_does_not_fit():
    x, state, weight = mx.ones((2, 3)), mx.ones((2, 3, 3)), mx.ones((3, 4))
    with pytest.raises(TypeError, match="causal_conv1d_update: conv_state must be an mlx"):
        causal_conv1d_update(x, None, weight)
    with pytest.raises(ValueError, match="causal_conv1d_update: weight must be"):
        causal_conv1d_update(x, state, weight.T)
    with pytest.raises(ValueError, match="causal_conv1d_update: bias must have shape"):
        causal_conv1d_update(x, state, weight, mx.ones((4,)))
    with pytest.raises(ValueError, match="causal_conv1d_update: activation must be"):
        causal_conv1d_update(x, state, weight, None, "gelu")
    with pytest.raises(TypeError, match="causal_conv1d_update: x must be float32"):
        causal_conv1d_update(x.astype(mx.int32), state, weight)
