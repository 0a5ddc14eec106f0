"""Nearest-neighbor search: exact and inverted-file indexes, and the selection of the k smallest."""

from __future__ import annotations

from xlstm_kernels.search.flat import FlatIndex
from xlstm_kernels.search.ivf import IVFFlatIndex
from xlstm_kernels.search.ivf_pq import IVFPQIndex
from xlstm_kernels.search.selection import top_k
from xlstm_kernels.search.storage import load

__all__ = ["FlatIndex", "IVFFlatIndex", "IVFPQIndex", "load", "top_k"]
