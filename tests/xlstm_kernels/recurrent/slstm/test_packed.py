"""Sequences packed into rows: states and gradients are those of each sequence alone.

States are equal to the last bit. Gradients are those of the float64 definition of each sequence.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.conftest import wide
from tests.xlstm_kernels.recurrent.slstm.gradient_case import OPTIONS, Case, judge
from tests.xlstm_kernels.recurrent.slstm.gradient_oracle import Gradients, gradients
from xlstm_kernels.recurrent.slstm.sequence import slstm

LENGTHS = ((3, 1, 4), (1, 5, 2))  # of the sequences of each row
STEPS = 8
WIDTHS = (33, 1, 8, 65)
SEQ_IDX = mx.array([np.repeat((4, 1, 0), row).tolist() for row in LENGTHS])
PLACES = tuple(
    (row, begin, end)
    for row, lengths in enumerate(LENGTHS)
    for begin, end in itertools.pairwise(np.cumsum([0, *lengths]).tolist())
)
# On the left, in the middle, at the end of a sequence, and all of one.
MASK = np.ones((2, STEPS), bool)
MASK[0, [0, 2, 3, 4]] = MASK[1, [3, 5, 7]] = False


class Packed(Case):
    """A case of which each row has several sequences."""

    def expected(self, **options: object) -> Gradients:
        """The gradients of each sequence by itself, put together."""
        wx, r, b, initial = map(wide, self.arrays)
        of_states, of_last = map(wide, self.cotangents)
        every = Gradients(*map(np.zeros_like, (wx, r, b, initial)), np.zeros(wx.shape[:2]))
        mask = np.ones((2, STEPS), bool) if self.mask is None else np.array(self.mask)
        for row, begin, end in PLACES:
            one, now = slice(row, row + 1), slice(begin, end)
            goes_on = not mask[row, :begin].any()
            is_last = not mask[row, end:].any()
            start = initial[:, one] if goes_on else 0 * initial[:, one]
            given = of_states[:, one, now], is_last * of_last[:, one, 0]
            found = gradients(wx[one, now], r, b, start, given, mask=mask[one, now], **options)
            every.wx[one, now] = found.wx
            every.r[...] += found.r
            every.b[...] += found.b
            if goes_on:
                every.initial[:, one] = found.initial
        return every


@pytest.fixture
def draw_packed(draw_case):
    """A case of (2, STEPS, heads, units); with a mask, what masked steps give is not looked at."""

    def drawn(heads, units, *, masked=False, **settings) -> Packed:
        case = draw_case((2, STEPS, heads, units), **settings)
        cotangents, mask = case.cotangents, mx.array(MASK) if masked else None
        if masked:
            live = mask[None, :, :, None, None].astype(mx.float32)
            cotangents = cotangents[0] * live, cotangents[1]
        return Packed(case.inputs, case.initial, cotangents, mask, SEQ_IDX)

    return drawn


def alone(case: Packed, device: str):
    """The states of each sequence, (4, 1, S, N, D), and after its last step."""
    for row, begin, end in PLACES:
        initial = None if begin else case.initial[:, row : row + 1]
        sequence = case.inputs.wx[row : row + 1, begin:end]
        yield slstm(sequence, *case.inputs[1:], initial, backend=device)


def joined(pieces: list[mx.array], axis: int) -> mx.array:
    """The rows of six sequences, along the axis of time."""
    rows = [mx.concatenate(pieces[at : at + 3], axis=axis) for at in (0, 3)]
    return mx.concatenate(rows, axis=axis - 1)


def equal(one: mx.array, other: mx.array) -> bool:
    return mx.array_equal(one, other, equal_nan=True).item()


# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", WIDTHS)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_states_are_those_of_each_alone(units, scale, device, draw_packed):
    case = draw_packed(2, units, scale=scale)
    states, last = case.run(device)[0]
    pieces = list(alone(case, device))
    assert equal(states, joined([one for one, _ in pieces], axis=2))
    assert equal(last, mx.concatenate([pieces[2][1], pieces[5][1]], axis=1))


def test_masked_steps_belong_to_no_sequence(device, draw_packed):
    case = draw_packed(2, 8, masked=True)
    states, last = case.run(device)[0]
    for row, begin, end in PLACES:
        live = np.flatnonzero(MASK[row, begin:end]) + begin
        if not live.size:
            continue
        taken = mx.array(live)
        initial = case.initial[:, row : row + 1] if not MASK[row, :begin].any() else None
        inputs = case.inputs._replace(wx=case.inputs.wx[row : row + 1, taken])
        expected, ended = slstm(*inputs, initial, backend=device)
        assert equal(states[:, row : row + 1, taken], expected)
        if not MASK[row, end:].any():
            assert equal(last[:, row : row + 1], ended)
    gone = mx.array(~MASK).astype(mx.float32)[:, :, None, None]
    assert not mx.any(states[0] * gone).item()


def test_nothing_passes_a_beginning(device, draw_packed):
    """Neither NaN of the sequence before, nor backward NaN of the one after."""
    case = draw_packed(2, 5)
    wx = np.array(case.inputs.wx)
    wx[0, 1] = wx[1, 7] = math.nan
    spoilt = dataclasses.replace(case, inputs=case.inputs._replace(wx=mx.array(wx)))
    (clean, _), exact = case.run(device)
    (states, _), found = spoilt.run(device)
    assert equal(states[:, 0, 3:], clean[:, 0, 3:])
    assert equal(states[:, 1, :6], clean[:, 1, :6])
    assert np.isnan(np.array(found[0][0, :2])).any()
    assert equal(found[0][0, 3:], exact[0][0, 3:])
    assert equal(found[0][1, :6], exact[0][1, :6])


# --- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("units", WIDTHS)
@pytest.mark.parametrize("masked", [True, False])
def test_gradients(units, masked, device, draw_packed):
    """In the biases of the gates too, to which each sequence adds its part."""
    case = draw_packed(2, units, masked=masked)
    judge(case.computed(device), case.expected())


@pytest.mark.parametrize("options", list(OPTIONS.values())[1:], ids=list(OPTIONS)[1:])
def test_options(options, device, draw_packed):
    case = draw_packed(2, 8, masked=True)
    judge(case.computed(device, **options), case.expected(**options))


# --- launches and errors -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seq_idx", "error", "message"),
    [
        (mx.zeros((2, STEPS)), TypeError, "slstm: seq_idx must be an array of integers, got"),
        (SEQ_IDX[:1], ValueError, r"slstm: seq_idx must have shape \(2, 8\), \(B, S\)"),
    ],
)
def test_what_is_refused(seq_idx, error, message, draw_packed):
    with pytest.raises(error, match=message):
        slstm(*draw_packed(1, 2).inputs, seq_idx=seq_idx)
