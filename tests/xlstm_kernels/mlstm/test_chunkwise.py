"""The chunkwise mLSTM, in chunks of several sizes, against its definition."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.xlstm_kernels.mlstm.comparing import Bars, Draw, draws, judge, long_draws
from xlstm_kernels.mlstm.chunkwise import mlstm_chunkwise

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.xlstm_kernels.mlstm.comparing import Inputs

INF = math.inf
FORMS = {
    "chunks of 16": functools.partial(mlstm_chunkwise, chunk_size=16),
    "chunks of 40": functools.partial(mlstm_chunkwise, chunk_size=40),
    "chunks of 64": functools.partial(mlstm_chunkwise, chunk_size=64),
    "chunks of any size": mlstm_chunkwise,
}
EVERY_FORM = [
    pytest.param(form, id=name, marks=[pytest.mark.exhaustive] if place > 1 else [])
    for place, (name, form) in enumerate(FORMS.items())
]
ANY = settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=EVERY_FORM)
def form(request: pytest.FixtureRequest) -> Callable[..., object]:
    return request.param


def called(form: Callable, inputs: Inputs, device: str, **more: object):
    c, n, m = inputs.states or (None, None, None)
    return form(
        *inputs.sequence,
        c_initial=c,
        n_initial=n,
        m_initial=m,
        return_last_states=True,
        eps=inputs.eps,
        mask=inputs.mask,
        backend=device,
        **more,
    )


# --- values ------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@given(draw=draws())
@example(draw=Draw(1, 3, 65, 33, 40, gates="wide", initial=True, masked=True))
@example(draw=Draw(2, 1, 64, 5, 3, gates="infinite", initial=True))
# All that the states hold is exp(-63), or exp(-95), of a key and a value.
@example(draw=Draw(3, 1, 1, 33, 40, gates="wide", masked=True, seed=406))
@example(draw=Draw(3, 1, 1, 5, 4, gates="wide", masked=True, seed=157))
@ANY
def test_any_inputs(draw, form, device):
    inputs = draw.inputs()
    h, states = called(form, inputs, device)
    judge(inputs, h, states)


@given(draw=long_draws())
@settings(ANY, max_examples=2)
def test_long_sequences(draw, form, device):
    inputs = draw.inputs()
    h, states = called(form, inputs, device)
    judge(inputs, h, states)


@pytest.mark.parametrize(
    ("dtype", "precision", "bars"),
    [
        (mx.float16, "default", Bars(h=1e-3)),
        (mx.bfloat16, "default", Bars(h=5e-3, states=5e-3)),
        (mx.bfloat16, "high", Bars(h=2e-3)),
    ],
    ids=["float16", "bfloat16", "high precision"],
)
@pytest.mark.sampled(0)
def test_halves(dtype, precision, bars, form, device):
    inputs = Draw(2, 3, 70, 33, 40, initial=True, seed=3).inputs(dtype)
    h, states = called(form, inputs, device, precision=precision)
    assert h.dtype == dtype
    assert {state.dtype for state in states} == {mx.float32}
    judge(inputs, h, states, bars)


@pytest.mark.sampled(0)
def test_4096_steps_keep_every_digit(device):
    """The sum of 4,096 logarithms would lose them if it were one float."""
    inputs = Draw(1, 1, 4096, 8, 8, seed=5).inputs()
    h, states = called(FORMS["chunks of 64"], inputs, device)
    judge(inputs, h, states, Bars(h=1e-6))


@pytest.mark.parametrize("chunk_size", [31, 1, 2, 32, 33, 63, 64, 65, 1000])
def test_any_chunk_size(chunk_size, device):
    inputs = Draw(1, 3, 65, 8, 8, gates="capped", initial=True, seed=11).inputs()
    h, states = called(mlstm_chunkwise, inputs, device, chunk_size=chunk_size)
    judge(inputs, h, states)


# --- the edges (every form) --------------------------------------------------------------------


def with_gates(steps: int, **edits: tuple[slice | int, float]) -> Inputs:
    """Normal inputs, but for these steps of a gate."""
    inputs = Draw(1, 3, steps, 8, 8, seed=13).inputs()
    changes = {}
    for gate, (where, value) in edits.items():
        numbers = np.array(getattr(inputs, gate))
        numbers[..., where] = value
        changes[gate] = mx.array(numbers)
    return dataclasses.replace(inputs, **changes)


@pytest.mark.parametrize(
    "edits",
    [
        {"f": (20, -INF)},
        {"i": (slice(0, 7), -INF)},
        {"i": (slice(None), -INF)},
        {"i": (slice(0, 3), -INF), "f": (slice(0, 3), -INF)},
        {"i": (20, 100.0)},
        {"i": (slice(None), -100.0)},
        {"f": (slice(None), 40.0)},
        {"i": (slice(None), 85.0), "f": (slice(None), -85.0)},
    ],
    ids=str,
)
def test_gates_at_the_edge(edits, form, device):
    inputs = with_gates(66, **edits)
    h, states = called(form, inputs, device)
    assert not mx.any(mx.isnan(h)).item()
    judge(inputs, h, states)


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("initial", [False, True])
def test_no_step_and_one(steps, initial, form, device):
    inputs = Draw(2, 3, steps, 5, 3, initial=initial, seed=17).inputs()
    h, (c, n, m) = called(form, inputs, device)
    assert h.shape == (2, 3, steps, 3)
    judge(inputs, h, (c, n, m))
    if not steps and initial:
        for state, given_state in zip((c, n, m), inputs.states, strict=True):
            assert mx.array_equal(state, given_state).item()


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)], ids=["no batch", "no heads"])
def test_nothing_to_do(shape, form, device):
    batch, heads = shape
    inputs = Draw(batch, heads, 9, 5, 3).inputs()
    h, (c, n, m) = called(form, inputs, device)
    assert (h.shape, c.shape, n.shape, m.shape) == (
        (*shape, 9, 3),
        (*shape, 5, 3),
        (*shape, 5),
        (*shape, 1),
    )


def test_masked_steps_may_hold_anything(form, device):
    inputs = Draw(2, 3, 66, 8, 8, initial=True, masked=True, seed=19).inputs()
    expected, states = called(form, inputs, device)
    judge(inputs, expected, states)
    gone = mx.logical_not(inputs.mask)[:, None]
    filled = dataclasses.replace(
        inputs,
        **{x: mx.where(gone[..., None], math.nan, getattr(inputs, x)) for x in ("q", "k", "v")},
        **{x: mx.where(gone, math.nan, getattr(inputs, x)) for x in ("i", "f")},
    )
    h, after = called(form, filled, device)
    for one, other in zip((h, *after), (expected, *states), strict=True):
        assert mx.array_equal(one, other).item()


# --- forms and layouts -------------------------------------------------------------------------


def test_arrays_are_read_as_they_lie(form, device):
    """(B, S, NH, D) seen as (B, NH, S, D), and gates that are columns of a wider array."""
    inputs = Draw(2, 3, 40, 8, 12, seed=31).inputs()
    lying = {
        x: mx.contiguous(getattr(inputs, x).transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        for x in ("q", "k", "v")
    }
    gates = mx.contiguous(mx.stack([inputs.i, inputs.f], axis=-1))
    other = dataclasses.replace(inputs, **lying, i=gates[..., 0], f=gates[..., 1])
    h, states = called(form, other, device)
    expected, _ = called(form, inputs, device)
    assert mx.array_equal(h, expected).item()
    judge(inputs, h, states)


# --- errors ------------------------------------------------------------------------------------


def arguments(**changes: object) -> dict[str, object]:
    inputs = Draw(2, 3, 5, 8, 6, initial=True).inputs()
    c, n, m = inputs.states
    named = dict(zip("qkvif", inputs.sequence, strict=True))
    return {**named, "c_initial": c, "n_initial": n, "m_initial": m, **changes}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"q": mx.zeros((2, 3, 5))}, ValueError, r"q must be \(B, NH, S, DK\), got \(2, 3, 5\)"),
        ({"k": mx.zeros((2, 3, 5, 7))}, ValueError, r"k must have shape \(2, 3, 5, 8\)"),
        ({"v": mx.zeros((2, 3, 4, 6))}, ValueError, r"v must be \(B, NH, S, DV\)"),
        ({"i": mx.zeros((2, 3, 5, 1))}, ValueError, r"i must have shape \(2, 3, 5\)"),
        ({"f": mx.zeros((2, 3))}, ValueError, r"f must have shape \(2, 3, 5\)"),
        ({"i": mx.zeros((2, 5, 3))}, ValueError, "heads and steps are the other way round"),
        ({"q": mx.zeros((2, 3, 5, 8), dtype=mx.int32)}, TypeError, "q must be float32"),
        ({"v": mx.zeros((2, 3, 5, 6), dtype=mx.float16)}, TypeError, "must have one dtype"),
        ({"m_initial": None}, ValueError, "c, n and m come together, missing m:"),
        ({"c_initial": None, "n_initial": None}, ValueError, "missing c and n:"),
        ({"c_initial": mx.zeros((2, 3, 6, 8))}, ValueError, r"c must have shape \(2, 3, 8, 6\)"),
        ({"m_initial": mx.zeros((2, 1))}, ValueError, r"m must have shape \(2, 3, 1\)"),
        ({"mask": mx.zeros((2, 5))}, TypeError, "mask must be an array of booleans"),
        ({"mask": mx.zeros((5,), dtype=mx.bool_)}, ValueError, r"mask must have shape \(2, 5\)"),
        ({"eps": -1.0}, ValueError, "eps must not be negative"),
        ({"eps": mx.array(1.0)}, TypeError, "eps must be a number"),
        ({"chunk_size": 0}, ValueError, "chunk_size must be at least 1"),
        ({"chunk_size": 2.0}, TypeError, "chunk_size must be an int"),
        ({"backend": "opencl"}, ValueError, "unknown backend 'opencl'"),
        ({"precision": "low"}, ValueError, "precision must be one of 'default', 'high', got 'low'"),
    ],
)
def test_errors_name_what_is_wrong(changes, error, message):
    with pytest.raises(error, match=f"(mlstm_chunkwise: .*)?{message}"):
        mlstm_chunkwise(**arguments(**changes))
