"""What the gradient's kernel reads and writes, and gradients under MLX's transformations."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.recurrent.slstm import oracle
from tests.xlstm_kernels.recurrent.slstm.gradient_oracle import gradients
from xlstm_kernels.recurrent.slstm.sequence import slstm, slstm_step

CLIPPED = {"gradient_recurrent_clipval": 0.2}
CUT = {"gradient_recurrent_cut": True}


def loss_of(backend, weights, **more):
    def loss(wx, r, b, initial):
        states, last = slstm(wx, r, b, initial, backend=backend, **more)
        return mx.sum(states * weights[0]) + mx.sum(last * weights[1])

    return loss


@pytest.fixture
def draw_weights(draw):
    def weights(batch, steps, heads, units):
        shapes = (4, batch, steps, heads, units), (4, batch, 1, heads, units)
        return tuple(draw(shape, mx.float32) for shape in shapes)

    return weights


# --- memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, CUT], ids=["exact", "cut"])
@pytest.mark.parametrize(
    ("units", "padded", "resident"),
    [(5, 8, 8), (33, 64, 64), (64, 64, 64), (70, 96, 32), (400, 512, 0)],
)
@pytest.mark.sampled(5)
def test_nothing_is_read_twice(units, padded, resident, options, simulator, draw):
    """Of the states y is not read, and of a sum's cotangent, one number, no copy is made.

    Only rows of R that fit no register are reread, and none is read where gradients are cut.
    """
    batch, steps, heads = 2, 3, 2
    wx = draw((batch, steps, heads, 4, units), mx.float32).transpose(0, 1, 3, 2, 4)
    r, b = draw((4, heads, units, units), mx.float32, 0.1), draw((4, heads, units), mx.float32)
    initial = draw((4, batch, heads, units), mx.float32)

    def total(*arrays):
        return sum(mx.sum(part) for part in slstm(*arrays, **options))

    mx.eval(mx.grad(total, argnums=(0, 1, 2, 3))(wx, r, b, initial))
    forward, launch = simulator.launches
    assert (forward.kernel, launch.kernel) == ("xlstm_slstm", "xlstm_slstm_gradient")
    one_state = 4 * batch * heads * units
    read = {name: traffic.read for name, traffic in launch.traffic.items()}
    assert read["gate_input"] == read["fed_back"] == read["cotangent"] == 4 * steps * one_state
    assert read["states"] == 3 * steps * one_state
    assert read["initial"] == 3 * one_state
    assert read["bias"] == read["last_cotangent"] == 4 * one_state
    rows = 0 if options else resident + steps * (padded - resident)
    assert read.get("recurrent", 0) == 16 * batch * heads * padded * rows
    written = sum(traffic.written for traffic in launch.traffic.values())
    assert written == 4 * (steps + 1) * one_state


def test_strided_inputs_and_cotangents(device, draw, draw_inputs, wide, relative_error):
    """As they lie in memory: time reversed, every other unit, heads and units exchanged."""
    wx = draw((2, 6, 3, 4, 10), mx.float32).transpose(0, 1, 3, 2, 4)[:, ::-1, :, :, ::2]
    _, r, b = draw_inputs((2, 6, 3, 5))
    arrays = [wx, r.swapaxes(-1, -2), b.transpose(2, 1, 0).transpose(2, 1, 0)]
    arrays.append(draw((2, 3, 5, 4), mx.float32).transpose(3, 0, 1, 2) + mx.array(2.0))
    mask = draw((6, 2), mx.float32).T > 0
    given = [
        draw((2, 6, 5, 3, 4), mx.float32).transpose(4, 0, 1, 3, 2)[:, :, ::-1],
        draw((1, 2, 3, 5, 4), mx.float32).transpose(4, 1, 0, 2, 3),
    ]
    _, found = mx.vjp(lambda *a: slstm(*a, mask=mask, backend=device), arrays, given)
    expected = gradients(
        *map(wide, arrays), (wide(given[0]), wide(given[1])[:, :, 0]), mask=np.array(mask)
    )
    for actual, exact in zip(found, expected, strict=False):
        assert relative_error(actual, exact) < 5e-6


# --- transformations ---------------------------------------------------------------------------


def heard(wx, r, b, initial):
    """The y that each step hears, (B, T, N, D)."""
    y = oracle.slstm(wx, r, b, initial).states[0]
    return np.concatenate([initial[0][:, None], y[:, :-1]], axis=1)


@pytest.mark.parametrize("masked", [False, True])
def test_derivatives_of_gradients(
    masked, device, draw, draw_inputs, draw_states, draw_weights, wide
):
    """Along a direction of every argument, against a difference of the gradient's oracle."""
    mask = mx.array([[True, False, True], [True, True, True]]) if masked else None

    def exact(arrays, cotangents):
        return gradients(*arrays, cotangents, mask=np.array(mask) if masked else None)

    arrays, weights = [*draw_inputs((2, 3, 2, 3)), draw_states((2, 2, 3))], draw_weights(2, 3, 2, 3)
    loss = loss_of(device, weights, mask=mask)
    compare_derivatives(loss, exact, arrays, weights, draw, wide)


