"""Linear algebra of batches of matrices, with the names, shapes and conventions of NumPy."""

from __future__ import annotations

from xlstm_kernels.linalg.eigh import EighResult, eigh, eigvalsh
from xlstm_kernels.linalg.svd import SVDResult, svd, svdvals

__all__ = ["EighResult", "SVDResult", "eigh", "eigvalsh", "svd", "svdvals"]
