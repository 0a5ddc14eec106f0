"""IVFPQIndex against the exact neighbors among decoded vectors in NumPy. Integers are exact."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.search.oracle import nearest
from xlstm_kernels.search import IVFPQIndex, load

METRICS = pytest.mark.parametrize("metric", ["l2", "inner_product"])


def integers(shape: tuple[int, ...], seed: int, most: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).integers(-most, most, shape).astype(np.float32)


def quantized(nlist: int, m: int, width: int, metric: str) -> IVFPQIndex:
    """An index of given centroids and codewords, all integers."""
    index = IVFPQIndex(m * width, nlist, m, metric)
    index.restore_codebooks(mx.array(integers((m, 256, width), 1)))
    centroids = mx.array(integers((nlist, m * width), 2, 9))
    index.restore(centroids, mx.zeros((0, m), dtype=mx.uint8), mx.zeros((0,), dtype=mx.int32))
    return index


def decoded(index: IVFPQIndex, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The vectors that codes stand for, and their lists, (N, 1)."""
    centroids, codebooks = np.array(index._centroids), np.array(index._codebooks)
    _, lists = nearest(centroids, vectors, 1, index.metric.value)
    whole = centroids[lists[:, 0]]
    parts = np.split(vectors - whole, index.m, axis=1)
    chosen = [
        book[nearest(book, part, 1, "l2")[1][:, 0]]
        for book, part in zip(codebooks, parts, strict=True)
    ]
    return whole + np.concatenate(chosen, axis=1), lists


@METRICS
@pytest.mark.parametrize(("m", "width"), [(3, 2), (40, 1)], ids=["threadgroup", "device"])
def test_search_is_exact_among_decoded_vectors(metric, m, width, device):
    """With tables in threadgroup memory, and too many for it; also after parts added later."""
    index = quantized(6, m, width, metric)
    vectors, queries = integers((150, m * width), 3, 9), integers((4, m * width), 4, 9)
    queries[2, 1] = np.nan
    whole, lists = decoded(index, vectors)
    centroids = np.array(index._centroids)
    for nprobe, count in ((2, 70), (6, 150)):
        index.add(mx.array(vectors[index.ntotal : count]))
        index.nprobe, index.max_codes = nprobe, 150
        _, probes = nearest(centroids, queries, nprobe, metric)
        allowed = (lists[None, :count] == probes[:, None]).any(axis=2)
        distances, ids = nearest(whole[:count], queries, 9, metric, allowed)
        found = index.search(mx.array(queries), 9, backend=device)
        np.testing.assert_array_equal(np.array(found[0]), distances)
        np.testing.assert_array_equal(np.array(found[1]), ids)


def test_codes_are_bytes():
    index = quantized(4, 3, 2, "l2")
    index.add(mx.array(integers((50, 6), 5)))
    index.search(mx.zeros((1, 6)), 1)
    assert (index._pages.vectors.dtype, index._pages.vectors.shape[1:]) == (mx.uint8, (3, 32))


def test_trained_codewords_approximate_vectors():
    generator = np.random.default_rng(6)
    vectors = generator.standard_normal((1000, 8)).astype(np.float32)
    index = IVFPQIndex(8, 8, 4, nprobe=8)
    index.train(mx.array(vectors), max_points_per_centroid=4)
    assert index.is_trained
    index.add(mx.array(vectors))
    distances, ids = index.search(mx.array(vectors[:100]), 10)
    assert np.mean(np.array(ids) == np.arange(100)[:, None]) * 10 > 0.95
    assert np.array(distances)[:, 0].mean() < 0.2


def test_distances_do_not_cancel():
    """Vectors far from the origin: the terms of a distance are taken from near the centroids."""
    vectors = np.float32(1000) + integers((300, 4), 7) / np.float32(64)
    index = IVFPQIndex(4, 2, 2)
    index.train(mx.array(vectors))
    index.add(mx.array(vectors))
    index.nprobe = 2
    whole, _ = decoded(index, vectors)
    distances, _ = nearest(whole, vectors[:5], 3, "l2")
    found, _ = index.search(mx.array(vectors[:5]), 3)
    np.testing.assert_allclose(np.array(found), distances, atol=1e-4)


@METRICS
def test_a_loaded_index_finds_the_same(metric, tmp_path):
    index = quantized(4, 3, 2, metric)
    index.add(mx.array(integers((90, 6), 8)))
    index.save(tmp_path / "index.safetensors")
    loaded = load(tmp_path / "index.safetensors")
    assert (loaded.m, loaded.nlist, loaded.metric, loaded.ntotal) == (3, 4, index.metric, 90)
    queries = mx.array(integers((5, 6), 9))
    for actual, expected in zip(loaded.search(queries, 7), index.search(queries, 7), strict=True):
        assert actual.tolist() == expected.tolist()
    loaded.add(queries)
    assert loaded.ntotal == 95


def test_codebooks_of_a_file_must_fit(tmp_path):
    index = quantized(4, 3, 2, "l2")
    index.restore_codebooks(mx.zeros((3, 256, 1)))
    index.save(tmp_path / "index.safetensors")
    with pytest.raises(ValueError, match="do not agree"):
        load(tmp_path / "index.safetensors")


def test_an_empty_index_finds_nothing():
    distances, ids = quantized(4, 3, 2, "l2").search(mx.zeros((2, 6)), 3)
    assert distances.tolist() == [[math.inf] * 3] * 2
    assert ids.tolist() == [[-1] * 3] * 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: IVFPQIndex(6, 2, 4), ValueError, "dimension must be a multiple of 4, got 6"),
        (lambda: IVFPQIndex(6, 2, 0), ValueError, "m must be at least 1"),
        (lambda: IVFPQIndex(6, 2, 2).add(mx.zeros((2, 6))), ValueError, "not trained"),
        (lambda: IVFPQIndex(6, 2, 2).save("unused"), ValueError, "not trained"),
        (lambda: IVFPQIndex(6, 2, 2).train(mx.zeros((255, 6))), ValueError, "256 codewords need"),
        (lambda: IVFPQIndex(6, 2, 2).train(mx.zeros((300, 5))), ValueError, r"shape \(N, 6\)"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