def test_derivatives_of_cut_gradients(device, draw, draw_inputs, draw_states, draw_weights, wide):
    """They are cut too: as if what each step hears were given."""
    arrays, weights = [*draw_inputs((2, 3, 2, 3)), draw_states((2, 2, 3))], draw_weights(2, 3, 2, 3)
    given = heard(*map(wide, arrays))

    def exact(moved, cotangents):
        wx, r, b, initial = moved
        opened = wx + np.einsum("gnoi,btni->btgno", r, given)
        slopes = gradients(opened, 0 * r, b, initial, cotangents)
        return slopes._replace(r=np.einsum("btgno,btni->gnoi", slopes.wx, given))

    compare_derivatives(loss_of(device, weights, **CUT), exact, arrays, weights, draw, wide)


def compare_derivatives(loss, exact, arrays, weights, draw, wide):
    ways, other = ([draw(array.shape, mx.float32) for array in arrays] for _ in range(2))
    every = (0, 1, 2, 3)
    first = mx.grad(loss, argnums=every)

    def along(*arrays):
        return sum(mx.sum(g * way) for g, way in zip(first(*arrays), ways, strict=True))

    found = mx.grad(along, argnums=every)(*arrays)
    actual = sum(mx.sum(g * way).item() for g, way in zip(found, other, strict=True))
    cotangents = wide(weights[0]), wide(weights[1])[:, :, 0]

    def reached(distance):
        moved = [wide(a) + distance * wide(way) for a, way in zip(arrays, other, strict=True)]
        slopes = exact(moved, cotangents)
        return sum((g * wide(way)).sum() for g, way in zip(slopes, ways, strict=False))

    assert actual == pytest.approx((reached(1e-6) - reached(-1e-6)) / 2e-6, rel=1e-4)


def test_gradient_where_gates_are_closed(device, draw_inputs):
    inputs = draw_inputs((1, 4, 1, 3))
    wx = np.array(inputs.wx)
    wx[0, 0, 0] = wx[0, 2, :2] = -math.inf
    found = mx.grad(lambda *inputs: slstm(*inputs, backend=device)[0][:3].sum(), argnums=(0, 1, 2))(
        mx.array(wx), inputs.r, inputs.b
    )
    assert all(np.isfinite(np.array(gradient)).all() for gradient in found)
    assert not np.array(found[0])[0, 0].any()


@pytest.mark.exhaustive
@pytest.mark.parametrize("masked", [False, True])
def test_compiled_gradient(masked, device, draw_inputs, draw_states, draw_weights):
    """Compiling for the CPU takes no longer for more steps, as all have the same code."""
    inputs, initial = draw_inputs((2, 30, 2, 5)), draw_states((2, 2, 5))
    mask = mx.array([[True, False, True] * 10, [True] * 30]) if masked else None
    weights = draw_weights(2, 30, 2, 5)
    step = mx.value_and_grad(loss_of(device, weights, mask=mask, **CLIPPED), argnums=(0, 1, 2, 3))
    loss, expected = step(*inputs, initial)
    compiled_loss, compiled = mx.compile(step)(*inputs, initial)
    assert compiled_loss.item() == pytest.approx(loss.item(), rel=1e-5)
    for one, other in zip(compiled, expected, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-4, atol=1e-5)


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("clipval", ["1", True, mx.array(1.0)], ids=str)
def test_rejects_limits_that_are_no_numbers(clipval, draw_inputs):
    wx, r, b = draw_inputs((1, 1, 1, 2))
    with pytest.raises(TypeError, match="slstm: gradient_recurrent_clipval must be a number, got"):
        slstm(wx, r, b, gradient_recurrent_clipval=clipval)
    with pytest.raises(TypeError, match="slstm_step: gradient_recurrent_clipval must be a number"):
        slstm_step(wx[:, 0], r, b, gradient_recurrent_clipval=clipval)


@pytest.mark.parametrize(
    ("clipval", "message"),
    [(-0.5, "must not be negative, got -0.5"), (math.nan, "finite"), (math.inf, "finite")],
)
def test_rejects_limits(clipval, message, draw_inputs):
    with pytest.raises(ValueError, match=f"slstm: gradient_recurrent_clipval .*{message}"):
        slstm(*draw_inputs((1, 1, 1, 2)), gradient_recurrent_clipval=clipval)


@pytest.mark.parametrize("cut", [1, None, "yes"])
def test_rejects_cuts(cut, draw_inputs):
    with pytest.raises(TypeError, match="slstm: gradient_recurrent_cut must be a bool, got"):
        slstm(*draw_inputs((1, 1, 1, 2)), gradient_recurrent_cut=cut)
