"""Linear algebra of batches of matrices, with the names, shapes and conventions of NumPy."""

from __future__ import annotations

from xlstm_kernels.linalg.cholesky import cholesky
from xlstm_kernels.linalg.eigh import EighResult, eigh, eigvalsh
from xlstm_kernels.linalg.lstsq import LstsqResult, lstsq
from xlstm_kernels.linalg.orthogonalize import orthogonalize
from xlstm_kernels.linalg.pinv import pinv
from xlstm_kernels.linalg.qr import QRResult, qr
from xlstm_kernels.linalg.svd import SVDResult, svd, svdvals
from xlstm_kernels.linalg.triangular import solve_triangular
from xlstm_kernels.linalg.truncated_svd import truncated_svd

__all__ = [
    "EighResult",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "cholesky",
    "eigh",
    "eigvalsh",
    "lstsq",
    "orthogonalize",
    "pinv",
    "qr",
    "solve_triangular",
    "svd",
    "svdvals",
    "truncated_svd",
]
