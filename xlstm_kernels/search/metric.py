"""Metrics as keys of which the smallest is the nearest, and what indexes accept."""

from __future__ import annotations

import math
from enum import Enum

import mlx.core as mx

from xlstm_kernels.products import exact
from xlstm_kernels.search.selection import top_k


class Metric(Enum):
    """How near two vectors are, as in faiss.

    Attributes:
        L2: the squared Euclidean distance; the smallest is the nearest.
        INNER_PRODUCT: the greatest is the nearest.
        COSINE: the inner product of vectors that indexes scale to length 1; zero stays zero.
    """

    L2 = "l2"
    INNER_PRODUCT = "inner_product"
    COSINE = "cosine"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(f"metric must be one of {[each.value for each in cls]}, got {value!r}")


def normalized(vectors: mx.array) -> mx.array:
    """Vectors (N, D) of length 1, without overflow; zero for zero, NaN for what is infinite."""
    greatest = mx.max(mx.abs(vectors), axis=1, keepdims=True)
    scaled = vectors / mx.where(
        greatest == mx.zeros_like(greatest), mx.ones_like(greatest), greatest
    )
    length = mx.sqrt(mx.sum(mx.square(scaled), axis=1, keepdims=True))
    return scaled / mx.where(length == mx.zeros_like(length), mx.ones_like(length), length)


def origin_of(vectors: mx.array) -> mx.array:
    """A point (D) near the mean of vectors (N, D), N at least 1.

    It is a multiple of a power of two that is not below the spread of the vectors: what has few
    digits still has few after the subtraction. Infinities and NaN do not count.
    """
    finite = mx.isfinite(vectors)
    mean = mx.mean(mx.where(finite, vectors, mx.zeros_like(vectors)), axis=0)
    spread = mx.max(mx.where(finite, mx.abs(vectors - mean), mx.zeros_like(vectors)))
    tiny = mx.array(2.0**-60, dtype=spread.dtype)
    step = mx.power(mx.full((), 2.0), mx.ceil(mx.log2(mx.maximum(spread, tiny))))
    return mx.round(mean / step) * step


def keys_of(
    queries: mx.array, vectors: mx.array, metric: Metric, origin: mx.array | None = None
) -> mx.array:
    """Keys (Q, N) of all pairs: -q.x, or |x|^2 - 2 q.x, which is the distance less |q|^2.

    The difference cancels: its error is about 1e-7 of |x|^2, not of the distance. Both are taken
    from `origin`, that of the vectors if there is none, which makes |x| as small as distances are.
    """
    products = exact()
    if metric is not Metric.L2:
        return mx.negative(products.operand(queries) @ products.operand(vectors).transposed)
    origin = origin_of(vectors) if origin is None else origin
    vectors = vectors - origin
    dots = products.operand(queries - origin) @ products.operand(vectors).transposed
    return mx.expand_dims(mx.sum(mx.square(vectors), axis=1), axis=0) - (dots + dots)


def candidates(k: int) -> int:
    """How many to select by keys that cancel, so that the k nearest are among them."""
    return min(k + max(8, k // 4), 1024)


def nearest_of(
    queries: mx.array, found: mx.array, ids: mx.array, k: int, metric: Metric, backend: str
) -> tuple[mx.array, mx.array]:
    """Compute the metric of candidates anew, without cancellation, and order the k nearest.

    Queries are (Q, D), the candidates `found` (Q, C, D), and their ids (Q, C), int32, of which
    negative ones are ignored. Distances and ids, (Q, k), are infinite (minus infinity if not L2)
    and -1 where there are fewer candidates.
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
