"""Nearest-neighbor search: exact and inverted-file indexes, and the selection of the k smallest."""

from __future__ import annotations

from xlstm_kernels.search.flat import FlatIndex
from xlstm_kernels.search.ivf import IVFFlatIndex
from xlstm_kernels.search.ivf_pq import IVFPQIndex
from xlstm_kernels.search.storage import load
from xlstm_kernels.search.top_k import top_k

__all__ = ["FlatIndex", "IVFFlatIndex", "IVFPQIndex", "load", "top_k"]
