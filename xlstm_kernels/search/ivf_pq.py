"""Inverted-file search of product-quantized vectors.

Jegou, Douze, Schmid: Product quantization for nearest neighbor search, 2011. A vector x in the list
of centroid c is c + y: each of the m parts of the residual y is one of 256 codewords.

    |q - c - y|^2 = |q - c|^2 + (|y|^2 + 2 c.y) - 2 q.y

The first term is one number for each list that a query reads, the second one for each vector. The
third is a sum of m numbers from tables of the query, the same ones for all lists. q and c are taken
relative to a point near the mean of the centroids, so that these terms are as small as distances.
"""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.arguments import host_integer
from xlstm_kernels.products import exact
from xlstm_kernels.search.inverted import InvertedIndex, evenly_spaced
from xlstm_kernels.search.k_means import k_means, nearest_centroids
from xlstm_kernels.search.metric import Metric, origin_of
from xlstm_kernels.search.pages import Pages
from xlstm_kernels.search.scan_codes import CODEWORDS, scan_codes

# Elements of the residuals that are decoded at a time: 64 MB of float32.
_TILE = 2**24


class IVFPQIndex(InvertedIndex):
    """Codes of m bytes of residuals, in lists: faiss's `IndexIVFPQ` with 8 bits.

    Distances are those of the decoded vectors, as faiss's. Other arguments and attributes are those
    of `InvertedIndex`.

    Attributes:
        m: the parts of a vector, which divide D: bytes of its code.
    """

    kind = "ivf_pq"
    rows = "codes"
    codewords = CODEWORDS

    def __init__(
        self,
        dimension: int,
        nlist: int,
        m: int,
        metric: Metric | str = Metric.L2,
        *,
        nprobe: int = 1,
    ) -> None:
        """Make an index that is not trained.

        Errors are those of `InvertedIndex`; a dimension that m does not divide is a ValueError.
        """
        super().__init__(dimension, nlist, metric, nprobe=nprobe)
        self.m = host_integer(self._name, "m", m, least=1)
        if dimension % m:
            raise ValueError(f"{self._name}: dimension must be a multiple of {m}, got {dimension}")
        self._codebooks: mx.array | None = None

    def _train_codes(
        self, vectors: mx.array, centroids: mx.array, iterations: int, most: int, seed: int
    ) -> None:
        sample = evenly_spaced(vectors, CODEWORDS, most)
        lists = nearest_centroids(sample, centroids, self.metric)
        codebooks = [
            k_means(part, CODEWORDS, Metric.L2, iterations=iterations, seed=seed)
            for part in self._parts_of(sample - centroids[lists])
        ]
        self._codebooks = mx.stack(codebooks)
        mx.eval(self._codebooks)

    def restore_codebooks(self, codebooks: mx.array) -> None:
        """Set the codewords (m, 256, D / m) of an index without vectors."""
        self._codebooks = codebooks

    def _contents(self) -> tuple[dict[str, mx.array], dict[str, int]]:
        arrays, settings = super()._contents()
        return arrays | {"codebooks": self._require_codebooks()}, settings

    def _require_codebooks(self) -> mx.array:
        if self._codebooks is None:
            raise ValueError(f"{self._name}: the index has no codebooks; call train() first")
        return self._codebooks

    def _parts_of(self, vectors: mx.array) -> list[mx.array]:
        """Vectors (N, D) as m arrays (N, D / m)."""
        return list(mx.split(vectors, self.m, axis=1))

    def _encode(self, vectors: mx.array, lists: mx.array) -> mx.array:
        residuals = self._parts_of(vectors - self._require_trained("add")[lists])
        codes = [
            nearest_centroids(part, codebook, Metric.L2)
            for part, codebook in zip(residuals, self._require_codebooks(), strict=True)
        ]
        return mx.stack(codes, axis=1).astype(mx.uint8)

    def _centered(self) -> tuple[mx.array, mx.array]:
        """A point near the mean of the centroids, and the centroids relative to it."""
        centroids = self._require_trained("search")
        origin = origin_of(centroids)
        return origin, centroids - origin

    def _norms(self, rows: mx.array, lists: mx.array) -> mx.array:
        _, centroids = self._centered()
        codebooks = self._require_codebooks()
        step = max(1, _TILE // self.dimension)
        norms = []
        for start in range(0, rows.shape[0], step):
            codes = rows[start : start + step].astype(mx.int32)
            numbers = mx.arange(self.m, dtype=mx.int32)
            residuals = codebooks[numbers, codes].reshape(-1, self.dimension)
            doubled = centroids[lists[start : start + step]]
            norms.append(mx.sum(residuals * (residuals + doubled + doubled), axis=1))
        return mx.concatenate(norms)

    def _nearest(
        self, queries: mx.array, probes: mx.array, pages: Pages, k: int, limit: int, backend: str
    ) -> tuple[mx.array, mx.array]:
        squared = self.metric is Metric.L2
        codebooks = self._require_codebooks()
        centroids = self._require_trained("search")
        chosen = centroids[mx.maximum(probes, mx.zeros_like(probes))]
        one = mx.expand_dims(queries, axis=1)
        if squared:
            biases = mx.sum(mx.square(chosen - one), axis=2)
            queries = queries - self._centered()[0]
        else:
            biases = mx.negative(mx.sum(chosen * one, axis=2))
        factors = mx.negative(queries + queries if squared else queries)
        products = exact()
        parts = mx.stack(self._parts_of(factors))
        tables = products.operand(parts) @ products.operand(codebooks).transposed
        keys, ids = scan_codes(tables, biases, probes, pages, k, limit, backend)
        return keys if squared else mx.negative(keys), ids
