"""The mLSTM over a sequence, step by step and in chunks, against its definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.xlstm_kernels.mlstm.comparing import Bars, Draw, Inputs, draws, judge, long_draws
from tests.xlstm_kernels.mlstm.conftest import FORMS
from xlstm_kernels.mlstm.chunkwise import mlstm_chunkwise
from xlstm_kernels.mlstm.sequence import mlstm_sequence
from xlstm_kernels.mlstm.sequence_kernel import KERNELS

INF = math.inf
ANY = settings(
    max_examples=settings.default.max_examples // 7,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
ORDINARY = Draw(2, 3, 40, 33, 40, initial=True, masked=True, seed=7)


def called(form: Callable, inputs: Inputs, device: str, **more: object):
    return form(
        *inputs.sequence,
        *(inputs.states or ()),
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
    judge(inputs, *called(form, inputs, device))


@given(draw=long_draws())
@settings(ANY, max_examples=2)
def test_long_sequences(draw, form, device):
    inputs = draw.inputs()
    judge(inputs, *called(form, inputs, device))


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
    more = {} if form is mlstm_sequence else {"precision": precision}  # whose precision is high
    h, states = called(form, inputs, device, **more)
    assert h.dtype == dtype
    assert {state.dtype for state in states} == {mx.float32}
    judge(inputs, h, states, bars)


def test_gates_and_states_of_other_dtypes(form, device):
    inputs = ORDINARY.inputs(mx.float16)
    inputs = replace(
        inputs,
        i=inputs.i.astype(mx.float32),
        f=inputs.f.astype(mx.bfloat16),
        states=tuple(state.astype(mx.bfloat16) for state in inputs.states),
    )
    judge(inputs, *called(form, inputs, device), Bars(h=1e-3))


@pytest.mark.sampled(0)
def test_4096_steps_keep_every_digit(device):
    """The sum of 4,096 logarithms would lose them if it were one float."""
    inputs = Draw(1, 1, 4096, 8, 8, seed=5).inputs()
    judge(inputs, *called(FORMS["chunks of 64"], inputs, device), Bars(h=1e-6))


@pytest.mark.parametrize("chunk_size", [31, 1, 2, 32, 33, 63, 64, 65, 1000])
def test_any_chunk_size(chunk_size, device):
    inputs = Draw(1, 3, 65, 8, 8, gates="capped", initial=True, seed=11).inputs()
    judge(inputs, *called(mlstm_chunkwise, inputs, device, chunk_size=chunk_size))


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("initial", [False, True])
def test_no_step_and_one(steps, initial, form, device):
    inputs = Draw(2, 3, steps, 5, 3, initial=initial, masked=True, seed=17).inputs(mx.float16)
    h, states = called(form, inputs, device)
    assert (h.shape, h.dtype) == ((2, 3, steps, 3), mx.float16)
    judge(inputs, h, states, Bars(h=1e-3))
    if not steps:
        for state, before in zip(states, inputs.states or (0, 0, 0), strict=True):
            assert mx.array_equal(state, mx.broadcast_to(before, state.shape)).item()


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)], ids=["no batch", "no heads"])
def test_nothing_to_do(shape, form, device):
    h, (c, n, m) = called(form, Draw(*shape, 9, 5, 3).inputs(), device)
    assert (h.shape, c.shape) == ((*shape, 9, 3), (*shape, 5, 3))
    assert (n.shape, m.shape) == ((*shape, 5), (*shape, 1))


# --- one sequence in several ways --------------------------------------------------------------


@pytest.mark.parametrize("gates", ["normal", "wide", "infinite"])
@pytest.mark.parametrize("split", [1, 33])
def test_split(gates, split, form, device):
    """The states of the first part are where the second one begins."""
    inputs = Draw(1, 3, 40, 8, 8, gates, initial=True, masked=True, seed=split).inputs()
    outputs, states = [], inputs.states
    for steps in (slice(split), slice(split, None)):
        arrays = (array[:, :, steps] for array in inputs.sequence)
        part = Inputs(*arrays, states=states, mask=inputs.mask[:, steps], eps=inputs.eps)
        h, states = called(form, part, device)
        outputs.append(h)
    judge(inputs, mx.concatenate(outputs, axis=2), states)


def test_arrays_are_read_as_they_lie(form, device):
    """q, k, v as (B, S, NH, D) seen from the side, gates in a wider array, C stored as C^T."""
    inputs = ORDINARY.inputs()
    c, n, m = inputs.states
    q, k, v = (mx.contiguous(x.swapaxes(1, 2)).swapaxes(1, 2) for x in inputs.sequence[:3])
    gates = mx.contiguous(mx.stack([inputs.i, inputs.f], axis=-1).swapaxes(1, 2)).swapaxes(1, 2)
    lying = Inputs(
        *(q, k, v, gates[..., 0], gates[..., 1]),
        states=(
            mx.contiguous(c.swapaxes(2, 3)).swapaxes(2, 3),
            mx.stack([n, n], axis=3)[..., 1],
            m,
        ),
        mask=mx.contiguous(inputs.mask.T).T,
    )
    h, states = called(form, lying, device)
    assert mx.array_equal(h, called(form, inputs, device)[0]).item()
    judge(inputs, h, states)


def test_masked_steps_may_hold_anything(form, device):
    """Left padding, right padding, and a hole; all that is masked is NaN."""
    kept = np.ones((3, 40), bool)
    kept[0, :35] = kept[1, 5:] = kept[2, 10:20] = False
    clean = replace(ORDINARY, batch=3, keys=8, values=8).inputs()
    clean = replace(clean, mask=mx.array(kept))

    def spoiled(array: mx.array) -> mx.array:
        live = clean.mask.reshape((3, 1, 40) + (1,) * (array.ndim - 3))
        return mx.where(live, array, mx.array(math.nan))

    filled = replace(clean, **dict(zip("qkvif", map(spoiled, clean.sequence), strict=True)))
    h, states = called(form, filled, device)
    judge(clean, h, states)
    expected, after = called(form, clean, device)
    for one, other in zip((h, *states), (expected, *after), strict=True):
        assert mx.array_equal(one, other).item()


# --- gates at their limits ---------------------------------------------------------------------


def gated(changes: Sequence[tuple[int | slice, float, float]], initial: bool = True) -> Inputs:
    """70 ordinary steps, but for the gates (i, f) of some."""
    inputs = Draw(1, 3, 70, 8, 8, initial=initial, seed=21).inputs()
    i, f = np.array(inputs.i), np.array(inputs.f)
    for place, gate, forget_gate in changes:
        i[:, :, place], f[:, :, place] = gate, forget_gate
    return replace(inputs, i=mx.array(i), f=mx.array(f))


CASES = {
    "a hard reset at the first step": [(0, 0.5, -INF)],
    "a hard reset in the middle": [(40, 0.5, -INF)],
    "nothing admitted at first": [(slice(5), -INF, 0.5)],
    "nothing admitted at all": [(slice(None), -INF, 0.5)],
    "all kept": [(slice(30, 40), 0.5, INF)],
    "nearly all kept": [(slice(None), 0.5, 40.0)],
    "nothing kept or admitted": [(40, -INF, -INF)],
    "nothing kept or admitted at first": [(slice(3), -INF, -INF)],
    "nothing kept or admitted at all": [(slice(None), -INF, -INF)],
    "a reset, and nothing for a while": [(40, -INF, -INF), (slice(41, 50), -INF, 2.0)],
    "big input gates": [(slice(None, None, 7), 100.0, 0.5)],
    "nothing but small input gates": [(slice(None), -100.0, -3.0)],
    "gates that cancel": [(slice(0, 70, 2), 99.9, -99.8), (slice(1, 70, 2), -99.7, -0.1)],
    "gates that cancel at each step": [(slice(None), 85.0, -85.0)],
}


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_gates_at_their_limits(case, initial, form, device):
    inputs = gated(CASES[case], initial)
    judge(inputs, *called(form, inputs, device))


def test_zero_divided_by_zero_is_zero(device):
    """With m = 110 the floor is no float32, without eps nothing else is in the denominator."""
    inputs = gated([(slice(None), 110.0, 0.5)])
    inputs = replace(inputs, q=mx.zeros_like(inputs.q), eps=0.0)
    h, _ = called(mlstm_sequence, inputs, device)
    assert not mx.any(h).item()


# --- what it costs -----------------------------------------------------------------------------


def test_threads_at_the_head_of_xlstm_7b():
    """Each threadgroup has 32 columns, so that heads of one sequence fill a GPU."""
    q, v, gate = mx.zeros((1, 8, 1, 256)), mx.zeros((1, 8, 1, 512)), mx.zeros((1, 8, 1))
    launch = KERNELS[False][False].launch(q, q, v, gate, gate)
    threadgroups = [g // t for g, t in zip(launch.grid, launch.threadgroup, strict=True)]
    assert threadgroups == [16, 8, 1]
    assert launch.threadgroup == (32, 8, 1)


# --- errors ------------------------------------------------------------------------------------


def arguments(**changes: object) -> dict[str, object]:
    inputs = Draw(2, 3, 5, 8, 6, initial=True).inputs()
    c, n, m = inputs.states
    named = dict(zip("qkvif", inputs.sequence, strict=True))
    return {**named, "c_initial": c, "n_initial": n, "m_initial": m, **changes}


@pytest.mark.parametrize("function", [mlstm_sequence, mlstm_chunkwise])
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"q": mx.zeros((2, 3, 5))}, ValueError, r"q must be \(B, NH, S, DK\), got \(2, 3, 5\)"),
        (
            {"k": mx.zeros((2, 3, 5, 7))},
            ValueError,
            r"k must have shape \(2, 3, 5, 8\), that of q; got \(2, 3, 5, 7\)",
        ),
        (
            {"v": mx.zeros((2, 3, 4, 6))},
            ValueError,
            r"v must be \(B, NH, S, DV\) = \(2, 3, 5, 'DV'\), got \(2, 3, 4, 6\)",
        ),
        ({"v": mx.zeros((2, 3, 5, 0))}, ValueError, "need a last axis that is not empty"),
        ({"i": mx.zeros((2, 3, 5, 1))}, ValueError, r"i must have shape \(2, 3, 5\), \(B, NH, S\)"),
        ({"f": mx.zeros((2, 3))}, ValueError, r"f must have shape \(2, 3, 5\)"),
        ({"i": mx.zeros((2, 5, 3))}, ValueError, "heads and steps are the other way round"),
        ({"q": mx.zeros((2, 3, 5, 8), dtype=mx.int32)}, TypeError, "q must be float32"),
        ({"v": mx.zeros((2, 3, 5, 6), dtype=mx.float16)}, TypeError, "must have one dtype"),
        ({"m_initial": None}, ValueError, "c, n and m come together, missing m:"),
        ({"c_initial": None, "n_initial": None}, ValueError, "missing c and n:"),
        ({"c_initial": mx.zeros((2, 3, 6, 8))}, ValueError, r"c must have shape \(2, 3, 8, 6\)"),
        ({"m_initial": mx.zeros((2, 1))}, ValueError, r"m must have shape \(2, 3, 1\)"),
        ({"mask": mx.zeros((2, 5))}, TypeError, "mask must be an array of booleans"),
        (
            {"mask": mx.zeros((5,), dtype=mx.bool_)},
            ValueError,
            r"mask must have shape \(2, 5\), \(B, S\)",
        ),
        ({"eps": -1.0}, ValueError, "eps must not be negative"),
        ({"eps": mx.array(1.0)}, TypeError, "eps must be a number"),
    ],
)
def test_errors_name_what_is_wrong(changes, error, message, function):
    with pytest.raises(error, match=f"^{function.__name__}: .*{message}"):
        function(**arguments(**changes))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"chunk_size": 0}, ValueError, "chunk_size must be at least 1"),
        ({"chunk_size": 2.0}, TypeError, "chunk_size must be an int"),
        ({"backend": "opencl"}, ValueError, "unknown backend 'opencl'"),
        ({"precision": "low"}, ValueError, "precision must be one of 'default', 'high', got 'low'"),
    ],
)
def test_rejects_options(changes, error, message):
    with pytest.raises(error, match=message):
        mlstm_chunkwise(**arguments(**changes))


def test_rejects_heads_too_wide_for_the_kernel(simulator):
    q, v = mx.zeros((1, 1, 1, 16385)), mx.zeros((1, 1, 1, 1))
    with pytest.raises(ValueError, match="a DK of up to 16384, got 16385; use backend='native'"):
        mlstm_sequence(q, q, v, v[..., 0], v[..., 0], backend="metal")
