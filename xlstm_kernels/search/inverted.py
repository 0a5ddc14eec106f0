"""The base of inverted-file indexes: lists by k-means, their pages, and the bounds of a search."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import mlx.core as mx

from xlstm_kernels.arguments import host_integer
from xlstm_kernels.executors import StreamLike, on_stream, resolve
from xlstm_kernels.search.groups import searched_in_groups
from xlstm_kernels.search.k_means import k_means, nearest_centroids
from xlstm_kernels.search.metal import LANES, MOST
from xlstm_kernels.search.metric import Metric, keys_of, none_found
from xlstm_kernels.search.pages import Pages, paged
from xlstm_kernels.search.selection import top_k
from xlstm_kernels.search.vector_index import VectorIndex

# Elements of the keys of a group of queries: 32 MB of float32.
_TILE = 2**23
_MOST_QUERIES = 1024


class InvertedIndex(VectorIndex):
    """Vectors, or codes of them, in lists by their nearest centroid.

    A query reads its `nprobe` nearest lists, the nearest first, up to `max_codes` vectors. faiss
    has this bound too, off by default. Here shapes cannot depend on the lengths of lists, and MLX
    operations compute as many distances as the bound says. Its default is (1.5 nprobe + 4
    sqrt(nprobe)) lists of the mean length.

    Attributes:
        dimension: D of all vectors.
        nlist: the number of lists, at least 1.
        metric: L2, INNER_PRODUCT or COSINE, also of centroids.
        nprobe: the lists that a query reads; 1 at first, and at most 1024.
        max_codes: the most vectors that a query reads, rounded up to pages of 32 with their free
            places; None for the default. `max_codes=index.ntotal` reads all of the lists.
    """

    #: The name of the vectors, or of their codes, in a file.
    rows: ClassVar[str]
    #: The number of codewords of a part of a vector.
    codewords: ClassVar[int] = 0
    #: The backends that read the rows of pages; others read them interleaved.
    rows_on: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, dimension: int, nlist: int, metric: Metric | str = Metric.L2, *, nprobe: int = 1
    ) -> None:
        """Make an index that is not trained; errors are those of `FlatIndex`, for nlist too."""
        super().__init__(dimension, metric)
        self.nlist = host_integer(self._name, "nlist", nlist, least=1)
        self.nprobe = nprobe
        self.max_codes: int | None = None
        self._centroids: mx.array | None = None
        self._parts: list[tuple[mx.array, mx.array]] = []
        self._pages: Pages | None = None
        self._lists = mx.zeros((0,), dtype=mx.int32)

    @property
    def is_trained(self) -> bool:
        """True if there are centroids."""
        return self._centroids is not None

    @property
    def ntotal(self) -> int:
        """The number of vectors."""
        return self._lists.shape[0] + sum(part.shape[0] for part, _ in self._parts)

    def train(
        self,
        vectors: mx.array,
        *,
        iterations: int = 10,
        max_points_per_centroid: int = 64,
        seed: int = 1234,
    ) -> None:
        """Find centroids of vectors (N, D), float32, by k-means, and codewords; evaluates them.

        N is at least nlist, and for codewords at least 256.

        Args:
            vectors: a sample of those that are added.
            iterations: of Lloyd's algorithm.
            max_points_per_centroid: of more vectors, evenly spaced ones are taken.
            seed: of the first centroids.

        Raises:
            TypeError: for another dtype.
            ValueError: for another shape, too few vectors, or vectors in the index.
        """
        given = self._accepted("train", "vectors", vectors)
        for count, parts in ((self.nlist, "lists"), (self.codewords, "codewords")):
            if given.shape[0] < count:
                raise ValueError(
                    f"{self._name}.train: {count} {parts} need as many vectors, "
                    f"got {given.shape[0]}"
                )
        if self.ntotal:
            raise ValueError(f"{self._name}.train: the index has vectors already")
        sample = evenly_spaced(given, self.nlist, max_points_per_centroid)
        centroids = k_means(sample, self.nlist, self.metric, iterations=iterations, seed=seed)
        mx.eval(centroids)
        self._centroids = centroids
        self._train_codes(given, centroids, iterations, max_points_per_centroid, seed)

    @on_stream
    def search(
        self, queries: mx.array, k: int, *, backend: str | None = None, stream: StreamLike = None
    ) -> tuple[mx.array, mx.array]:
        """Find the `k` nearest vectors in the lists that each query reads.

        Arguments, results and errors are those of `FlatIndex.search`. An nprobe that is not an
        integer is a TypeError, another one or an index that is not trained a ValueError.
        """
        queries = self._accepted("search", "queries", queries)
        k = host_integer(f"{self._name}.search", "k", k, least=1, most=MOST)
        centroids = self._require_trained("search")
        nprobe, most = self._bounds("search")
        resolved = resolve(backend)
        if not self.ntotal or not queries.shape[0]:
            distances, places = none_found(queries.shape[0], k, self.metric)
            return distances, self._identified(places)
        pages = self._paged(interleaved=resolved not in self.rows_on)
        limit = self._page_limit(nprobe, most, pages)
        step = min(_MOST_QUERIES, _TILE // max(limit * LANES, self.nlist))

        def nearest(part: mx.array) -> tuple[mx.array, mx.array]:
            _, probes = top_k(keys_of(part, centroids, self.metric), nprobe, backend=resolved)
            return self._nearest(part, probes, pages, k, limit, resolved)

        distances, places = searched_in_groups(queries, step, resolved, nearest, stream)
        return distances, self._identified(places)

    def restore(self, centroids: mx.array, rows: mx.array, lists: mx.array) -> None:
        """Set centroids (nlist, D), vectors or codes (N, ...), and lists (N), below nlist."""
        self._centroids, self._pages, self._labels = centroids, None, None
        self._lists = mx.zeros((0,), dtype=mx.int32)
        self._parts = [(rows, lists)] if rows.shape[0] else []

    def _append(self, vectors: mx.array) -> None:
        """Evaluate the lists, so that a stream of parts keeps no graph; pages are made later."""
        lists = nearest_centroids(vectors, self._require_trained("add"), self.metric)
        part = self._encode(vectors, lists)
        mx.eval(part, lists)
        if part.shape[0]:
            self._parts.append((part, lists))

    def _keep(self, places: mx.array) -> None:
        rows, lists = (mx.take(array, places, axis=0) for array in self._whole())
        mx.eval(rows, lists)
        self.restore(self._require_trained("remove_ids"), rows, lists)

    def _contents(self) -> tuple[dict[str, mx.array], dict[str, int]]:
        centroids = self._require_trained("save")
        self._bounds("save")
        rows, lists = self._whole()
        settings = {"nprobe": self.nprobe}
        if self.max_codes is not None:
            settings["max_codes"] = self.max_codes
        return {self.rows: rows, "lists": lists, "centroids": centroids}, settings

    def _train_codes(
        self, vectors: mx.array, centroids: mx.array, iterations: int, most: int, seed: int
    ) -> None:
        """Find what the codes of vectors (N, D) need, from at most so many of each codeword."""
        return  # whole vectors need nothing

    @abstractmethod
    def _encode(self, vectors: mx.array, lists: mx.array) -> mx.array:
        """The values that the index keeps of vectors (N, D) in lists (N)."""

    @abstractmethod
    def _norms(self, rows: mx.array, lists: mx.array) -> mx.array:
        """The terms of L2's keys (N), float32, that no query changes."""

    @abstractmethod
    def _nearest(
        self, queries: mx.array, probes: mx.array, pages: Pages, k: int, limit: int, backend: str
    ) -> tuple[mx.array, mx.array]:
        """Distances and ids (Q, k) in the lists `probes` (Q, nprobe), of at most `limit` pages."""

    def _require_trained(self, method: str) -> mx.array:
        if self._centroids is None:
            raise ValueError(f"{self._name}.{method}: the index is not trained; call train() first")
        return self._centroids

    def _bounds(self, method: str) -> tuple[int, int | None]:
        """How many lists and vectors a query reads: nprobe, at most nlist, and max_codes."""
        operator, most = f"{self._name}.{method}", self.max_codes
        nprobe = host_integer(operator, "nprobe", self.nprobe, least=1, most=MOST)
        if most is not None:
            most = host_integer(operator, "max_codes", most, least=1)
        return min(nprobe, self.nlist), most

    def _page_limit(self, nprobe: int, most: int | None, pages: Pages) -> int:
        everything = pages.ids.shape[0]
        if nprobe == self.nlist:
            return everything
        if most is not None:
            return min(math.ceil(most / LANES) + nprobe, everything)
        mean = self.ntotal / self.nlist / LANES + 0.5
        return min(math.ceil((1.5 * nprobe + 4 * math.sqrt(nprobe)) * mean) + 1, everything)

    def _whole(self) -> tuple[mx.array, mx.array]:
        """All vectors, or their codes, and their lists, by id."""
        none = mx.zeros((0,), dtype=mx.int32)
        rows = [self._encode(mx.zeros((0, self.dimension)), none)]
        rows += [] if self._pages is None else [self._pages.by_id()]
        rows += [part for part, _ in self._parts]
        lists = mx.concatenate([self._lists, *(of_part for _, of_part in self._parts)])
        return mx.concatenate(rows), lists

    def _paged(self, *, interleaved: bool) -> Pages:
        if self._pages is None or self._parts or self._pages.interleaved != interleaved:
            rows, self._lists = self._whole()
            is_squared = self.metric is Metric.L2
            norms = self._norms(rows, self._lists) if is_squared else mx.zeros(self._lists.shape)
            self._pages = paged(rows, norms, self._lists, self.nlist, interleaved=interleaved)
            self._parts = []
        return self._pages


def evenly_spaced(vectors: mx.array, count: int, most_of_each: int) -> mx.array:
    """A sample of vectors (N, D) for `count` centroids, at least `count` where N is."""
    spacing = math.ceil(vectors.shape[0] / (count * most_of_each))
    return vectors[::spacing] if vectors.shape[0] // spacing >= count else vectors
