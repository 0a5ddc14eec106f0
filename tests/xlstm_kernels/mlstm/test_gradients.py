"""Gradients of the chunked forms, in every input and initial state, with cotangents of all outputs.

Judged by the gradient of the definition in float64, which itself is held to finite differences.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.xlstm_kernels.mlstm.comparing import ROUNDING, Draw, Inputs, draws, wide
from tests.xlstm_kernels.mlstm.gradient_oracle import Gradients, gradients

NAMES = ("q", "k", "v", "i", "f", "c", "n", "m")
# How much bigger the terms of a gradient may be than their sum for the bars to judge.
MILD = 30.0
# Relative L2 errors in float32; a sum over all later steps goes into f and m.
BARS = dict.fromkeys(NAMES, 5e-6) | {"f": 1e-5, "m": 1e-5}
QUICK = settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])


def with_states(inputs: Inputs) -> Inputs:
    if inputs.states is not None:
        return inputs
    batch, heads, _, keys = inputs.q.shape
    shapes = ((batch, heads, keys, inputs.v.shape[-1]), (batch, heads, keys), (batch, heads, 1))
    return dataclasses.replace(inputs, states=tuple(mx.zeros(shape) for shape in shapes))


def cotangents_of(inputs: Inputs, seed: int) -> list[np.ndarray]:
    """Of h, C, n and m, normal numbers in float32."""
    generator = np.random.default_rng(seed)
    shapes = [inputs.v.shape, *(state.shape for state in with_states(inputs).states)]
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def expected_gradients(inputs: Inputs, given: list[np.ndarray], **more: object) -> Gradients:
    c, n, m = map(wide, with_states(inputs).states)
    h, dc, dn, dm = (array.astype(np.float64) for array in given)
    return gradients(
        *map(wide, inputs.sequence),
        (c, n, m[..., 0]),
        (h, dc, dn, dm[..., 0]),
        eps=inputs.eps,
        mask=None if inputs.mask is None else np.array(inputs.mask),
        **more,
    )


def computed_gradients(form: Callable, inputs: Inputs, given: list[np.ndarray], device: str):
    count = 8 if inputs.states is not None else 5

    def outputs(*arrays):
        states = dict(zip(("c_initial", "n_initial", "m_initial"), arrays[5:], strict=False))
        h, last = form(
            *arrays[:5],
            **states,
            return_last_states=True,
            eps=inputs.eps,
            mask=inputs.mask,
            backend=device,
        )
        return (h, *last)

    arguments = [*inputs.sequence, *(inputs.states or ())]
    cotangents = [mx.array(array) for array in given]
    cotangents[0] = cotangents[0].astype(inputs.v.dtype)
    _, found = mx.vjp(outputs, arguments, cotangents)
    assert len(found) == count
    return dict(zip(NAMES, found, strict=False))


def judge_gradients(inputs: Inputs, found: dict, given: list[np.ndarray], bars=None) -> None:
    """By the bars; where terms cancel, by what float32 can do: see `comparing`."""
    kinds = ({}, {"magnitudes": True}, {"dtype": np.float32})
    every = (expected_gradients(inputs, given, **kind) for kind in kinds)
    for name, *three in zip(NAMES, *every, strict=True):
        if name not in found:
            continue
        gradient = wide(found[name])
        assert np.all(np.isfinite(gradient)), name
        wanted, terms, single = (np.asarray(x, float).reshape(gradient.shape) for x in three)
        size = np.linalg.norm(wanted)
        if name == "m":  # one more sum of what flows past a step, as f's are
            size = np.hypot(size, np.linalg.norm(wide(found["f"])))
        allowed = (bars or BARS)[name] * size
        if name == "f":  # where all is forgotten at once, next to nothing beside i's
            # Both are sums of keys x values products, whose roundings add up like their root.
            summed = max(16, np.sqrt(inputs.q.shape[-1] * inputs.v.shape[-1]))
            allowed += summed * ROUNDING * np.linalg.norm(wide(found["i"]))
        if np.linalg.norm(terms) > MILD * size:
            rounding = 4 * ROUNDING * np.linalg.norm(terms)
            allowed = max(allowed, rounding, 2 * np.linalg.norm(single - wanted))
        error = np.linalg.norm(gradient - wanted)
        assert error <= allowed, f"{name}: {error:.2e} of {size:.2e}, allowed {allowed:.2e}"


# --- values ------------------------------------------------------------------------------------


@given(
    draw=draws(lengths=(1, 2, 63, 64, 65), gates=("normal", "capped")),
    seed=st.integers(0, 2**32 - 1),
)
@example(draw=Draw(2, 3, 65, 33, 40, gates="normal", initial=True, masked=True, eps=1e-3), seed=0)
@example(draw=Draw(1, 1, 100, 8, 8, gates="capped", initial=True, eps=1e-3), seed=1)
@example(draw=Draw(1, 1, 2, 33, 40, gates="capped", seed=145), seed=17)
@example(draw=Draw(2, 1, 2, 33, 40, gates="capped", eps=1e-6, seed=1939), seed=162)
@QUICK
@pytest.mark.sampled(0)
def test_gradients(draw, seed, form, device):
    inputs = draw.inputs()
    given = cotangents_of(inputs, seed)
    found = computed_gradients(form, inputs, given, device)
    judge_gradients(inputs, found, given)


@pytest.mark.sampled(6)
@given(
    draw=draws(lengths=(63, 64, 65, 130), gates=("normal",), masked=st.just(False)),
    seed=st.integers(0, 2**32 - 1),
)
@QUICK
def test_gradients_keep_the_bars_where_nothing_cancels(draw, seed, form, device):
    """Queries and keys of one sign: the bars judge alone."""
    inputs = draw.inputs()
    inputs = dataclasses.replace(inputs, q=mx.abs(inputs.q), k=mx.abs(inputs.k))
    if inputs.states is not None:
        c, n, m = inputs.states
        inputs = dataclasses.replace(inputs, states=(c, mx.abs(n), m))
    given = cotangents_of(inputs, seed)
    found = computed_gradients(form, inputs, given, device)
    expected = dict(zip(NAMES, expected_gradients(inputs, given), strict=True))
    for name, gradient in found.items():
        wanted = expected[name].reshape(gradient.shape)
        size = np.linalg.norm(wanted)
        if name == "m":
            size = np.hypot(size, np.linalg.norm(expected["f"]))
        assert np.linalg.norm(wide(gradient) - wanted) <= BARS[name] * size, name


@pytest.mark.parametrize(
    ("dtype", "bar"), [(mx.float16, 2e-3), (mx.bfloat16, 1e-2)], ids=["float16", "bfloat16"]
)
@pytest.mark.sampled(0)
def test_gradients_in_halves(dtype, bar, form, device):
    inputs = Draw(1, 3, 70, 33, 40, initial=True, seed=5).inputs(dtype)
    given = cotangents_of(inputs, 6)
    given[0] = np.array(mx.array(given[0]).astype(dtype).astype(mx.float32))
    found = computed_gradients(form, inputs, given, device)
    assert {name: array.dtype for name, array in found.items()} == dict.fromkeys("qkvif", dtype) | (
        dict.fromkeys("cnm", mx.float32)
    )
    judge_gradients(inputs, found, given, dict.fromkeys(NAMES, bar))


def test_masked_steps_have_no_gradient(form, device):
    inputs = Draw(2, 3, 66, 8, 8, initial=True, masked=True, seed=11).inputs()
    found = computed_gradients(form, inputs, cotangents_of(inputs, 12), device)
    gone = np.broadcast_to(~np.array(inputs.mask)[:, None], inputs.i.shape)
    for name in ("q", "k", "v", "i", "f"):
        assert not np.array(found[name])[gone].any()
        assert np.array(found[name])[~gone].any()


@pytest.mark.parametrize("initial", [False, True])
def test_gradients_at_the_limits_of_gates_are_finite(initial, form, device):
    inputs = Draw(1, 3, 66, 8, 8, gates="infinite", initial=initial, masked=True, seed=27).inputs()
    found = computed_gradients(form, inputs, cotangents_of(inputs, 28), device)
    for name, gradient in found.items():
        assert mx.all(mx.isfinite(gradient)).item(), name


# --- without the normaliser --------------------------------------------------------------------


def test_without_the_normaliser_backends_agree(form, device):
    inputs = Draw(1, 3, 66, 8, 12, initial=True, seed=15).inputs()
    given = cotangents_of(inputs, 16)
    partial = functools.partial(form, normalizer_grad=False)
    found = computed_gradients(partial, inputs, given, device)
    expected = computed_gradients(partial, inputs, given, "native")
    exact = computed_gradients(form, inputs, given, "native")
    for name in NAMES:
        one, other = wide(found[name]), wide(expected[name])
        size = np.linalg.norm(wide(expected["f" if name == "m" else name]))
        assert np.linalg.norm(one - other) <= 2e-5 * size, name
    assert np.linalg.norm(wide(exact["q"]) - wide(expected["q"])) > 0.1
