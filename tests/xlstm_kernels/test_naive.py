"""The references that follow the papers, in float64 against the definitions in NumPy."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.mlstm.comparing import Draw, wide
from tests.xlstm_kernels.mlstm.test_siging import definition
from tests.xlstm_kernels.recurrent.slstm import oracle as slstm
from xlstm_kernels.mlstm.naive import mlstm_naive
from xlstm_kernels.recurrent.slstm.naive import slstm_naive

BAR = 2e-6  # that of MLX's exp, which has an error of 1e-6 in float64 too


@pytest.fixture(autouse=True)
def cpu():
    """MLX has float64 on the CPU only."""
    with mx.stream(mx.cpu):
        yield


def doubles(*arrays: mx.array | np.ndarray) -> list[mx.array]:
    numbers = (wide(array) if isinstance(array, mx.array) else array for array in arrays)
    return [mx.array(array, dtype=mx.float64) for array in numbers]


def distance(actual: mx.array, expected: np.ndarray) -> float:
    assert actual.dtype == mx.float64
    return float(np.linalg.norm(np.array(actual) - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_mlstm(initial, masked):
    inputs = Draw(2, 3, 21, 8, 12, gates="capped", initial=initial, masked=masked, seed=3).inputs()
    expected = inputs.expected()
    h, (c, n, m) = mlstm_naive(
        *doubles(*inputs.sequence, *(inputs.states or ())), eps=inputs.eps, mask=inputs.mask
    )
    found = (h, c, n, mx.squeeze(m, axis=2))
    for one, other in zip(found, (expected.h, expected.c, expected.n, expected.m), strict=True):
        assert distance(one, other) < BAR


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("masked", [False, True])
def test_sigmoid_input_gate(normalize, masked):
    inputs = Draw(2, 3, 21, 8, 12, initial=True, masked=masked, seed=4).inputs()
    arrays = doubles(*inputs.sequence, *inputs.states[:2])
    h, last = mlstm_naive(*arrays, sigmoid_input=True, normalize=normalize, mask=inputs.mask)
    for one, other in zip((h, *last), definition(inputs, normalize=normalize), strict=True):
        assert distance(one, other) < BAR


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_slstm(initial, masked):
    generator = np.random.default_rng(6)
    shapes = (2, 9, 4, 3, 5), (4, 3, 5, 5), (4, 3, 5), (4, 2, 3, 5)
    *arrays, states = (generator.standard_normal(shape) for shape in shapes)
    states[2] = np.abs(states[2]) + 0.5
    if initial:
        arrays.append(states)
    mask = generator.random((2, 9)) < 0.7 if masked else None
    expected = slstm.slstm(*arrays, mask=mask)
    y, last = slstm_naive(*doubles(*arrays), mask=None if mask is None else mx.array(mask))
    assert distance(y, expected.states[0]) < BAR
    assert distance(last, expected.last) < BAR
