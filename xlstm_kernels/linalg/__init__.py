"""Linear algebra of batches of matrices, with the names, shapes and conventions of NumPy."""

from __future__ import annotations

from xlstm_kernels.linalg.svd import SVDResult, svd, svdvals

__all__ = ["SVDResult", "svd", "svdvals"]
