"""Causal convolutions, at once and step by step, against their definition in float64."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.conftest import GRADIENTS, VALUES
from tests.xlstm_kernels.conv import oracle
from xlstm_kernels.conv import causal_runs
from xlstm_kernels.conv.causal_conv1d import causal_conv1d
from xlstm_kernels.conv.causal_conv1d_update import causal_conv1d_update
from xlstm_kernels.conv.causal_runs import runs


@pytest.fixture
def drawn(draw):
    """x, weight, bias, states, and the cotangents of y and of the final states."""

    def arrays(batch, steps, channels, width, dtype=mx.float32, other=None):
        x, states = (batch, steps, channels), (batch, width - 1, channels)
        others = [draw(s, other or dtype) for s in ((channels, width), (channels,), states)]
        return [draw(x, dtype), *others], [draw(x, dtype), draw(states, dtype)]

    return arrays


@pytest.fixture
def judge(wide, relative_error):
    """Hold values and gradients to the definition's; with `by_terms`, gradients to their terms.

    Of bias, states and the cotangent of the final states, each may be None.
    """

    def compare(primals, cotangents, activation, device, *, by_terms=False):
        def operator(*arrays):
            given = iter(arrays)
            named = [None if primal is None else next(given) for primal in primals]
            return causal_conv1d(*named, len(pulled) > 1, activation, backend=device)

        arrays, pulled = ([a for a in some if a is not None] for some in (primals, cotangents))
        (y, *final), gradients = mx.vjp(operator, arrays, pulled)
        numbers = [None if primal is None else wide(primal) for primal in primals]
        exact_y, exact_final = oracle.causal(*numbers, activation)
        dtype = primals[0].dtype
        assert {array.dtype for array in (y, *final)} == {dtype}
        assert relative_error(y, exact_y) < VALUES[dtype]
        for state in final:
            assert mx.array_equal(state, mx.array(exact_final, dtype=mx.float32).astype(dtype))
        weights = [*map(wide, pulled), np.zeros(exact_final.shape)][:2]
        slopes = oracle.causal_gradients(*numbers, activation, weights)
        sizes = [None if n is None else np.abs(n) for n in numbers]
        terms = oracle.causal_gradients(*sizes, None, [np.abs(w) for w in weights])
        rest = iter(gradients)
        for primal, slope, scale in zip(primals, slopes, terms, strict=True):
            if primal is not None:
                gradient = next(rest)
                assert gradient.dtype == primal.dtype
                error = relative_error(gradient, slope, scale if by_terms else None)
                assert error < GRADIENTS[primal.dtype]
        assert list(rest) == []

    return compare


def expected(wide, x, weight):
    return oracle.causal(wide(x), wide(weight))[0]


# --- values and gradients ----------------------------------------------------------------------


@pytest.mark.parametrize("width", [4, 1, 5])
@pytest.mark.parametrize("steps", [65, 0, 1, 2, 3, 8, 16, 17, 64, 129, 372])
def test_lengths_and_widths(steps, width, device, drawn, judge):
    judge(*drawn(2, steps, 33, width), "silu", device)


@pytest.mark.parametrize("activation", ["silu", None])
@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("continued", [True, False])
@pytest.mark.parametrize("biased", [True, False])
def test_options(biased, continued, final, activation, device, drawn, judge):
    (x, weight, bias, states), (cotangent, final_cotangent) = drawn(2, 70, 33, 4)
    primals = [x, weight, bias if biased else None, states if continued else None]
    judge(primals, [cotangent, final_cotangent if final else None], activation, device)


@pytest.mark.parametrize("others", ["own dtype", "float32"])
def test_dtypes(others, device, precision, drawn, judge):
    """Weights of float32 have gradients of float32, though x is half as precise."""
    other = mx.float32 if others == "float32" else precision.dtype
    judge(*drawn(2, 65, 40, 4, precision.dtype, other), "silu", device)


@pytest.mark.parametrize("shape", [(0, 5, 3), (2, 5, 0), (2, 0, 3), (0, 0, 0), (2, 1, 0)], ids=str)
@pytest.mark.parametrize("width", [1, 4])
def test_empty(shape, width, device, drawn, judge):
    primals, cotangents = drawn(*shape, width)
    judge(primals, cotangents, "silu", device)
    judge([*primals[:3], None], cotangents, "silu", device)


@pytest.mark.sampled(28)
@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("channels", [40, 42, 45])
@pytest.mark.parametrize("size", [(1, 4), (7, 4), (70, 1), (131, 4), (90, 8), (20, 9)], ids=str)
def test_packs_of_channels(
    size, channels, activation, monkeypatch, precision, simulator, drawn, judge
):
    """Of 4, 2 and 1, as in arrays that keep a GPU busy; states may be of another dtype."""
    monkeypatch.setattr(causal_runs, "_BUSY_THREADS", 0)
    steps, width = size
    primals, cotangents = drawn(3, steps, channels, width, precision.dtype, mx.float32)
    judge(primals, cotangents, activation, "metal", by_terms=True)


def test_strided_inputs(device, draw, judge):
    x = draw((2, 66, 90), mx.float32).transpose(0, 2, 1)[:, ::-1, ::2]
    weight = draw((4, 33), mx.float32).transpose(1, 0)
    bias = draw((66,), mx.float32)[::2]
    states = draw((33, 3, 2), mx.float32).transpose(2, 1, 0)[:, ::-1]
    cotangents = [
        draw((33, 2, 90), mx.float32).transpose(1, 2, 0),
        draw((2, 33, 3), mx.float32).transpose(0, 2, 1),
    ]
    judge([x, weight, bias, states], cotangents, "silu", device)


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


def test_slope_far_out(device):
    """1 at the right, next to nothing at the left, where exp(-z) is infinite."""
    x = mx.array([[[-200.0], [-90.0], [-20.0], [0.0], [20.0], [90.0], [200.0]]])
    slope = mx.grad(
        lambda v: causal_conv1d(v, mx.ones((1, 1)), activation="silu", backend=device).sum()
    )(x)
    far = -19 * math.exp(-20)
    np.testing.assert_allclose(
        slope.flatten().tolist(), [0, 0, far, 0.5, 1 - far, 1, 1], rtol=1e-5, atol=1e-36
    )


def test_nan_stays_in_its_channel_and_window(device):
    x = np.ones((1, 40, 3), dtype=np.float32)
    x[0, 14, 1] = math.nan
    y = np.array(causal_conv1d(mx.array(x), mx.ones((3, 4)), backend=device))
    assert sorted(zip(*np.nonzero(np.isnan(y)), strict=True)) == [
        (0, step, 1) for step in (14, 15, 16, 17)
    ]


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
        assert relative_error(y, expected(wide, x, weight)) < 2e-6


# --- layouts -----------------------------------------------------------------------------------


def test_transposed_input_is_not_copied(simulator, draw):
    x = draw((2, 20, 40), mx.float32).transpose(0, 2, 1)
    mx.eval(causal_conv1d(x, draw((20, 4), mx.float32)))
    (launch,) = simulator.launches
    assert launch.traffic["values_strides"].read > 0
    assert launch.traffic["values"].read == x.nbytes


@pytest.mark.parametrize("windows", [1, 2])
@pytest.mark.parametrize("width", range(1, 33))
def test_threadgroups_have_the_memory(width, windows):
    """Metal's 32 KB hold the filters and the ends of all places."""
    places = runs(mx.zeros((9, 500, 3)), width, windows=windows).places
    floats = (width + 1) * 32 + windows * places * max(width - 1, 1) * 32
    assert 4 * floats <= 32 * 1024
    assert places >= 3


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        *(
            ({"x": mx.ones(shape)}, ValueError, r"causal_conv1d: x must be \(B, S, C\)")
            for shape in ((), (5, 3), (1, 2, 5, 3))
        ),
        *(
            ({"weight": mx.ones(shape)}, ValueError, r"weight must be \(C, K\) with the C = 3")
            for shape in ((3,), (4, 3), (3, 1, 4))
        ),
        *(
            ({"weight": mx.ones((3, width))}, ValueError, f"1 to 32 taps, got K = {width}")
            for width in (0, 33)
        ),
        *(
            ({"bias": mx.ones(shape)}, ValueError, r"bias must have shape \(3,\)")
            for shape in ((1,), (4,), (3, 1))
        ),
        *(
            (
                {"initial_states": mx.ones(shape)},
                ValueError,
                r"initial_states must have shape \(2, 3, 3\), \(B, K-1, C\)",
            )
            for shape in ((2, 4, 3), (1, 3, 3), (2, 3, 1), (3, 3))
        ),
        *(
            ({name: mx.zeros(shape, dtype=mx.int32)}, TypeError, f"{name} must be float32")
            for name, shape in (
                *(("x", (2, 5, 3)), ("weight", (3, 4))),
                *(("bias", (3,)), ("initial_states", (2, 3, 3))),
            )
        ),
        *(
            (
                {"activation": name},
                ValueError,
                "activation must be one of None, 'silu', 'swish', got",
            )
            for name in ("relu", "", True)
        ),
        ({"backend": "opencl"}, ValueError, "unknown backend 'opencl'"),
    ],
)
def test_conv_errors(changes, error, message):
    with pytest.raises(error, match=message):
        causal_conv1d(**{"x": mx.ones((2, 5, 3)), "weight": mx.ones((3, 4)), **changes})


