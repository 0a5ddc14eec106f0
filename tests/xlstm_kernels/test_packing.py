"""Sequences packed into one row are what each of them is alone."""

from __future__ import annotations

import functools
import itertools

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.mlstm import oracle
from xlstm_kernels import mlstm_chunkwise, mlstm_siging_chunkwise, seq_idx_from_cu_seqlens
from xlstm_kernels.packing import reset_gates

PLACES = [0, 1, 7, 33, 33, 64, 70]
SHAPES = (5, 5, 3, None, None)  # last axes of q, k, v, i and f

FORMS = {
    "exponential": functools.partial(mlstm_chunkwise, chunk_size=16),
    "sigmoid": functools.partial(mlstm_siging_chunkwise, chunk_size=16),
}


@pytest.fixture
def drawn(draw):
    """q, k, v, i, f of one row, gates of either sign."""
    return [
        draw((1, 2, PLACES[-1], *(() if width is None else (width,))), mx.float32, scale)
        for width, scale in zip(SHAPES, (1, 1, 1, 5, 5), strict=True)
    ]


def alone(arrays):
    """The arrays of each sequence."""
    for begin, end in itertools.pairwise(PLACES):
        yield [array[:, :, begin:end] for array in arrays]


# --- numbers of sequences ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple, np.array, mx.array])
@pytest.mark.parametrize("places", [[0], [0, 6], [0, 2, 6], [0, 0, 3, 3, 6, 6], [0, 1, 2, 4]])
def test_places_become_numbers(places, kind):
    lengths = [end - begin for begin, end in zip([*places, 6], [*places[1:], 6, 6], strict=True)]
    numbers = seq_idx_from_cu_seqlens(kind(places), 6)
    assert numbers.dtype == mx.int32
    assert numbers.tolist() == [np.repeat(np.arange(len(places) + 1), lengths).tolist()]


@pytest.mark.parametrize(
    ("places", "error"),
    [
        ([0.0, 1.0], TypeError),
        ([[0, 1]], ValueError),
        (mx.array(1), ValueError),
        ([], TypeError),
        ([1, 2], ValueError),
        ((0, 2, 1), ValueError),
    ],
)
def test_other_places_are_refused(places, error):
    with pytest.raises(error, match="cu_seqlens must"):
        seq_idx_from_cu_seqlens(places, 3)


@pytest.mark.parametrize("dtype", [mx.int32, mx.uint32, mx.int64])
def test_places_outside_the_row_are_its_ends(dtype):
    first = -(10**7) if dtype == mx.int32 else 0
    numbers = seq_idx_from_cu_seqlens(mx.array([first, 2, 10**7], dtype), 5)
    assert numbers.tolist() == [[0, 0, 1, 1, 1]]


# --- the mLSTM ---------------------------------------------------------------------------------


def test_h_is_that_of_each_alone(drawn, device, wide, relative_error):
    seq_idx = seq_idx_from_cu_seqlens(PLACES, PLACES[-1])
    h, (c, n, m) = mlstm_chunkwise(
        *drawn, return_last_states=True, chunk_size=16, seq_idx=seq_idx, backend=device
    )
    exact = [oracle.mlstm(*(wide(array) for array in one)) for one in alone(drawn)]
    assert relative_error(h, np.concatenate([one.h for one in exact], axis=2)) < 2e-6
    # The states belong to the m that they come with.
    scale = np.exp(exact[-1].m - wide(m)[..., 0])
    assert relative_error(c, exact[-1].c * scale[..., None, None]) < 1e-6
    assert relative_error(n, exact[-1].n * scale[..., None]) < 1e-6


@pytest.mark.sampled(0)
@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_those_of_each_alone(form, drawn, draw, device, wide, relative_error):
    cotangent = draw(drawn[2].shape, mx.float32)
    run = functools.partial(FORMS[form], backend=device)
    seq_idx = seq_idx_from_cu_seqlens(PLACES, PLACES[-1])

    def packed(*arrays):
        return mx.sum(run(*arrays, seq_idx=seq_idx) * cotangent)

    def separate(*arrays):
        pieces = [run(*one) for one in alone(arrays)]
        return mx.sum(mx.concatenate(pieces, axis=2) * cotangent)

    every = tuple(range(len(drawn)))
    gradients = [mx.value_and_grad(one, argnums=every)(*drawn) for one in (packed, separate)]
    assert abs(gradients[0][0] - gradients[1][0]).item() < 1e-4
    for actual, exact in zip(gradients[0][1], gradients[1][1], strict=True):
        assert relative_error(actual, wide(exact)) < 5e-6


def test_the_first_goes_on_from_the_initial_states(drawn, draw, device, relative_error, wide):
    states = [draw(shape, mx.float32) for shape in ((1, 2, 5, 3), (1, 2, 5), (1, 2, 1))]
    seq_idx = mx.array([[3] * 7 + [1] * 63])  # any numbers that differ
    h = mlstm_chunkwise(*drawn, *states, chunk_size=16, seq_idx=seq_idx, backend=device)
    first = [array[:, :, :7] for array in drawn]
    rest = [array[:, :, 7:] for array in drawn]
    expected = [
        mlstm_chunkwise(*first, *states, chunk_size=16, backend=device),
        mlstm_chunkwise(*rest, chunk_size=16, backend=device),
    ]
    assert relative_error(h, wide(mx.concatenate(expected, axis=2))) < 2e-6


def test_each_row_has_its_own_sequences():
    f = mx.zeros((2, 1, 4))
    gates = reset_gates("test", f, mx.array([[0, 0, 1, 1], [2, 1, 1, 2]]), None)
    assert mx.isneginf(gates).tolist() == [
        [[False, False, True, False]],
        [[False, True, False, True]],
    ]


@pytest.mark.parametrize(
    ("seq_idx", "error", "message"),
    [
        (mx.zeros((1, 70)), TypeError, "seq_idx must be an array of integers, got .*float32"),
        ([[0] * 70], TypeError, "seq_idx must be an array of integers, got list"),
        (mx.zeros((1, 69), mx.int32), ValueError, r"seq_idx must have shape \(1, 70\)"),
    ],
)
def test_other_numbers_are_refused(seq_idx, error, message, drawn):
    with pytest.raises(error, match=message):
        mlstm_chunkwise(*drawn, seq_idx=seq_idx)
