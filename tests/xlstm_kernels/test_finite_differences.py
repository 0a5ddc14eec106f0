"""The gradient of every operator against differences of its definition, and of nothing between.

MLX's operators take no float64, so what is nudged is the oracle in NumPy: central differences along
random directions in each argument. The families' own tests compare gradients element by element,
with a gradient of the definition that is written by hand; this is what both have to be.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest

import xlstm_kernels
from tests.xlstm_kernels.complex.test_multiply import multiplied
from tests.xlstm_kernels.conv import oracle as conv
from tests.xlstm_kernels.mlstm.comparing import Inputs
from tests.xlstm_kernels.mlstm.oracle import mlstm
from tests.xlstm_kernels.mlstm.test_siging import definition as siging
from tests.xlstm_kernels.norm.oracle import oracle as heads
from tests.xlstm_kernels.quantized.oracle import matrix
from tests.xlstm_kernels.recurrent.oracle import SINGLE_STATE, lstm, single_state_shapes
from tests.xlstm_kernels.recurrent.slstm.oracle import slstm
from tests.xlstm_kernels.test_rms_norm import oracle as rms
from tests.xlstm_kernels.test_soft_cap import oracle as capped

EPS = 1e-5
STEP = 1e-5
STEP_OF_SECOND = 1e-4
DIRECTIONS = 3
# What the slope along a normal direction may be off, relative to the gradient's norm.
BAR = 5e-6

PLACES = [0, 2, 9, 9, 21]  # of packed sequences
WEIGHTS = np.random.default_rng(20261124).integers(2**32, size=(6, 8), dtype=np.uint32)


@dataclass(frozen=True, slots=True)
class Case:
    """An operator, its definition, and what both take and give.

    Attributes:
        call: arrays, and `backend`, to an array or a tuple of them; a tuple in it is flattened.
        definition: the same arrays in float64 to the same results.
        shapes: of the arrays.
    """

    call: Callable[..., object]
    definition: Callable[..., object]
    shapes: tuple[tuple[int, ...], ...]


def flattened(results: object) -> list:
    if isinstance(results, (tuple, list)):
        return [array for result in results for array in flattened(result)]
    return [results]


# --- what differs from one operator to the next ------------------------------------------------

X, FEATURES = (2, 5, 3, 7), (21,)
GATED = (X, FEATURES, FEATURES, (2, 5, 21))
ROWS = ((2, 21, 33), (33, 4), (33,), (2, 3, 33))
CELL = ((1, 2, 21, 5), (1, 2, 21, 5), (1, 2, 21, 3), *((1, 2, 21),) * 2)
STATES = ((1, 2, 5, 3), (1, 2, 5), (1, 2, 1))
ONE = ((1, 2, 5), (1, 2, 5), (1, 2, 3), (1, 2), (1, 2))
SCALAR = ((2, 6, 4, 2, 5), (4, 2, 5, 5), (4, 2, 5), (4, 2, 2, 5))


def soft_capped(values, cap, **backend):
    return xlstm_kernels.soft_cap(values, mx.abs(cap) + mx.array(1.0), **backend)


def updated(x, state, weight, bias, **backend):
    return xlstm_kernels.causal_conv1d_update(x, state, weight, bias, "silu", **backend)


def updated_definition(x, state, weight, bias):
    y, last = conv.causal(x[:, None], weight, bias, state, "silu")
    return y[:, 0], last


def packed_definition(x, weight, bias):
    """Channels first, each sequence by itself."""
    pieces = [
        conv.causal(x.swapaxes(1, 2)[:, begin:end], weight, bias, None, "silu")[0]
        for begin, end in itertools.pairwise(PLACES)
    ]
    return np.concatenate(pieces, axis=1).swapaxes(1, 2)


def last_steps(x):
    """Of each sequence, with zeros before its beginning: (N, D, 3)."""
    pieces = [x[begin:end] for begin, end in itertools.pairwise(PLACES)]
    before = np.zeros((3, x.shape[1]))
    return np.stack([np.concatenate([before, piece])[-3:].T for piece in pieces])


def channels_first(x):
    return x.swapaxes(1, 2)


def cell(operator, **settings):
    return functools.partial(operator, return_last_states=True, **settings)


def cell_definition(q, k, v, i, f, c, n, m):
    result = mlstm(q, k, v, i, f, (c, n, m[..., 0]))
    return result.h, result.c, result.n, result.m[..., None]


def step_definition(q, k, v, i, f, c, n, m):
    arrays = (array[:, :, None] for array in (q, k, v, i, f))
    h, *states = cell_definition(*arrays, c, n, m)
    return h[:, :, 0], *states


def scalar_cell(wx, r, b, states, **backend):
    whole, last = xlstm_kernels.slstm(wx, r, b, admitted(states, mx), **backend)
    return whole, last[:, :, 0]


def scalar_definition(wx, r, b, states):
    result = slstm(wx, r, b, admitted(states, np))
    return result.states, result.last


def admitted(states, library):
    """n of a state is at least one where it comes from a call."""
    y, c, n, m = library.split(states, 4)
    return library.concatenate([library.tanh(y), c, n * n + library.ones_like(n), m])


def sigmoid_case(**settings):
    def call(*arrays, **backend):
        settled = {"return_last_states": True, "chunk_size": 4, **settings}
        return xlstm_kernels.mlstm_siging_chunkwise(*arrays, **settled, **backend)

    def exact(*arrays):
        return siging(Inputs(*arrays[:5], states=arrays[5:]), **settings)

    few_steps = ((*shape[:2], 7, *shape[3:]) for shape in CELL)
    return Case(call, exact, (*few_steps, *STATES[:2]))


CASES = {
    "soft_cap": Case(soft_capped, lambda x, c: capped(x, np.abs(c) + 1), ((5, 7), ())),
    "rms_norm": Case(
        lambda x, w, **backend: xlstm_kernels.rms_norm(x, w, EPS, **backend),
        lambda x, w: rms(x, w, EPS),
        ((2, 5, 33), (33,)),
    ),
    "multi_head_layer_norm": Case(
        lambda x, w, b, gate, **backend: xlstm_kernels.multi_head_layer_norm(
            x, w, b, EPS, gate=gate, **backend
        ),
        lambda *arrays: heads(arrays[0], "layer", *arrays[1:], eps=EPS),
        GATED,
    ),
    "multi_head_rms_norm": Case(
        lambda x, w, b, gate, **backend: xlstm_kernels.multi_head_rms_norm(
            x, w, EPS, bias=b, gate=gate, **backend
        ),
        lambda *arrays: heads(arrays[0], "rms", *arrays[1:], eps=EPS),
        GATED,
    ),
    "causal_conv1d": Case(
        lambda *arrays, **backend: xlstm_kernels.causal_conv1d(*arrays, True, "silu", **backend),
        lambda *arrays: conv.causal(*arrays, "silu"),
        ROWS,
    ),
    "causal_conv1d_update": Case(
        updated, updated_definition, ((2, 33), (2, 3, 33), (33, 4), (33,))
    ),
    "causal_conv1d_fn": Case(
        lambda *arrays, **backend: xlstm_kernels.causal_conv1d_fn(
            *arrays, activation="silu", cu_seqlens=PLACES, **backend
        ),
        packed_definition,
        ((1, 33, 21), (33, 4), (33,)),
    ),
    "causal_conv1d_varlen_states": Case(
        lambda x, scale, **_: scale * xlstm_kernels.causal_conv1d_varlen_states(x, PLACES, 3),
        lambda x, scale: scale * last_steps(x),
        ((21, 5), (5, 1)),
    ),
    "complex_multiply": Case(xlstm_kernels.complex_multiply, multiplied, ((5, 7, 2), (5, 7, 2))),
    "fft_conv": Case(
        lambda *arrays, **_: xlstm_kernels.fft_conv(*arrays),
        conv.long_causal,
        ((2, 21, 5), (5, 9), (5,)),
    ),
    "fftconv": Case(
        lambda *arrays, **_: xlstm_kernels.fftconv(*arrays),
        lambda u, *others: channels_first(conv.long_causal(channels_first(u), *others)),
        ((2, 5, 21), (5, 9), (5,)),
    ),
    "quantized_matvec": Case(
        lambda x, *parts, **backend: xlstm_kernels.quantized_matvec(
            x, mx.array(WEIGHTS), *parts, group_size=32, bits=4, **backend
        ),
        lambda x, *parts: x @ matrix(WEIGHTS, *parts, bits=4).T,
        ((3, 64), (6, 2), (6, 2)),
    ),
    "lstm": Case(
        lambda *arrays, **_: xlstm_kernels.lstm(*arrays), lstm, (*SCALAR[:3], (2, 2, 2, 5))
    ),
    **{
        name: Case(
            lambda *arrays, name=name, **_: xlstm_kernels.flashrnn(*arrays, function=name),
            definition,
            single_state_shapes(gates, 2, 6, 2, 5),
        )
        for name, (definition, gates) in SINGLE_STATE.items()
    },
    "mlstm_step": Case(xlstm_kernels.mlstm_step, step_definition, (*ONE, *STATES)),
    "mlstm_sequence": Case(cell(xlstm_kernels.mlstm_sequence), cell_definition, (*CELL, *STATES)),
    "mlstm_chunkwise": Case(
        cell(xlstm_kernels.mlstm_chunkwise, chunk_size=8), cell_definition, (*CELL, *STATES)
    ),
    "mlstm_siging_chunkwise": sigmoid_case(normalize=True),
    "mlstm_siging_chunkwise, not normalized": sigmoid_case(normalize=False),
    "slstm": Case(scalar_cell, scalar_definition, SCALAR),
    "slstm_step": Case(
        lambda wx, r, b, states, **backend: xlstm_kernels.slstm_step(
            wx, r, b, admitted(states, mx), **backend
        ),
        lambda wx, r, b, states: scalar_definition(wx[:, None], r, b, states)[1],
        (SCALAR[0][:1] + SCALAR[0][2:], *SCALAR[1:]),
    ),
}


# --- what does not -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_the_slope(name, device):
    case = CASES[name]
    normal = np.random.default_rng(20251122).standard_normal
    arrays = [normal(shape).astype(np.float32).astype(np.float64) for shape in case.shapes]
    cotangents = [
        normal(np.shape(result)).astype(np.float32).astype(np.float64)
        for result in flattened(case.definition(*arrays))
    ]

    def outputs(*given):
        return flattened(case.call(*given, backend=device))

    _, gradients = mx.vjp(
        outputs,
        [mx.array(array, dtype=mx.float32) for array in arrays],
        [mx.array(cotangent, dtype=mx.float32) for cotangent in cotangents],
    )

    def loss(*at):
        results = flattened(case.definition(*at))
        return sum(float((c * r).sum()) for c, r in zip(cotangents, results, strict=True))

    for index, gradient in enumerate(gradients):
        assert gradient.shape == arrays[index].shape
        found = np.array(gradient).astype(np.float64)
        size = np.linalg.norm(found)
        assert size > 0
        for _ in range(DIRECTIONS):
            direction = normal(found.shape)
            ahead, behind = (
                loss(*arrays[:index], arrays[index] + sign * direction, *arrays[index + 1 :])
                for sign in (STEP, -STEP)
            )
            slope = (ahead - behind) / (2 * STEP)
            assert abs((found * direction).sum() - slope) < BAR * size, f"argument {index}"


@pytest.mark.parametrize("name", CASES)
def test_second_derivative_is_the_slope_of_the_gradient(name, device):
    """Along two random directions in all arguments at once."""
    case = CASES[name]
    normal = np.random.default_rng(20261123).standard_normal
    arrays, first, second = (
        [normal(shape).astype(np.float32).astype(np.float64) for shape in case.shapes]
        for _ in range(3)
    )
    weights = [
        normal(np.shape(result)).astype(np.float32).astype(np.float64)
        for result in flattened(case.definition(*arrays))
    ]
    indices = tuple(range(len(arrays)))

    def loss(results, library):
        products = (library.sum(w * r) for w, r in zip(weights, results, strict=True))
        return sum(products)

    def definition(along_first, along_second):
        at = (
            x + STEP_OF_SECOND * (along_first * u + along_second * v)
            for x, u, v in zip(arrays, first, second, strict=True)
        )
        return float(loss(flattened(case.definition(*at)), np))

    def slope_along_first(*given):
        def of_call(*at):
            results = flattened(case.call(*at, backend=device))
            return sum(
                mx.sum(mx.array(w, dtype=mx.float32) * r)
                for w, r in zip(weights, results, strict=True)
            )

        gradients = mx.grad(of_call, argnums=indices)(*given)
        return sum(
            mx.sum(g * mx.array(u, dtype=mx.float32)) for g, u in zip(gradients, first, strict=True)
        )

    given = [mx.array(array, dtype=mx.float32) for array in arrays]
    gradients = mx.grad(slope_along_first, argnums=indices)(*given)
    found = sum(
        float((np.array(g).astype(np.float64) * v).sum())
        for g, v in zip(gradients, second, strict=True)
    )
    size = float(sum(np.linalg.norm(np.array(g)) for g in gradients))
    expected = definition(1, 1) - definition(1, -1) - definition(-1, 1) + definition(-1, -1)
    assert found == pytest.approx(expected / (4 * STEP_OF_SECOND**2), abs=2e-5 * size)
