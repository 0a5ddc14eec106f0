"""NaN and infinity stay in their sequence, and reach no earlier step of it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from xlstm_kernels import (
    causal_conv1d,
    lstm,
    mlstm_chunkwise,
    mlstm_sequence,
    mlstm_siging_chunkwise,
    seq_idx_from_cu_seqlens,
    slstm,
)

HEADS, STEPS, CHUNK = 2, 21, 8
ENDS = (0, 5, 6, 13, 21)  # of chunks and of sequences are different places
FORMS = {
    "exponential": mlstm_chunkwise,
    "sigmoid": mlstm_siging_chunkwise,
    "sigmoid, not normalized": functools.partial(mlstm_siging_chunkwise, normalize=False),
}
NAMES = ("q", "k", "v", "i", "f")
WIDTHS = (5, 5, 3, None, None)  # last axes of q, k, v, i and f
ANY = settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
BAD = st.sampled_from((math.nan, math.inf, -math.inf))
VALUE, GRADIENT = 2e-6, 5e-6


@dataclass(frozen=True, slots=True)
class Planted:
    """A number that is not finite, and the place that it takes."""

    name: str
    value: float
    step: int
    seed: int = 0

    def within(self, arrays: list[mx.array]) -> list[mx.array]:
        """`arrays` with the number in the first head and the last column of one of them."""
        place = NAMES.index(self.name)
        spoilt = np.array(arrays[place])
        at = (0, 0, self.step) if spoilt.ndim == 3 else (0, 0, self.step, -1)
        spoilt[at] = self.value
        return [*arrays[:place], mx.array(spoilt), *arrays[place + 1 :]]

    def is_allowed(self, form: str) -> bool:
        """True for gates that are open or closed, and a forget gate that a reset replaces."""
        resets = self.name == "f" and self.step in ENDS[1:]
        opened = ("f", math.inf), ("f", -math.inf), ("i", -math.inf)
        opens = form != "exponential" and (self.name, self.value) == ("i", math.inf)
        return resets or opens or (self.name, self.value) in opened

    def sequence(self) -> tuple[int, int]:
        """Where the sequence of the step begins and ends."""
        end = next(end for end in ENDS if end > self.step)
        return ENDS[ENDS.index(end) - 1], end


def planted(names: tuple[str, ...] = NAMES) -> st.SearchStrategy[Planted]:
    steps, seeds = st.integers(0, STEPS - 1), st.integers(0, 2**32 - 1)
    return st.builds(Planted, st.sampled_from(names), BAD, steps, seeds)


@pytest.fixture
def drawn(draw) -> Callable[[Planted], list[mx.array]]:
    """Make q, k, v, i and f of one row, the same ones for the same example."""

    def arrays(one: Planted) -> list[mx.array]:
        draw.restart(one.seed)
        scales = (1, 1, 1, 3, 3)
        return [
            draw((1, HEADS, STEPS, *(() if width is None else (width,))), mx.float32, scale)
            for width, scale in zip(WIDTHS, scales, strict=True)
        ]

    return arrays


def numbers() -> mx.array:
    return seq_idx_from_cu_seqlens(list(ENDS), STEPS)


def close(actual: mx.array, expected: mx.array, bar: float) -> bool:
    """True for finite arrays that are as near to each other as roundings of the whole allow."""
    difference, norm = (mx.linalg.norm(array).item() for array in (actual - expected, expected))
    return difference <= bar * norm


def all_nan(array: mx.array) -> bool:
    return bool(mx.all(mx.isnan(array)).item())


def computed(
    run: Callable[..., tuple[mx.array, ...]], arrays: list[mx.array], cotangents: list[mx.array]
) -> tuple[list[mx.array], list[mx.array]]:
    """The outputs and the gradients."""
    return mx.vjp(run, arrays, cotangents)


# --- the mLSTM, packed -------------------------------------------------------------------------


def packed(form: str, device: str, mask: mx.array | None = None) -> Callable[..., tuple]:
    """A form that takes arrays alone, and returns h and the last states."""
    given = {"chunk_size": CHUNK, "seq_idx": numbers(), "mask": mask, "backend": device}

    def run(*arrays: mx.array) -> tuple[mx.array, ...]:
        h, last = FORMS[form](*arrays, return_last_states=True, **given)
        return h, *last

    return run


@pytest.mark.parametrize("form", FORMS)
@given(one=planted())
@example(one=Planted("v", math.nan, 9))
@example(one=Planted("f", math.nan, 6))
@example(one=Planted("i", math.inf, 5))
@ANY
def test_other_sequences_of_the_mlstm_are_as_alone(one, form, device, drawn, draw):
    arrays = drawn(one)
    run = packed(form, device)
    cotangents = [draw(array.shape, mx.float32) for array in run(*arrays)]
    begin, end = one.sequence()
    clean, found = (computed(run, each, cotangents) for each in (arrays, one.within(arrays)))
    for expected, actual in zip((clean[0][0], *clean[1]), (found[0][0], *found[1]), strict=True):
        assert close(actual[:, :, :begin], expected[:, :, :begin], GRADIENT)
        assert close(actual[:, :, end:], expected[:, :, end:], GRADIENT)
        assert close(actual[:, 1:], expected[:, 1:], GRADIENT)
    if end < STEPS:
        assert all(close(*states, VALUE) for states in zip(found[0][1:], clean[0][1:], strict=True))
    if not one.is_allowed(form):
        assert all_nan(found[0][0][:, 0, one.step])
        assert all(all_nan(gradient[:, 0, begin : one.step + 1]) for gradient in found[1])


@given(value=BAD, step=st.integers(0, STEPS - 1), of_states=st.booleans())
@ANY
def test_gradients_of_other_sequences_ignore_a_cotangent(
    value, step, of_states, device, drawn, draw
):
    at = STEPS - 1 if of_states else step
    one = Planted("v", value, at)
    arrays, run = drawn(one), packed("exponential", device)
    cotangents = [draw(array.shape, mx.float32) for array in run(*arrays)]
    spoilt = np.array(cotangents[int(of_states)])
    spoilt[(0, 0, 0, 1) if of_states else (0, 0, step, 1)] = value
    begin, end = one.sequence()
    _, clean = computed(run, arrays, cotangents)
    cotangents[int(of_states)] = mx.array(spoilt)
    _, found = computed(run, arrays, cotangents)
    for expected, actual in zip(clean, found, strict=True):
        assert close(actual[:, :, :begin], expected[:, :, :begin], GRADIENT)
        assert close(actual[:, :, end:], expected[:, :, end:], GRADIENT)
        assert all_nan(actual[:, 0, begin : at + 1])


@given(value=BAD, place=st.integers(0, 2))
@ANY
def test_initial_states_stay_in_the_first_sequence(value, place, device, drawn, draw):
    arrays = drawn(Planted("q", value, 0))
    states = [draw(shape, mx.float32) for shape in ((1, HEADS, 5, 3), (1, HEADS, 5), (1, HEADS, 1))]
    spoilt = np.array(states[place])
    spoilt[(0, 0, *(0,) * (spoilt.ndim - 2))] = value
    run = packed("exponential", device)
    clean = run(*arrays, *states)
    states[place] = mx.array(spoilt)
    found = run(*arrays, *states)
    assert close(found[0][:, :, ENDS[1] :], clean[0][:, :, ENDS[1] :], VALUE)
    assert all(close(*pair, VALUE) for pair in zip(found[1:], clean[1:], strict=True))
    if (place, value) != (2, -math.inf):
        assert all_nan(found[0][:, 0, : ENDS[1]])


@given(one=planted())
@ANY
def test_masked_steps_count_for_nothing(one, device, drawn, draw):
    arrays = drawn(one)
    mask = mx.arange(STEPS)[None] != one.step
    run = packed("exponential", device, mask)
    cotangents = [draw(array.shape, mx.float32) for array in run(*arrays)]
    spoilt = np.array(cotangents[0])
    spoilt[0, 0, one.step, 0] = one.value
    clean = computed(run, arrays, cotangents)
    found = computed(run, one.within(arrays), [mx.array(spoilt), *cotangents[1:]])
    for expected, actual in zip((*clean[0], *clean[1]), (*found[0], *found[1]), strict=True):
        assert close(actual, expected, VALUE)


@given(one=planted())
@ANY
def test_seq_idx_of_one_sequence_keeps_earlier_steps(one, device, drawn, draw):
    arrays = drawn(one)
    cotangent = draw((1, HEADS, STEPS, WIDTHS[2]), mx.float32)
    cotangent = mx.where(mx.arange(STEPS)[:, None] < one.step, cotangent, mx.array(0.0))

    def run(*arrays):
        whole = mx.zeros((1, STEPS), dtype=mx.int32)
        return (mlstm_chunkwise(*arrays, chunk_size=CHUNK, seq_idx=whole, backend=device),)

    clean, found = (computed(run, each, [cotangent]) for each in (arrays, one.within(arrays)))
    for expected, actual in zip((*clean[0], *clean[1]), (*found[0], *found[1]), strict=True):
        assert close(actual[:, :, : one.step], expected[:, :, : one.step], GRADIENT)


# --- without seq_idx ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@given(one=planted(("q", "k", "i", "f")))
@ANY
def test_all_but_values_reach_no_earlier_step(one, form, device, drawn):
    arrays = drawn(one)
    clean, found = (
        FORMS[form](*each, chunk_size=CHUNK, backend=device)[:, :, : one.step]
        for each in (arrays, one.within(arrays))
    )
    assert close(found, clean, VALUE)


@given(one=planted())
@ANY
def test_a_sequence_step_by_step_keeps_earlier_steps(one, device, drawn):
    arrays = drawn(one)
    clean, found = (
        mlstm_sequence(*each, backend=device)[:, :, : one.step]
        for each in (arrays, one.within(arrays))
    )
    assert close(found, clean, VALUE)


@given(one=planted(("q",)))
@ANY
def test_the_lstm_keeps_earlier_steps(one, draw):
    draw.restart(one.seed)
    wx, r, b = (draw(shape, mx.float32) for shape in ((1, STEPS, 4, 1, 5), (4, 1, 5, 5), (4, 1, 5)))
    spoilt = np.array(wx)
    spoilt[0, one.step, one.seed % 4, 0, 2] = one.value
    clean, found = (lstm(array, r, b)[0][:, :, : one.step] for array in (wx, mx.array(spoilt)))
    assert close(found, clean, VALUE)


# --- the sLSTM and the convolution -------------------------------------------------------------


@given(one=planted(("q",)), together=st.booleans())
@example(one=Planted("q", math.nan, 8), together=True)
@ANY
def test_the_slstm_keeps_other_sequences_and_earlier_steps(one, together, device, draw):
    draw.restart(one.seed)
    wx, r, b = (draw(shape, mx.float32) for shape in ((1, STEPS, 4, 1, 5), (4, 1, 5, 5), (4, 1, 5)))
    begin, end = one.sequence()
    spoilt = np.array(wx)
    spoilt[0, one.step, one.seed % 4, 0, 2] = one.value

    def run(wx):
        return slstm(wx, r, b, seq_idx=numbers() if together else None, backend=device)

    cotangents = [draw(array.shape, mx.float32) for array in run(wx)]
    clean, found = (computed(run, [array], cotangents) for array in (wx, mx.array(spoilt)))
    expected, actual = clean[0][0], found[0][0]
    assert close(actual[:, :, : one.step], expected[:, :, : one.step], VALUE)
    if together:
        assert close(actual[:, :, end:], expected[:, :, end:], VALUE)
        for part in (slice(begin), slice(end, None)):
            assert close(found[1][0][:, part], clean[1][0][:, part], GRADIENT)


@given(one=planted(("q",)), together=st.booleans())
@example(one=Planted("q", math.nan, 5), together=True)
@ANY
def test_the_convolution_keeps_other_sequences_and_earlier_steps(one, together, device, draw):
    draw.restart(one.seed)
    x, weight = draw((1, STEPS, 3), mx.float32), draw((3, 4), mx.float32)
    begin, end = one.sequence()
    spoilt = np.array(x)
    spoilt[0, one.step, 1] = one.value

    numbered = numbers() if together else None

    def run(x):
        return (causal_conv1d(x, weight, activation="silu", seq_idx=numbered, backend=device),)

    cotangent = draw(x.shape, mx.float32)
    clean, found = (computed(run, [array], [cotangent]) for array in (x, mx.array(spoilt)))
    assert close(found[0][0][:, : one.step], clean[0][0][:, : one.step], VALUE)
    if together:
        for expected, actual in zip((*clean[0], *clean[1]), (*found[0], *found[1]), strict=True):
            for part in (slice(begin), slice(end, None)):
                assert close(actual[:, part], expected[:, part], GRADIENT)
