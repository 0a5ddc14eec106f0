"""Indexes against exact neighbors in NumPy. Integers have exact distances, and ties."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.search.oracle import nearest
from xlstm_kernels.search import FlatIndex, IVFFlatIndex

METRICS = pytest.mark.parametrize("metric", ["l2", "inner_product"])


def integers(count: int, dimension: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 4, (count, dimension)).astype(np.float32)


def require_nearest(found, vectors, queries, k, metric, allowed=None) -> None:
    distances, ids = nearest(vectors, queries, k, metric, allowed)
    np.testing.assert_array_equal(np.array(found[0]), distances)
    np.testing.assert_array_equal(np.array(found[1]), ids)


def inverted(vectors: np.ndarray, nlist: int, metric: str) -> IVFFlatIndex:
    index = IVFFlatIndex(vectors.shape[1], nlist, metric)
    index.train(mx.array(vectors))
    return index


@METRICS
def test_flat_search_is_exact(metric, device):
    vectors, queries = integers(200, 7, 1), integers(5, 7, 2)
    queries[3, 2] = np.nan
    vectors[17, 0] = np.nan
    index = FlatIndex(7, metric)
    for part in (vectors[:1], vectors[1:50], vectors[50:]):
        index.add(mx.array(part))
    assert index.ntotal == 200
    require_nearest(
        index.search(mx.array(queries), 11, backend=device), vectors, queries, 11, metric
    )


@METRICS
def test_all_lists_are_the_exact_search(metric, device):
    """Also after parts that are added between searches."""
    vectors, queries = integers(150, 5, 3), integers(4, 5, 4)
    index = inverted(vectors, 6, metric)
    index.nprobe = 6
    for count in (40, 150):
        index.add(mx.array(vectors[index.ntotal : count]))
        found = index.search(mx.array(queries), 9, backend=device)
        require_nearest(found, vectors[:count], queries, 9, metric)


def test_only_the_nearest_lists_are_read(device):
    vectors, queries = integers(150, 5, 5), integers(6, 5, 6)
    index = inverted(vectors, 8, "l2")
    index.add(mx.array(vectors))
    index.nprobe, index.max_codes = 2, 150
    centroids = np.array(index._centroids)
    _, lists = nearest(centroids, vectors, 1, "l2")
    _, probes = nearest(centroids, queries, 2, "l2")
    allowed = (lists[None, :, :] == probes[:, None, :]).any(axis=2)
    assert 0 < allowed.mean() < 0.6
    found = index.search(mx.array(queries), 7, backend=device)
    require_nearest(found, vectors, queries, 7, "l2", allowed)


def test_max_codes_bounds_what_a_query_reads(device):
    """All vectors are in one list: of its pages of 32 only the first ones are read."""
    vectors = np.tile(integers(1, 4, 7), (200, 1))
    index = IVFFlatIndex(4, 2)
    index.restore(mx.array([[0.0] * 4, [99.0] * 4]), mx.array(vectors), mx.zeros((200,), mx.int32))
    index.max_codes = 40
    _, ids = index.search(mx.array(vectors[:1]), 100, backend=device)
    assert ids.tolist() == [[*range(96), -1, -1, -1, -1]]
    index.max_codes = index.ntotal
    _, ids = index.search(mx.array(vectors[:1]), 100, backend=device)
    assert ids.tolist() == [list(range(100))]


def test_distances_do_not_cancel(device):
    """Vectors far from the origin: |x|^2 - 2 q.x would lose all digits of the distance."""
    vectors = np.float32(1000) + integers(60, 4, 8) / np.float32(64)
    index = FlatIndex(4)
    index.add(mx.array(vectors))
    distances, _ = index.search(mx.array(vectors[:3]), 1, backend=device)
    assert distances.tolist() == [[0.0]] * 3


@pytest.mark.parametrize("make", [FlatIndex, lambda d: inverted(integers(20, d, 10), 3, "l2")])
def test_an_empty_index_finds_nothing(make):
    index = make(4)
    distances, ids = index.search(mx.zeros((2, 4)), 3)
    assert distances.tolist() == [[math.inf] * 3] * 2
    assert ids.tolist() == [[-1] * 3] * 2
    index.add(mx.zeros((5, 4)))
    assert [array.shape for array in index.search(mx.zeros((0, 4)), 3)] == [(0, 3), (0, 3)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: FlatIndex(0), ValueError, "dimension must be at least 1"),
        (lambda: FlatIndex(4, "cosine"), ValueError, "not a valid Metric"),
        (lambda: FlatIndex(4).add(mx.zeros((2, 5))), ValueError, r"shape \(N, 4\)"),
        (lambda: FlatIndex(4).search(np.zeros((2, 4)), 1), TypeError, "float32 array, got ndarray"),
        (lambda: IVFFlatIndex(4, 2).add(mx.zeros((2, 4))), ValueError, "not trained"),
        (lambda: IVFFlatIndex(4, 2).train(mx.zeros((1, 4))), ValueError, "2 lists need"),
        (lambda: IVFFlatIndex(4, 2).save("unused"), ValueError, "not trained"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_nprobe_is_checked():
    index = inverted(integers(20, 4, 11), 3, "l2")
    for index.nprobe in (0, 1025):
        with pytest.raises(ValueError, match="nprobe must be at"):
            index.search(mx.zeros((1, 4)), 1)
