"""The k smallest of rows, against a stable sort of NumPy."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels.search import top_k


def smallest(keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    keys = np.where(np.isnan(keys), np.inf, keys)
    keys = np.pad(keys, [(0, 0), (0, max(k - keys.shape[1], 0))], constant_values=np.inf)
    order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    chosen = np.take_along_axis(keys, order, axis=1)
    return chosen, np.where(np.isposinf(chosen), -1, order)


def require_smallest(keys: np.ndarray, k: int, device: str) -> None:
    values, ids = top_k(mx.array(keys), k, backend=device)
    expected, expected_ids = smallest(keys, k)
    np.testing.assert_array_equal(np.array(values), expected)
    np.testing.assert_array_equal(np.array(ids), expected_ids)


@pytest.mark.parametrize(("k", "columns"), [(1, 1), (10, 5), (10, 1500), (33, 200), (70, 3)])
def test_order_with_many_ties(k, columns, device):
    """Integers: the lowest id of equal ones."""
    keys = np.random.default_rng(k).integers(-9, 9, (3, columns)).astype(np.float32)
    keys[0, 0] = -0.0
    require_smallest(keys, k, device)


def test_special_values_are_ordered_or_left_out(device):
    keys = np.random.default_rng(1).standard_normal((4, 700)).astype(np.float32)
    keys[0, ::2], keys[1, :], keys[2, 3:6], keys[3, 2:] = np.nan, np.nan, -np.inf, np.inf
    require_smallest(keys, 8, device)


@pytest.mark.exhaustive
@pytest.mark.parametrize("k", [31, 32, 64, 100, 1024])
def test_long_rows_in_segments(k, device):
    require_smallest(
        np.random.default_rng(k).standard_normal((2, 9000)).astype(np.float32), k, device
    )


def test_given_ids(device):
    keys = mx.array([[2.0, 1.0, 1.0, 0.0, 1.0]])
    ids = mx.array([[9, 7, 3, -1, 5]], dtype=mx.int32)
    values, chosen = top_k(keys, 4, ids=ids, backend=device)
    assert values.tolist() == [[1, 1, 1, 2]]
    assert chosen.tolist() == [[3, 5, 7, 9]]


@pytest.mark.parametrize("shape", [(0, 5), (2, 0)])
def test_empty(shape, device):
    values, ids = top_k(mx.zeros(shape), 2, backend=device)
    assert values.tolist() == [[math.inf] * 2] * shape[0]
    assert ids.tolist() == [[-1] * 2] * shape[0]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((mx.zeros((2, 3), dtype=mx.float16), 1), TypeError, "keys must be a .*float32 array"),
        ((mx.zeros((3,)), 1), ValueError, "must have shape"),
        ((mx.zeros((2, 3)), 0), ValueError, "k must be at least 1"),
        ((mx.zeros((2, 3)), 1025), ValueError, "k must be at most 1024"),
        ((mx.zeros((2, 3)), True), TypeError, "k must be an int"),
    ],
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        top_k(*arguments)


def test_ids_must_fit():
    with pytest.raises(TypeError, match=r"ids must be a .+int32"):
        top_k(mx.zeros((2, 3)), 1, ids=mx.zeros((2, 3)))
    with pytest.raises(ValueError, match="ids must have shape"):
        top_k(mx.zeros((2, 3)), 1, ids=mx.zeros((2, 2), dtype=mx.int32))
