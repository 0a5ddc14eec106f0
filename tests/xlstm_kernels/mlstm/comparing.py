"""Draws inputs of the mLSTM, and judges what comes out of them by the definition in float64.

A rounding error of q . n' is magnified where its terms cancel, and so is one of q . C'. No way to
compute in float32 escapes that. Steps where terms cancel are judged by what is possible there; all
others have to keep the bar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.xlstm_kernels.conftest import wide
from tests.xlstm_kernels.mlstm import oracle

ROUNDING = 2.0**-24
# How much bigger the terms of a step may be than their sum for the bar of h to judge. Each term has
# two roundings at least, of its weight and of the product: 2 ROUNDING times 16 is 1.9e-6, below it.
MILD = 16.0
# Where exp(-m) is infinite in float32, h is zero; the definition's h is smaller than this then.
# And float32 loses digits below 1.2e-38, or takes such numbers for zero.
NEGLIGIBLE = 1e-36

GATES = ("normal", "capped", "wide", "infinite")
WIDTHS = ((8, 8), (5, 3), (33, 40), (64, 96))
LENGTHS = (0, 1, 2, 5, 63, 64, 65)


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of a call, and what they are in float64.

    Attributes:
        q: (B, NH, S, DK), and k; v: (B, NH, S, DV).
        i: (B, NH, S), and f.
        states: c, n, m (B, NH, 1), or None for the zero state.
        mask: (B, S), or None.
        eps: of the denominator.
    """

    q: mx.array
    k: mx.array
    v: mx.array
    i: mx.array
    f: mx.array
    states: tuple[mx.array, mx.array, mx.array] | None = None
    mask: mx.array | None = None
    eps: float = 1e-6

    @property
    def sequence(self) -> tuple[mx.array, ...]:
        return self.q, self.k, self.v, self.i, self.f

    def expected(
        self, dtype: type[np.floating] = np.float64, *, magnitudes: bool = False
    ) -> oracle.Result:
        """What the definition makes of them; with `magnitudes`, of their absolute numbers."""
        numbers = [wide(array) for array in (*self.sequence, *(self.states or ()))]
        if magnitudes:
            signed = (0, 1, 2, 5, 6)
            numbers = [np.abs(x) if place in signed else x for place, x in enumerate(numbers)]
        return self.of_numbers(numbers, dtype)

    def of_numbers(
        self, numbers: Sequence[NDArray[np.float64]], dtype: type[np.floating] = np.float64
    ) -> oracle.Result:
        """What the definition makes of other q, k, v, i, f (, c, n, m), and this mask and eps."""
        mask = None if self.mask is None else wide(self.mask) != 0
        states = (*numbers[5:7], numbers[7][..., 0]) if self.states is not None else None
        return oracle.mlstm(*numbers[:5], states, eps=self.eps, mask=mask, dtype=dtype)


@dataclass(frozen=True, slots=True)
class Draw:
    """Inputs, as sizes and a seed: what hypothesis shows of an example is all that made it."""

    batch: int
    heads: int
    steps: int
    keys: int
    values: int
    gates: str = "normal"
    initial: bool = False
    masked: bool = False
    eps: float = 1e-6
    seed: int = 0

    def inputs(self, dtype: mx.Dtype = mx.float32) -> Inputs:
        """The arrays; q, k, v and the gates have `dtype`, the states are float32."""
        generator = np.random.default_rng(self.seed)
        leading = (self.batch, self.heads)
        over_time = (*leading, self.steps)
        q, k = (generator.standard_normal((*over_time, self.keys)) for _ in "qk")
        v = generator.standard_normal((*over_time, self.values))
        i, f = drawn_gates(generator, self.gates, over_time)
        states, mask = None, None
        if self.initial:
            scale = 50 if self.gates == "wide" else 3
            c = generator.standard_normal((*leading, self.keys, self.values))
            n = generator.standard_normal((*leading, self.keys))
            m = generator.standard_normal((*leading, 1)) * scale
            if self.gates == "infinite":  # some heads have no past at all
                none = generator.random((*leading, 1)) < 0.3
                m[none] = -np.inf
                n = np.where(none, 0, n)
                c = np.where(none[..., None], 0, c)
            states = tuple(mx.array(state.astype(np.float32)) for state in (c, n, m))
        if self.masked:
            mask = mx.array(generator.random((self.batch, self.steps)) < 0.7)
        arrays = (mx.array(x.astype(np.float32)).astype(dtype) for x in (q, k, v, i, f))
        return Inputs(*arrays, states=states, mask=mask, eps=self.eps)


