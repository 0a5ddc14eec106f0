"""k-means on the device: Lloyd's iterations in MLX operations."""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.search.metric import Metric, keys_of, normalized, origin_of

_TILE = 2**24


def nearest_centroids(vectors: mx.array, centroids: mx.array, metric: Metric) -> mx.array:
    """The number of the nearest centroid (N), int32, of vectors (N, D), in tiles of bounded size.

    Equal distances: the lowest number.
    """
    if not vectors.shape[0]:
        return mx.zeros((0,), dtype=mx.int32)
    origin = origin_of(centroids)
    step = max(1, _TILE // centroids.shape[0])
    tiles = [
        mx.argmin(keys_of(vectors[start : start + step], centroids, metric, origin), axis=1)
        for start in range(0, vectors.shape[0], step)
    ]
    return mx.concatenate(tiles).astype(mx.int32)


def k_means(
    vectors: mx.array, count: int, metric: Metric, *, iterations: int, seed: int
) -> mx.array:
    """Centroids (count, D) of vectors (N, D), N at least `count`.

    The first ones are `count` of the vectors, drawn by `seed`. A centroid without vectors stays.
    For COSINE they have length 1, as the vectors.
    """
    drawn = mx.random.permutation(vectors.shape[0], key=mx.random.key(seed))[:count]
    centroids = mx.take(vectors, drawn, axis=0)
    for _ in range(iterations):
        lists = nearest_centroids(vectors, centroids, metric)
        sums = mx.zeros_like(centroids).at[lists].add(vectors)
        ones = mx.ones((vectors.shape[0], 1))
        sizes = mx.zeros((count, 1)).at[lists].add(ones)
        means = sums / mx.maximum(sizes, mx.ones_like(sizes))
        means = normalized(means) if metric is Metric.COSINE else means
        centroids = mx.where(sizes == mx.zeros_like(sizes), centroids, means)
    return centroids
