"""Inverted-file search of whole vectors."""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.search.inverted import InvertedIndex
from xlstm_kernels.search.metric import candidates, nearest_of
from xlstm_kernels.search.pages import Pages
from xlstm_kernels.search.scan import scan


class IVFFlatIndex(InvertedIndex):
    """Vectors in lists by their nearest centroid: faiss's `IndexIVFFlat`.

    Arguments and attributes are those of `InvertedIndex`.
    """

    kind = "ivf_flat"
    rows = "vectors"
    rows_on = (executors.NATIVE,)

    def _encode(self, vectors: mx.array, lists: mx.array) -> mx.array:
        return vectors

    def _norms(self, rows: mx.array, lists: mx.array) -> mx.array:
        return mx.sum(mx.square(rows), axis=1)

    def _nearest(
        self, queries: mx.array, probes: mx.array, pages: Pages, k: int, limit: int, backend: str
    ) -> tuple[mx.array, mx.array]:
        ids, places = scan(queries, probes, pages, candidates(k), limit, self.metric, backend)
        return nearest_of(queries, pages.at(places), ids, k, self.metric, backend)