def drawn_gates(
    generator: np.random.Generator, kind: str, shape: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """i and f before their activations, one of the kinds in `GATES`."""
    if kind == "normal":
        return generator.standard_normal(shape), generator.standard_normal(shape) + 1
    if kind == "capped":  # as xLSTM bounds them
        return generator.uniform(-15, 15, shape), generator.uniform(-15, 15, shape)
    if kind == "wide":
        return generator.uniform(-100, 100, shape), generator.uniform(-100, 100, shape)
    assert kind == "infinite"
    i, f = generator.standard_normal(shape), generator.standard_normal(shape) + 1
    for gate, value, share in ((i, -np.inf, 0.2), (f, -np.inf, 0.1), (f, np.inf, 0.1)):
        gate[generator.random(shape) < share] = value
    i[..., : generator.integers(0, 4)] = -np.inf
    return i, f


def draws(
    *,
    lengths: Sequence[int] = LENGTHS,
    widths: Sequence[tuple[int, int]] = WIDTHS,
    gates: Sequence[str] = GATES,
    initial: st.SearchStrategy[bool] = st.booleans(),  # noqa: B008  (strategies are values)
    masked: st.SearchStrategy[bool] = st.booleans(),  # noqa: B008
) -> st.SearchStrategy[Draw]:
    """Draws of few sizes, since each may compile a kernel, and of any gates."""

    def sized(width: tuple[int, int]) -> st.SearchStrategy[Draw]:
        return st.builds(
            Draw,
            batch=st.integers(1, 3),
            heads=st.sampled_from((1, 3)),
            steps=st.sampled_from(lengths),
            keys=st.just(width[0]),
            values=st.just(width[1]),
            gates=st.sampled_from(gates),
            initial=initial,
            masked=masked,
            eps=st.sampled_from((1e-6, 0.0, 1e-3)),
            seed=st.integers(0, 2**32 - 1),
        )

    return st.sampled_from(widths).flatmap(sized)


def long_draws() -> st.SearchStrategy[Draw]:
    """Sequences of 500 steps, of small heads."""
    return draws(lengths=(500,), widths=WIDTHS[:2]).map(lambda draw: replace(draw, batch=1))


# --- judgement ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bars:
    """Relative L2 errors that are allowed: of h, and of the states c and n."""

    h: float = 2e-6
    states: float = 1e-6


@dataclass(frozen=True, slots=True)
class Errors:
    """What was measured: relative L2 errors, m's largest distance, and shares of what is allowed.

    Attributes:
        h: of h where nothing cancels.
        cancelling: of h elsewhere, over what is possible there.
        c: of the state C, in the gauge of the m returned.
        n: of the state n.
        m: of m, over what is allowed, its last two bits or 1e-6.
    """

    h: float = 0.0
    cancelling: float = 0.0
    c: float = 0.0
    n: float = 0.0
    m: float = 0.0


def judge(
    inputs: Inputs,
    h: mx.array,
    states: tuple[mx.array, mx.array, mx.array] | None = None,
    bars: Bars = Bars(),
) -> Errors:
    """Hold h, and the states where they are given, to the definition; return the errors."""
    errors = measure(inputs, h, states, bars)
    assert errors.h <= bars.h, errors
    assert errors.cancelling <= 1, errors
    assert errors.c <= bars.states, errors
    assert errors.n <= bars.states, errors
    assert errors.m <= 1, errors
    return errors


def measure(
    inputs: Inputs,
    h: mx.array,
    states: tuple[mx.array, mx.array, mx.array] | None = None,
    bars: Bars = Bars(),
) -> Errors:
    """The errors of h, and of the states where they are given."""
    expected = inputs.expected()
    mild, cancelling = _h_errors(inputs, wide(h), expected, bars)
    if states is None:
        return Errors(mild, cancelling)
    # Of m's dtype, in units of float32.
    coarseness = mx.finfo(states[2].dtype).eps / mx.finfo(mx.float32).eps
    c, n, m = map(wide, states)
    assert m.shape == (*expected.m.shape, 1)
    m = m[..., 0]
    nothing = np.isneginf(expected.m)
    assert np.array_equal(nothing, np.isneginf(m))
    distance = np.where(nothing, 0, expected.m) - np.where(nothing, 0, m)
    last_bit = np.spacing(np.abs(np.where(nothing, 0, m)).astype(np.float32))
    allowed = np.maximum(1e-6, 2 * last_bit) * coarseness
    gauge = np.exp(distance)
    return Errors(
        mild,
        cancelling,
        c=_state_error(c, expected.c * gauge[..., None, None]),
        n=_state_error(n, expected.n * gauge[..., None]),
        m=float(np.max(np.abs(distance) / allowed, initial=0)),
    )


def _h_errors(
    inputs: Inputs, h: NDArray[np.float64], result: oracle.Result, bars: Bars
) -> tuple[float, float]:
    """The relative error where nothing cancels; elsewhere the share of what is possible."""
    assert h.shape == result.h.shape
    expected = np.where(np.abs(result.h) < NEGLIGIBLE, 0, result.h)
    assert np.all(np.abs(h[expected == 0]) < 2 * NEGLIGIBLE)
    if inputs.mask is not None:
        kept = np.broadcast_to(wide(inputs.mask)[:, None] != 0, h.shape[:3])
        assert not h[~kept].any()
    size = np.linalg.norm(expected, axis=-1)
    # All terms of q . C', over the denominator of h.
    terms = inputs.expected(magnitudes=True).h * np.maximum(1, result.cancellation)[..., None]
    magnified = np.linalg.norm(terms, axis=-1) + result.cancellation * size
    mild = magnified <= MILD * size
    error = np.where(expected == 0, 0, h - expected)
    hard = ~mild
    if not hard.any():
        return _relative(h[mild], expected[mild], error[mild]), 0.0
    possible = max(bars.h * _norm(expected[hard]), 2 * ROUNDING * _norm(magnified[hard]))
    if not _norm(error[hard]) <= possible:
        definition = inputs.expected(np.float32).h
        possible = max(possible, 2 * _norm((definition - expected)[hard]))
    share = _norm(error[hard]) / possible if possible else _norm(error[hard])
    return _relative(h[mild], expected[mild], error[mild]), share


def _state_error(actual: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """The relative error, but of numbers that float32 has few digits for, or none."""
    small = np.abs(expected) < NEGLIGIBLE
    assert np.all(np.abs(actual[small]) < 2 * NEGLIGIBLE)
    return _relative(actual[~small], expected[~small])


def _relative(
    actual: NDArray[np.float64],
    expected: NDArray[np.float64],
    error: NDArray[np.float64] | None = None,
) -> float:
    assert actual.shape == expected.shape
    distance = _norm(actual - expected if error is None else error)
    return distance / _norm(expected) if _norm(expected) else distance


def _norm(array: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(array.ravel()))
