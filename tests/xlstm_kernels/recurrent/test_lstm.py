"""The LSTM and FlashRNN's call; test_finite_differences.py has the gradients."""

from __future__ import annotations

import mlx.core as mx
import pytest

import xlstm_kernels
from tests.xlstm_kernels.recurrent import oracle
from xlstm_kernels import flashrnn, lstm
from xlstm_kernels.recurrent.slstm.sequence import slstm


@pytest.fixture
def drawn(draw):
    """Wx, R, b and initial states: shape (B, T, N, D), dtype, number of states."""

    def arrays(shape, dtype=mx.float32, states=2):
        batch, steps, heads, units = shape
        return (
            draw((batch, steps, 4, heads, units), dtype),
            draw((4, heads, units, units), dtype, max(units, 1) ** -0.5),
            draw((4, heads, units), dtype),
            draw((states, batch, 1, heads, units), mx.float32),
        )

    return arrays


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 70, 3, 5), (3, 9, 1, 33), (1, 300, 2, 4)])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_values(shape, started, dtype, drawn, wide, relative_error):
    """Both results are float32, and exact for the numbers that come in."""
    arrays = drawn(shape, dtype)[: 3 + started]
    expected = oracle.lstm(*(wide(array) for array in arrays))
    for actual, exact in zip(lstm(*arrays), expected, strict=True):
        assert actual.dtype == mx.float32
        assert relative_error(actual, exact) < 1e-6


@pytest.mark.parametrize("function", oracle.SINGLE_STATE)
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_values_of_networks_with_one_state(function, started, dtype, draw, wide, relative_error):
    """Also for empty axes, and for a sequence in parts."""
    definition, gates = oracle.SINGLE_STATE[function]
    for batch, steps, heads, units in ((2, 70, 3, 5), (1, 1, 1, 1), (2, 0, 2, 4), (0, 3, 2, 4)):
        shapes = oracle.single_state_shapes(gates, batch, steps, heads, units)
        arrays = [draw(shape, dtype) for shape in shapes[: 3 + started]]
        expected = definition(*(wide(array) for array in arrays))
        found = flashrnn(*arrays, function=function)
        for actual, exact in zip(found, expected, strict=True):
            assert (actual.dtype, actual.shape) == (mx.float32, exact.shape)
            assert not exact.size or relative_error(actual, exact) < 1e-6 or not exact.any()
        wx, *others = arrays[:3]
        _, middle = flashrnn(wx[:, :2], *others, *arrays[3:], function=function)
        _, last = flashrnn(wx[:, 2:], *others, middle, function=function)
        assert mx.array_equal(last, found[1]).item()


def test_gradients_have_the_dtypes_of_the_arrays(drawn):
    *arrays, states = drawn((1, 3, 1, 2), mx.bfloat16)
    gradients = mx.grad(lambda *given: mx.sum(lstm(*given)[0]), argnums=(0, 1, 2, 3))(
        *arrays, states
    )
    assert [gradient.dtype for gradient in gradients] == [*[mx.bfloat16] * 3, mx.float32]


@pytest.mark.parametrize("shape", [(0, 3, 2, 4), (2, 0, 2, 4), (2, 3, 0, 4), (2, 3, 2, 0)])
def test_nothing_to_do(shape, drawn):
    batch, steps, heads, units = shape
    *arrays, states = drawn(shape)
    after_each, last = lstm(*arrays, states)
    assert after_each.shape == (2, batch, steps, heads, units)
    assert last.tolist() == states.tolist()


# --- FlashRNN's call ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "backend", [None, "cuda_fused", "triton_fused", "vanilla", "vanilla_fwbw", "native"]
)
def test_functions_and_backends_by_name(backend, drawn):
    wx, r, b, states = drawn((2, 4, 2, 3), states=4)
    for function, expected in (
        ("lstm", lstm(wx, r, b, states[:2])),
        ("slstm", slstm(wx, r, b, states, backend="native")),
    ):
        given = states[: len(expected[0])]
        results = flashrnn(wx, r, b, given, function, backend=backend, dtype="bfloat16")
        for actual, exact in zip(results, expected, strict=True):
            assert actual.dtype == mx.bfloat16
            assert mx.array_equal(actual, exact.astype(mx.bfloat16)).item()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"function": "rnn"}, ValueError, "function must be one of 'slstm', 'lstm', .*, got 'rnn'"),
        ({"dtype": "float64"}, ValueError, "dtype must be one of .*, got 'float64'"),
        ({"Wx": mx.zeros((1, 2, 3, 1, 3))}, ValueError, "lstm: Wx must be .B, T, 4, N, D."),
        ({"function": "gru"}, ValueError, r"gru: Wx must be \(B, T, 3, N, D\), in .* r, z, n; got"),
        ({"R": mx.zeros((4, 1, 3, 2))}, ValueError, "lstm: R must have shape"),
        ({"b": mx.zeros((4, 1, 3), mx.int32)}, TypeError, "lstm: b must be float32"),
        ({"states": mx.zeros((4, 1, 1, 1, 3))}, ValueError, r"lstm: states must be \(2, B, 1, N"),
        ({"function": "slstm", "backend": "vanila"}, ValueError, "vanila"),
        ({"function": "lstm", "backend": "vanila"}, ValueError, "vanila"),
    ],
)
def test_errors_name_what_is_wrong(changes, error, message, drawn):
    wx, r, b, states = drawn((1, 2, 1, 3))
    arguments = {"Wx": wx, "R": r, "b": b, "states": states} | changes
    if changes.get("function") == "slstm":
        arguments["states"] = None
    with pytest.raises(error, match=message):
        xlstm_kernels.flashrnn(**arguments)
