"""Metrics as keys of which the smallest is the nearest, and what indexes accept."""

from __future__ import annotations

import math
from enum import Enum

import mlx.core as mx

from xlstm_kernels.products import exact
from xlstm_kernels.search.top_k import top_k


class Metric(Enum):
    """How near two vectors are, as in faiss.

    Attributes:
        L2: the squared Euclidean distance; the smallest is the nearest.
        INNER_PRODUCT: the greatest is the nearest.
    """

    L2 = "l2"
    INNER_PRODUCT = "inner_product"


def require_vectors(operator: str, argument: str, vectors: object, dimension: int) -> mx.array:
    """Accept a float32 array (N, dimension).

    Raises:
        TypeError: for another dtype, or for what is no array.
        ValueError: for another shape.
    """
    if not isinstance(vectors, mx.array) or vectors.dtype != mx.float32:
        kind = vectors.dtype if isinstance(vectors, mx.array) else type(vectors).__name__
        raise TypeError(f"{operator}: {argument} must be a float32 array, got {kind}")
    if vectors.ndim != 2 or vectors.shape[1] != dimension:
        raise ValueError(
            f"{operator}: {argument} must have shape (N, {dimension}), got {vectors.shape}"
        )
    return vectors


def squared_norms(vectors: mx.array) -> mx.array:
    """|x|^2 of vectors (..., D): (...)."""
    return mx.sum(mx.square(vectors), axis=-1)


def keys_of(
    queries: mx.array, vectors: mx.array, norms: mx.array, metric: Metric
) -> mx.array:
    """Keys (Q, N) of all pairs: -q.x, or |x|^2 - 2 q.x, which is the distance less |q|^2.

    The difference cancels: its error is that of |x|^2, about 1e-7 of it, not of the distance.
    """
    products = exact()
    dots = products.operand(queries) @ products.operand(vectors).transposed
    if metric is Metric.INNER_PRODUCT:
        return mx.negative(dots)
    return mx.expand_dims(norms, axis=0) - (dots + dots)


def candidates(k: int) -> int:
    """How many to select by keys that cancel, so that the k nearest are among them."""
    return min(k + max(8, k // 4), 1024)


def nearest_of(
    queries: mx.array, found: mx.array, ids: mx.array, k: int, metric: Metric, backend: str
) -> tuple[mx.array, mx.array]:
    """Compute the metric of candidates anew, without cancellation, and order the k nearest.

    Args:
        queries: (Q, D).
        found: (Q, C, D), the candidates.
        ids: (Q, C), int32; negative ones are ignored.
        k: how many to return.
        metric: of the index.
        backend: as `executors.resolve` returned it.

    Returns:
        Distances and ids, (Q, k); infinite (inner products: minus infinity) and -1 where there are
        fewer candidates.
    """
    one = mx.expand_dims(queries, axis=1)
    if metric is Metric.L2:
        return top_k(mx.sum(mx.square(found - one), axis=2), k, ids=ids, backend=backend)
    keys, ids = top_k(mx.negative(mx.sum(found * one, axis=2)), k, ids=ids, backend=backend)
    return mx.negative(keys), ids


def none_found(count: int, k: int, metric: Metric) -> tuple[mx.array, mx.array]:
    """The result of `count` queries in an index without vectors."""
    worst = math.inf if metric is Metric.L2 else -math.inf
    return mx.full((count, k), worst), mx.full((count, k), -1, dtype=mx.int32)