# --- update ------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", [None, "swish"])
@pytest.mark.parametrize("width", [4, 1, 2, 7])
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


@pytest.mark.parametrize("steps", [5, 0, 1, 2])
def test_several_steps(steps, device, precision, draw, wide, relative_error):
    x, state = draw((3, steps, 40), precision.dtype), draw((3, 3, 40), precision.dtype)
    weight, bias = draw((40, 4), mx.float32), draw((40,), mx.float32)
    y, new_state = causal_conv1d_update(x, state, weight, bias, "silu", backend=device)
    in_full, last = oracle.causal(*map(wide, (x, weight, bias, state)), "silu")
    assert (y.dtype, new_state.dtype) == (precision.dtype, precision.dtype)
    assert relative_error(y, in_full) < precision.value
    assert (wide(new_state) == last).all()


# --- errors, which name the function that was called -------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (1, 2, 5, 3)], ids=str)
def test_update_rejects_x_of_other_ranks(shape):
    with pytest.raises(
        ValueError, match=r"causal_conv1d_update: x must be \(B, C\) or \(B, S, C\)"
    ):
        causal_conv1d_update(mx.ones(shape), mx.ones((2, 3, 3)), mx.ones((3, 4)))


@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 3, 4), (3, 3)], ids=str)
def test_update_rejects_states_that_do_not_fit(shape):
    """Among them the K rows of xlstm's own state."""
    message = r"causal_conv1d_update: conv_state must have shape \(2, 3, 3\), \(B, K-1, C\); got"
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
