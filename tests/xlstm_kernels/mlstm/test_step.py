"""mlstm_step against the definition in float64."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.xlstm_kernels.mlstm.comparing import Bars, Draw, Inputs, draws, judge
from xlstm_kernels.mlstm import step as step_module
from xlstm_kernels.mlstm.step import mlstm_step

INF = math.inf
HYPOTHESIS = settings(
    max_examples=settings.default.max_examples // 7,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
ORDINARY = Draw(2, 3, 1, 33, 40, initial=True, seed=7)


def first(array: mx.array) -> mx.array:
    return array[:, :, 0]


def step(inputs: Inputs, backend: str, **options: object) -> tuple[mx.array, tuple[mx.array, ...]]:
    """One step, its h as of a sequence."""
    arrays = map(first, inputs.sequence)
    h, states = mlstm_step(*arrays, *inputs.states, eps=inputs.eps, backend=backend, **options)
    return mx.expand_dims(h, axis=2), states


@given(draw=draws(lengths=(1,), initial=st.just(True), masked=st.just(False)))
@HYPOTHESIS
def test_any_step(draw, device):
    inputs = draw.inputs()
    judge(inputs, *step(inputs, device))


def test_dtypes(device, precision):
    inputs = ORDINARY.inputs(precision.dtype)
    h, states = step(inputs, device)
    assert h.dtype == precision.dtype
    assert [state.dtype for state in states] == [mx.float32] * 3
    judge(inputs, h, states, Bars(h=precision.value))


@pytest.mark.parametrize(
    ("dtype", "bar"), [(mx.float16, 1e-3), (mx.bfloat16, 5e-3)], ids=["float16", "bfloat16"]
)
def test_states_of_half_precision(device, dtype, bar):
    inputs = ORDINARY.inputs()
    inputs = replace(inputs, states=tuple(state.astype(dtype) for state in inputs.states))
    h, states = step(inputs, device, dtype_state=dtype)
    assert {state.dtype for state in states} == {dtype}
    # Only what is returned is rounded: h is not.
    errors = judge(inputs, h, states, Bars(states=bar))
    assert errors.c > 1e-4


@pytest.mark.parametrize("sizes", [(3, 1, 31, 65), (1, 1, 1, 1), (1, 1, 2, 7), (1, 1, 600, 5)])
def test_sizes(device, sizes):
    """Of one element, fewer rows than lanes, more rows than threads, columns beside a tile."""
    batch, heads, keys, values = sizes
    inputs = Draw(batch, heads, 1, keys, values, initial=True, seed=5).inputs()
    judge(inputs, *step(inputs, device))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sizes", [(1, 2, 70, 160), (2, 1, 9, 34), (1, 1, 33, 5)], ids=str)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_packs_of_columns(sizes, dtype, monkeypatch, simulator):
    """Of 16 bytes, 2 columns, and 1, as with states that keep a GPU busy."""
    monkeypatch.setattr(step_module, "_FEWEST_TILES", 0)
    batch, heads, keys, values = sizes
    inputs = Draw(batch, heads, 1, keys, values, initial=True, seed=5).inputs()
    c, n, m = inputs.states
    # C lies anywhere in what it is a part of.
    c = mx.pad(c.astype(dtype), [(0, 0)] * 3 + [(1, 0)])[..., 1:]
    for state in (c, mx.contiguous(c)):
        given = replace(inputs, states=(state, n, m))
        h, states = step(given, "metal", dtype_state=dtype)
        judge(given, h, states, Bars() if dtype == mx.float32 else Bars(states=5e-3))


def test_shapes_of_gates_and_m(device):
    inputs = ORDINARY.inputs()
    h, states = step(inputs, device)
    c, n, m = inputs.states
    arrays = list(map(first, inputs.sequence))
    arrays[3:] = (mx.expand_dims(gate, axis=2) for gate in arrays[3:])
    other, other_states = mlstm_step(*arrays, c, n, mx.squeeze(m, axis=2), backend=device)
    for one, two in zip((first(h), *states), (other, *other_states), strict=True):
        assert mx.array_equal(one, two).item()


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0)], ids=str)
def test_no_heads(device, sizes):
    inputs = Draw(*sizes, 1, 5, 3, initial=True).inputs()
    h, (c, n, m) = step(inputs, device)
    assert (h.shape, c.shape) == ((*sizes, 1, 3), (*sizes, 5, 3))
    assert (n.shape, m.shape) == ((*sizes, 5), (*sizes, 1))


def test_inputs_that_do_not_lie_in_order(device):
    """As a projection leaves them, q, k, v are (B, NH, DK) of (NH, DK, B); C is stored as C^T."""
    inputs = ORDINARY.inputs()

    def shuffled(array: mx.array) -> mx.array:
        return mx.contiguous(array.transpose(1, 2, 0)).transpose(2, 0, 1)

    q, k, v, i, f = (shuffled(x) if x.ndim == 3 else x.T.T for x in map(first, inputs.sequence))
    c, n, m = inputs.states
    c = mx.contiguous(c.transpose(3, 0, 1, 2)).transpose(1, 2, 3, 0)
    i, f = (mx.stack([gate, gate], axis=1)[:, 1] for gate in (i, f))
    h, states = mlstm_step(q, k, v, i, f, c, shuffled(n), shuffled(m), backend=device)
    judge(inputs, mx.expand_dims(h, axis=2), states)


# --- gates at their limits ---------------------------------------------------------------------


def with_gates(i: float, f: float, m: float = 0.5, **changes: object) -> Inputs:
    """Inputs of an ordinary step, all of whose heads have these gates."""
    inputs = replace(ORDINARY, **changes).inputs()
    c, n, _ = inputs.states
    if m == -INF:
        c, n = mx.zeros_like(c), mx.zeros_like(n)
    gates = (mx.full(inputs.i.shape, gate) for gate in (i, f))
    return replace(
        inputs,
        **dict(zip("if", gates, strict=True)),
        states=(c, n, mx.full((*inputs.i.shape[:2], 1), m)),
    )


CASES = {
    "a hard reset": (0.5, -INF, 0.5),
    "nothing admitted": (-INF, 1.0, 0.5),
    "all kept": (0.5, INF, 0.5),
    "nothing kept or admitted": (-INF, -INF, 0.5),
    "no state yet": (1.5, 0.5, -INF),
    "a big input gate": (100.0, 0.5, 0.5),
    "a small input gate": (-100.0, 0.5, 0.5),
    "a floor that is infinite": (-100.0, -1.0, -95.0),
    "a forget gate of -1000": (0.5, -1000.0, 0.5),
    "a forget gate of +40": (0.5, 40.0, 0.5),
    "gates of exponents that almost cancel": (-37.123456, -100.1234, 63.0),
    "a huge m": (0.5, 1.0, 1e8),
}


@pytest.mark.parametrize("case", CASES)
def test_gates_at_their_limits(device, case):
    inputs = with_gates(*CASES[case])
    judge(inputs, *step(inputs, device))


def test_zero_divided_by_zero_is_zero(device):
    """With m = 110 the floor is no float32, without eps nothing else is in the denominator."""
    inputs = with_gates(110.0, 0.5)
    inputs = replace(inputs, q=mx.zeros_like(inputs.q), eps=0.0)
    h, _ = step(inputs, device)
    assert not mx.any(h).item()


# --- errors ------------------------------------------------------------------------------------

FITTING = {
    "q": (2, 3, 5),
    "k": (2, 3, 5),
    "v": (2, 3, 4),
    "i": (2, 3),
    "f": (2, 3),
    "c": (2, 3, 5, 4),
    "n": (2, 3, 5),
    "m": (2, 3, 1),
}


def call(**changes: object) -> None:
    arrays = {name: mx.zeros(shape) for name, shape in FITTING.items()}
    mlstm_step(**(arrays | changes))


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("q", (2, 3, 1, 5), r"q must be \(B, NH, DK\), got \(2, 3, 1, 5\)"),
        ("k", (2, 3, 6), r"k must have shape \(2, 3, 5\), that of q; got \(2, 3, 6\)"),
        ("v", (2, 4, 4), r"v must be \(B, NH, DV\) = \(2, 3, 'DV'\), got \(2, 4, 4\)"),
        ("v", (2, 3, 0), "need a last axis that is not empty"),
        ("i", (2, 3, 2), r"i must have shape \(2, 3\), \(B, NH\); got \(2, 3, 2\)"),
        ("f", (2,), r"f must have shape \(2, 3\), \(B, NH\); got \(2,\)"),
        ("c", (2, 3, 4, 5), r"c must have shape \(2, 3, 5, 4\), \(B, NH, DK, DV\)"),
        ("n", (2, 3, 4), r"n must have shape \(2, 3, 5\)"),
        ("m", (2, 1, 3), r"m must have shape \(2, 3, 1\)"),
    ],
)
def test_rejects_shapes(name, shape, message):
    with pytest.raises(ValueError, match=f"mlstm_step: .*{message}"):
        call(**{name: mx.zeros(shape)})


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        *(
            (
                {name: mx.zeros(shape, dtype=mx.int32)},
                TypeError,
                "must be float32, float16 or bfloat16, got",
            )
            for name, shape in FITTING.items()
        ),
        ({"k": mx.zeros((2, 3, 5), dtype=mx.float16)}, TypeError, "q, k and v must have one dtype"),
        (dict.fromkeys("cnm"), ValueError, "the states c, n and m must be given"),
        ({"n": None}, ValueError, "come together, missing n:"),
        *(
            ({"dtype_state": dtype}, TypeError, "dtype_state must be float32, float16 or bfloat16")
            for dtype in (mx.int32, mx.float64, "float32")
        ),
        ({"eps": -1e-6}, ValueError, "mlstm_step: eps must not be negative"),
        ({"eps": mx.array(1e-6)}, TypeError, "mlstm_step: eps must be a number"),
    ],
)
def test_errors(changes, error, message):
    with pytest.raises(error, match=message):
        call(**changes)


def test_gradients_of_states_of_half_precision(device):
    """The rounding of m scales c and n, which no gradient of m sees, and their gradients do."""
    inputs = Draw(2, 3, 1, 8, 8, gates="wide", initial=True, seed=9).inputs()
    arrays = [*map(first, inputs.sequence), *inputs.states]
    cotangent = mx.array(np.random.default_rng(0).choice([-2.0, 1.0, 3.0], (2, 3, 8, 8)))

    def loss(*arrays: mx.array, dtype: mx.Dtype) -> mx.array:
        _, (c, n, m) = mlstm_step(*arrays, dtype_state=dtype, backend=device)
        if dtype == mx.float32:
            scale = mx.exp(mx.stop_gradient(m - m.astype(mx.bfloat16).astype(mx.float32)))
            c, n = mx.expand_dims(scale, axis=3) * c, scale * n
        return mx.sum(cotangent * c.astype(mx.float32)) + mx.sum(n.astype(mx.float32))

    stored, scaled = (
        mx.grad(functools.partial(loss, dtype=dtype), argnums=list(range(8)))(*arrays)
        for dtype in (mx.bfloat16, mx.float32)
    )
    for actual, expected in zip(stored, scaled, strict=True):
        assert mx.allclose(actual, expected, rtol=1e-4, atol=1e-5).item()
