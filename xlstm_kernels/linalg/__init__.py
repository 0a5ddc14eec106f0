"""Linear algebra of batches of matrices, with the names, shapes and conventions of NumPy."""

from __future__ import annotations

from xlstm_kernels.linalg.orthogonalize import orthogonalize
from xlstm_kernels.linalg.qr import qr

__all__ = ["orthogonalize", "qr"]
