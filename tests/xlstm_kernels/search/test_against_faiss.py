"""Indexes against faiss-cpu with the same vectors, lists and probes."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels.search import IVFPQIndex

pytestmark = pytest.mark.oracle
COUNT, DIMENSION, NLIST, K = 20_000, 32, 128, 10


@pytest.fixture(scope="module")
def faiss():
    return pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    centers = generator.standard_normal((200, DIMENSION))

    def draw(count: int) -> np.ndarray:
        noise = 0.6 * generator.standard_normal((count, DIMENSION))
        return (centers[generator.integers(0, 200, count)] + noise).astype(np.float32)

    return draw(COUNT), draw(200)


def recall(ids: np.ndarray, truth: np.ndarray) -> float:
    pairs = zip(ids.tolist(), truth.tolist(), strict=True)
    return float(np.mean([len({*a} & {*b}) / K for a, b in pairs]))


@pytest.mark.parametrize("metric", ["l2", "inner_product"])
@pytest.mark.parametrize("own", [False, True], ids=["faiss's codewords", "own codewords"])
def test_product_quantization(metric, own, faiss, data):
    """Recall at 10 is that of faiss with the same codewords; own ones lose at most 0.02."""
    vectors, queries = data
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    flat, quantizer = faiss.IndexFlat(DIMENSION, kind), faiss.IndexFlat(DIMENSION, kind)
    theirs = faiss.IndexIVFPQ(quantizer, DIMENSION, NLIST, 8, 8, kind)
    flat.add(vectors)
    theirs.train(vectors)
    theirs.add(vectors)
    _, truth = flat.search(queries, K)
    index = IVFPQIndex(DIMENSION, NLIST, 8, metric)
    if own:
        index.train(mx.array(vectors))
    else:
        codebooks = faiss.vector_to_array(theirs.pq.centroids).reshape(8, 256, -1)
        index.restore_codebooks(mx.array(codebooks))
        centroids = mx.array(quantizer.reconstruct_n(0, NLIST))
        no_codes = mx.zeros((0, 8), dtype=mx.uint8)
        index.restore(centroids, no_codes, mx.zeros((0,), dtype=mx.int32))
    index.add(mx.array(vectors))
    for nprobe in (1, 4, 16, 64):
        index.nprobe = theirs.nprobe = nprobe
        distances, expected = theirs.search(queries, K)
        found, ids = index.search(mx.array(queries), K)
        loss = recall(expected, truth) - recall(np.array(ids), truth)
        assert loss <= (0.02 if own else 0.01)
        if not own:
            index.max_codes = index.ntotal
            found, ids = index.search(mx.array(queries), K)
            assert recall(np.array(ids), expected) > 0.995
            np.testing.assert_allclose(np.array(found), distances, rtol=1e-3, atol=1e-3)
            index.max_codes = None
