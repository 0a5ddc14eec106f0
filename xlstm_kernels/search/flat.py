"""Exact search: every query is compared with every vector."""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.arguments import host_integer
from xlstm_kernels.executors import StreamLike, on_stream, resolve
from xlstm_kernels.search.groups import searched_in_groups
from xlstm_kernels.search.metal import MOST
from xlstm_kernels.search.metric import (
    Metric,
    candidates,
    keys_of,
    nearest_of,
    none_found,
    origin_of,
)
from xlstm_kernels.search.selection import top_k
from xlstm_kernels.search.vector_index import VectorIndex

# Elements of a tile of keys: 64 MB of float32.
_TILE = 2**24
_QUERIES = 256


class FlatIndex(VectorIndex):
    """All vectors, compared with each query by matrix products: faiss's `IndexFlat`.

    The products select a few more than k candidates, whose distances are then computed anew from
    the vectors, without the cancellation of |x|^2 - 2 q.x. Attributes are those of `VectorIndex`.
    """

    kind = "flat"

    def __init__(self, dimension: int, metric: Metric | str = Metric.L2) -> None:
        """Make an index without vectors.

        Raises:
            TypeError: for a dimension that is not an integer.
            ValueError: for one below 1, or an unknown metric.
        """
        super().__init__(dimension, metric)
        self._parts: list[mx.array] = []

    @property
    def ntotal(self) -> int:
        """The number of vectors."""
        return sum(part.shape[0] for part in self._parts)

    @on_stream
    def search(
        self, queries: mx.array, k: int, *, backend: str | None = None, stream: StreamLike = None
    ) -> tuple[mx.array, mx.array]:
        """Find the `k` nearest vectors of each query, the nearest first, equal ones as added.

        Errors are those of `top_k`.

        Args:
            queries: (Q, D), float32.
            k: from 1 to 1024.
            backend: `"metal"`, `"cuda"`, `"native"`, or None to choose.

        Returns:
            Distances (Q, k), float32: squared, inner products, or cosines; and ids (Q, k), int32,
            or int64 after `add_with_ids` or `remove_ids`. Where there are fewer vectors, infinity
            (minus infinity if not L2) and -1. NaN is never returned.
        """
        queries = self._accepted("search", "queries", queries)
        k = host_integer("FlatIndex.search", "k", k, least=1, most=MOST)
        resolved = resolve(backend)
        if not self.ntotal or not queries.shape[0]:
            distances, places = none_found(queries.shape[0], k, self.metric)
        else:
            vectors = self._vectors()
            origin = origin_of(vectors)
            distances, places = searched_in_groups(
                queries,
                _QUERIES,
                resolved,
                lambda part: self._nearest(part, vectors, origin, k, resolved),
                stream,
            )
        return distances, self._identified(places)

    def restore(self, vectors: mx.array) -> None:
        """Set the vectors (N, D); those of a COSINE index have length 1."""
        self._parts, self._labels = [vectors], None

    def _append(self, vectors: mx.array) -> None:
        self._parts.append(vectors)

    def _keep(self, places: mx.array) -> None:
        self.restore(mx.take(self._vectors(), places, axis=0))
        mx.eval(self._parts)

    def _contents(self) -> tuple[dict[str, mx.array], dict[str, int]]:
        return {"vectors": self._vectors()}, {}

    def _vectors(self) -> mx.array:
        """One array of all vectors."""
        if len(self._parts) != 1:
            empty = mx.zeros((0, self.dimension))
            self._parts = [mx.concatenate(self._parts) if self._parts else empty]
        return self._parts[0]

    def _nearest(
        self, queries: mx.array, vectors: mx.array, origin: mx.array, k: int, backend: str
    ) -> tuple[mx.array, mx.array]:
        """Tiles of a bounded size, one after the other: their best, and then the best of these."""
        step = _TILE // _QUERIES
        count = candidates(k)
        best: list[tuple[mx.array, mx.array]] = []
        for start in range(0, vectors.shape[0], step):
            tile = keys_of(queries, vectors[start : start + step], self.metric, origin)
            keys, ids = top_k(tile, count, backend=backend)
            shifted = ids + mx.array(start, dtype=ids.dtype)
            best.append((keys, mx.where(mx.less(ids, mx.zeros_like(ids)), ids, shifted)))
        keys, ids = (mx.concatenate(list(arrays), axis=1) for arrays in zip(*best, strict=True))
        if len(best) > 1:
            keys, ids = top_k(keys, count, ids=ids, backend=backend)
        found = mx.take(vectors, mx.maximum(ids, mx.zeros_like(ids)), axis=0)
        return nearest_of(queries, found, ids, k, self.metric, backend)
