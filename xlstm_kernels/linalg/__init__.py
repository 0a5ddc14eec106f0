"""Linear algebra of batches of matrices, with the names, shapes and conventions of NumPy."""

from __future__ import annotations

from xlstm_kernels.linalg.cholesky_factorization import cholesky
from xlstm_kernels.linalg.conjugate_gradients import conjugate_gradient
from xlstm_kernels.linalg.least_squares import LstsqResult, lstsq
from xlstm_kernels.linalg.linear_systems import inv, solve
from xlstm_kernels.linalg.lu_factorization import lu, lu_factor
from xlstm_kernels.linalg.orthogonalization import orthogonalize
from xlstm_kernels.linalg.pseudoinverse import pinv
from xlstm_kernels.linalg.qr_factorization import QRResult, qr
from xlstm_kernels.linalg.singular_values import SVDResult, svd, svdvals
from xlstm_kernels.linalg.subspace_iteration import truncated_svd
from xlstm_kernels.linalg.symmetric_eigen import EighResult, eigh, eigvalsh
from xlstm_kernels.linalg.triangular import solve_triangular

__all__ = [
    "EighResult",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "cholesky",
    "conjugate_gradient",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "orthogonalize",
    "pinv",
    "qr",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "truncated_svd",
]
