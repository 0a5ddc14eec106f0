"""The base of inverted-file indexes: lists by k-means, their pages, and the bounds of a search."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.arguments import host_integer
from xlstm_kernels.search.groups import searched_in_groups
from xlstm_kernels.search.k_means import k_means, nearest_centroids
from xlstm_kernels.search.metal import LANES, MOST
from xlstm_kernels.search.metric import Metric, keys_of, none_found, require_vectors
from xlstm_kernels.search.pages import Pages, paged
from xlstm_kernels.search.selection import require_k, top_k

if TYPE_CHECKING:
    from os import PathLike

# Elements of the keys of a group of queries: 32 MB of float32.
_TILE = 2**23
_MOST_QUERIES = 1024


class InvertedIndex(ABC):
    """Vectors, or codes of them, in lists by their nearest centroid.

    A query reads its `nprobe` nearest lists, the nearest first, up to `max_codes` vectors. faiss
    has this bound too, off by default. Here shapes cannot depend on the lengths of lists, and MLX
    operations compute as many distances as the bound says. Its default is (1.5 nprobe + 4
    sqrt(nprobe)) lists of the mean length.

    Attributes:
        dimension: D of all vectors.
        nlist: the number of lists, at least 1.
        metric: L2 or INNER_PRODUCT, also of centroids.
        nprobe: the lists that a query reads; 1 at first, and at most 1024.
        max_codes: the most vectors that a query reads, rounded up to pages of 32 with their free
            places; None for the default. `max_codes=index.ntotal` reads all of the lists.
    """

    def __init__(
        self, dimension: int, nlist: int, metric: Metric | str = Metric.L2, *, nprobe: int = 1
    ) -> None:
        """Make an index that is not trained.

        Raises:
            TypeError: for numbers that are not integers.
            ValueError: for one below 1, or an unknown metric.
        """
        self.dimension = host_integer(self._name, "dimension", dimension, least=1)
        self.nlist = host_integer(self._name, "nlist", nlist, least=1)
        self.metric = Metric(metric)
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
        """Find centroids of vectors (N, D), float32, N at least nlist, by k-means; evaluates them.

        Args:
            vectors: a sample of those that are added.
            iterations: of Lloyd's algorithm.
            max_points_per_centroid: of more vectors, evenly spaced ones are taken.
            seed: of the first centroids.

        Raises:
            TypeError: for another dtype.
            ValueError: for another shape, too few vectors, or vectors in the index.
        """
        given = require_vectors(f"{self._name}.train", "vectors", vectors, self.dimension)
        if given.shape[0] < self.nlist:
            raise ValueError(
                f"{self._name}.train: {self.nlist} lists need as many vectors, got {given.shape[0]}"
            )
        if self.ntotal:
            raise ValueError(f"{self._name}.train: the index has vectors already")
        sample = evenly_spaced(given, self.nlist, max_points_per_centroid)
        centroids = k_means(sample, self.nlist, self.metric, iterations=iterations, seed=seed)
        mx.eval(centroids)
        self._centroids = centroids

    def add(self, vectors: mx.array) -> None:
        """Append vectors (N, D), float32; their ids follow those of earlier ones.

        The lists are evaluated here, so that a stream of parts keeps no graph. Pages are made at
        the next search.

        Raises:
            TypeError: for another dtype.
            ValueError: for another shape, or an index that is not trained.
        """
        given = require_vectors(f"{self._name}.add", "vectors", vectors, self.dimension)
        lists = nearest_centroids(given, self._require_trained("add"), self.metric)
        part = self._encode(given, lists)
        mx.eval(part, lists)
        if part.shape[0]:
            self._parts.append((part, lists))

    def search(
        self, queries: mx.array, k: int, *, backend: str | None = None
    ) -> tuple[mx.array, mx.array]:
        """Find the `k` nearest vectors in the lists that each query reads.

        Arguments, results and errors are those of `FlatIndex.search`.

        Raises:
            TypeError: for another dtype, or an nprobe that is not an integer.
            ValueError: for another shape, k or nprobe, or an index that is not trained.
            RuntimeError: for a backend that cannot run here.
        """
        operator = f"{self._name}.search"
        queries = require_vectors(operator, "queries", queries, self.dimension)
        k = require_k(operator, k)
        centroids = self._require_trained("search")
        nprobe = min(self._checked_nprobe(), self.nlist)
        resolved = executors.resolve(backend)
        if not self.ntotal or not queries.shape[0]:
            return none_found(queries.shape[0], k, self.metric)
        pages = self._paged(interleaved=self._interleaved(resolved))
        limit = self._page_limit(nprobe, pages)
        step = min(_MOST_QUERIES, _TILE // max(limit * LANES, self.nlist))

        def nearest(part: mx.array) -> tuple[mx.array, mx.array]:
            _, probes = top_k(keys_of(part, centroids, self.metric), nprobe, backend=resolved)
            return self._nearest(part, probes, pages, k, limit, resolved)

        return searched_in_groups(queries, step, resolved, nearest)

    @abstractmethod
    def save(self, path: str | PathLike[str]) -> None:
        """Write the index to a safetensors file, which `xlstm_kernels.search.load` reads.

        Raises:
            ValueError: for an index that is not trained.
        """

    def restore(self, centroids: mx.array, rows: mx.array, lists: mx.array) -> None:
        """Set centroids (nlist, D), vectors or codes (N, ...), and lists (N), below nlist."""
        self._centroids, self._pages = centroids, None
        self._lists = mx.zeros((0,), dtype=mx.int32)
        self._parts = [(rows, lists)] if rows.shape[0] else []

    @property
    def _name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def _encode(self, vectors: mx.array, lists: mx.array) -> mx.array:
        """The values that the index keeps of vectors (N, D) in lists (N)."""

    @abstractmethod
    def _no_rows(self) -> mx.array:
        """The values that the index keeps of no vectors."""

    @abstractmethod
    def _norms(self, rows: mx.array, lists: mx.array) -> mx.array:
        """The terms of keys (N), float32, that no query changes."""

    @abstractmethod
    def _interleaved(self, backend: str) -> bool:
        """The layout of pages that the scan reads."""

    @abstractmethod
    def _nearest(
        self, queries: mx.array, probes: mx.array, pages: Pages, k: int, limit: int, backend: str
    ) -> tuple[mx.array, mx.array]:
        """Distances and ids (Q, k) in the lists `probes` (Q, nprobe), of at most `limit` pages."""

    def _require_trained(self, method: str) -> mx.array:
        if self._centroids is None:
            raise ValueError(f"{self._name}.{method}: the index is not trained; call train() first")
        return self._centroids

    def _checked_nprobe(self) -> int:
        nprobe = host_integer(f"{self._name}.search", "nprobe", self.nprobe, least=1)
        if nprobe > MOST:
            raise ValueError(f"{self._name}.search: nprobe must be at most {MOST}, got {nprobe}")
        return nprobe

    def _page_limit(self, nprobe: int, pages: Pages) -> int:
        everything = pages.ids.shape[0]
        if nprobe == self.nlist:
            return everything
        if self.max_codes is not None:
            least = host_integer(f"{self._name}.search", "max_codes", self.max_codes, least=1)
            return min(math.ceil(least / LANES) + nprobe, everything)
        mean = self.ntotal / self.nlist / LANES + 0.5
        return min(math.ceil((1.5 * nprobe + 4 * math.sqrt(nprobe)) * mean) + 1, everything)

    def _whole(self) -> tuple[mx.array, mx.array]:
        """All vectors, or their codes, and their lists, by id."""
        rows = [] if self._pages is None else [self._pages.by_id()]
        rows += [part for part, _ in self._parts]
        lists = mx.concatenate([self._lists, *(of_part for _, of_part in self._parts)])
        return mx.concatenate([*rows, self._no_rows()]), lists

    def _paged(self, *, interleaved: bool) -> Pages:
        if self._pages is None or self._parts or self._pages.interleaved != interleaved:
            rows, self._lists = self._whole()
            norms = self._norms(rows, self._lists)
            self._pages = paged(rows, norms, self._lists, self.nlist, interleaved=interleaved)
            self._parts = []
        return self._pages


def evenly_spaced(vectors: mx.array, count: int, most_of_each: int) -> mx.array:
    """A sample of vectors (N, D) for `count` centroids, at least `count` where N is."""
    spacing = math.ceil(vectors.shape[0] / (count * most_of_each))
    return vectors[::spacing] if vectors.shape[0] // spacing >= count else vectors
