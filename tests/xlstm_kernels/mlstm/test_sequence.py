"""mlstm_sequence against the definition in float64."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.xlstm_kernels.mlstm.comparing import Bars, Draw, Inputs, draws, judge, long_draws
from xlstm_kernels.mlstm.sequence import mlstm_sequence
from xlstm_kernels.mlstm.sequence_kernel import KERNELS

if TYPE_CHECKING:
    from collections.abc import Sequence

INF = math.inf
HYPOTHESIS = settings(
    max_examples=settings.default.max_examples // 7,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
LONG = settings(HYPOTHESIS, max_examples=2)
ORDINARY = Draw(2, 3, 7, 33, 40, initial=True, seed=7)


def run(inputs: Inputs, backend: str) -> tuple[mx.array, tuple[mx.array, ...]]:
    return mlstm_sequence(
        *inputs.sequence,
        *(inputs.states or ()),
        return_last_states=True,
        eps=inputs.eps,
        mask=inputs.mask,
        backend=backend,
    )


def part(inputs: Inputs, steps: slice, states: tuple[mx.array, ...] | None) -> Inputs:
    """Some of the steps, from other states on."""
    arrays = (array[:, :, steps] for array in inputs.sequence)
    mask = None if inputs.mask is None else inputs.mask[:, steps]
    return Inputs(*arrays, states=states, mask=mask, eps=inputs.eps)


@pytest.mark.sampled(0)
@given(draw=draws())
@HYPOTHESIS
def test_any_sequence(draw, device):
    inputs = draw.inputs()
    judge(inputs, *run(inputs, device))


@given(draw=long_draws())
@LONG
def test_long_sequences(draw, device):
    inputs = draw.inputs()
    judge(inputs, *run(inputs, device))


def test_dtypes(device, precision):
    inputs = replace(ORDINARY, masked=True).inputs(precision.dtype)
    h, states = run(inputs, device)
    assert h.dtype == precision.dtype
    assert [state.dtype for state in states] == [mx.float32] * 3
    judge(inputs, h, states, Bars(h=precision.value))


def test_gates_and_states_of_other_dtypes(device):
    inputs = ORDINARY.inputs(mx.float16)
    inputs = replace(
        inputs,
        i=inputs.i.astype(mx.float32),
        f=inputs.f.astype(mx.bfloat16),
        states=tuple(state.astype(mx.bfloat16) for state in inputs.states),
    )
    judge(inputs, *run(inputs, device), Bars(h=1e-3))


@pytest.mark.parametrize("initial", [False, True])
def test_no_steps(device, initial):
    inputs = replace(ORDINARY, steps=0, initial=initial, masked=True).inputs(mx.float16)
    h, (c, n, m) = run(inputs, device)
    assert (h.shape, h.dtype) == ((2, 3, 0, 40), mx.float16)
    expected = inputs.states or [mx.zeros(shape) for shape in (c.shape, n.shape, m.shape)]
    assert (c.shape, n.shape, m.shape) == ((2, 3, 33, 40), (2, 3, 33), (2, 3, 1))
    for one, other in zip((c, n, m), expected, strict=True):
        assert mx.array_equal(one, other).item()


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0)], ids=str)
def test_no_heads(device, sizes):
    h, (c, n, m) = run(Draw(*sizes, 4, 5, 3).inputs(), device)
    assert (h.shape, c.shape) == ((*sizes, 4, 3), (*sizes, 5, 3))
    assert (n.shape, m.shape) == ((*sizes, 5), (*sizes, 1))


# --- one sequence in several ways --------------------------------------------------------------


@pytest.mark.parametrize("gates", ["normal", "wide", "infinite"])
@pytest.mark.parametrize("split", [1, 33])
def test_split(device, gates, split):
    """The states of the first part are where the second one begins."""
    inputs = Draw(1, 3, 40, 8, 8, gates, initial=True, masked=True, seed=split).inputs()
    first, states = run(part(inputs, slice(split), inputs.states), device)
    second, states = run(part(inputs, slice(split, None), states), device)
    judge(inputs, mx.concatenate([first, second], axis=2), states)


def test_inputs_that_do_not_lie_in_order(device):
    """q, k, v as (B, S, NH, D) and gates as (B, S, NH) seen from the side, C stored as C^T."""
    inputs = replace(ORDINARY, masked=True).inputs()

    def from_the_side(array: mx.array) -> mx.array:
        return mx.contiguous(array.swapaxes(1, 2)).swapaxes(1, 2)

    c, n, m = inputs.states
    c = mx.contiguous(c.swapaxes(2, 3)).swapaxes(2, 3)
    n = mx.stack([n, n], axis=3)[..., 1]
    mask = mx.contiguous(inputs.mask.T).T
    q, k, v, i, f = map(from_the_side, inputs.sequence)
    strided = Inputs(q, k, v, i, f, (c, n, m), mask)
    judge(inputs, *run(strided, device))


# --- mask --------------------------------------------------------------------------------------


def test_masked_steps_may_hold_anything(device):
    """Left padding, right padding, and a hole; all that is masked is NaN."""
    kept = np.ones((3, 40), bool)
    kept[0, :35] = kept[1, 5:] = kept[2, 10:20] = False
    inputs = replace(ORDINARY, batch=3, steps=40, keys=8, values=8).inputs()
    clean = replace(inputs, mask=mx.array(kept))

    def spoiled(array: mx.array) -> mx.array:
        live = clean.mask.reshape((3, 1, 40) + (1,) * (array.ndim - 3))
        return mx.where(live, array, mx.array(math.nan))

    h, states = run(
        replace(clean, **dict(zip("qkvif", map(spoiled, inputs.sequence), strict=True))), device
    )
    judge(clean, h, states)


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
    "nothing kept or admitted": [(40, -INF, -INF)],
    "nothing kept or admitted at all": [(slice(None), -INF, -INF)],
    "a reset, and nothing for a while": [(40, -INF, -INF), (slice(41, 50), -INF, 2.0)],
    "big input gates": [(slice(None, None, 7), 100.0, 0.5)],
    "nothing but small input gates": [(slice(None), -100.0, -3.0)],
    "gates that cancel": [(slice(0, 70, 2), 99.9, -99.8), (slice(1, 70, 2), -99.7, -0.1)],
}


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_gates_at_their_limits(device, case, initial):
    inputs = gated(CASES[case], initial)
    judge(inputs, *run(inputs, device))


def test_zero_divided_by_zero_is_zero(device):
    """With m = 110 the floor is no float32, without eps nothing else is in the denominator."""
    inputs = gated([(slice(None), 110.0, 0.5)])
    inputs = replace(inputs, q=mx.zeros_like(inputs.q), eps=0.0)
    h, _ = run(inputs, device)
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

FITTING = {"q": (2, 3, 7, 5), "k": (2, 3, 7, 5), "v": (2, 3, 7, 4), "i": (2, 3, 7), "f": (2, 3, 7)}


def call(**changes: object) -> None:
    arrays = {name: mx.zeros(shape) for name, shape in FITTING.items()}
    mlstm_sequence(**(arrays | changes))


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("q", (2, 3, 5), r"q must be \(B, NH, S, DK\), got \(2, 3, 5\)"),
        ("k", (2, 3, 7, 6), r"k must have shape \(2, 3, 7, 5\), that of q; got \(2, 3, 7, 6\)"),
        ("v", (2, 3, 8, 4), r"v must be \(B, NH, S, DV\) = \(2, 3, 7, 'DV'\), got \(2, 3, 8, 4\)"),
        ("v", (2, 3, 7, 0), "need a last axis that is not empty"),
        ("i", (2, 3, 7, 1), r"i must have shape \(2, 3, 7\), \(B, NH, S\)"),
        ("f", (2, 7, 3), r"f must have shape \(2, 3, 7\)"),
    ],
)
def test_rejects_shapes(name, shape, message):
    with pytest.raises(ValueError, match=f"mlstm_sequence: .*{message}"):
        call(**{name: mx.zeros(shape)})


def test_rejects_initial_states():
    c, n, m = mx.zeros((2, 3, 5, 4)), mx.zeros((2, 3, 5)), mx.zeros((2, 3, 1))
    with pytest.raises(ValueError, match=r"mlstm_sequence: .* come together, missing m:"):
        call(c_initial=c, n_initial=n)
    with pytest.raises(ValueError, match=r"c must have shape \(2, 3, 5, 4\)"):
        call(c_initial=c.swapaxes(2, 3), n_initial=n, m_initial=m)
    with pytest.raises(ValueError, match=r"m must have shape \(2, 3, 1\)"):
        call(c_initial=c, n_initial=n, m_initial=mx.zeros((3, 1)))


def test_rejects_masks():
    with pytest.raises(TypeError, match="mlstm_sequence: mask must be an array of booleans"):
        call(mask=mx.ones((2, 7)))
    with pytest.raises(ValueError, match=r"mask must have shape \(2, 7\), \(B, S\)"):
        call(mask=mx.zeros((2, 3, 7), dtype=mx.bool_))


def test_rejects_heads_too_wide_for_the_kernel(simulator):
    q, v = mx.zeros((1, 1, 1, 16385)), mx.zeros((1, 1, 1, 1))
    with pytest.raises(ValueError, match="a DK of up to 16384, got 16385; use backend='native'"):
        call(q=q, k=q, v=v, i=v[..., 0], f=v[..., 0], backend="metal")
