"""Linear algebra of batches of matrices, with the names, shapes and conventions of NumPy.

Functions that take float32 take float16 and bfloat16 too: they compute in float32, and round their
results to the dtype of the arguments.
"""

from __future__ import annotations

from xlstm_kernels.linalg.cholesky_factorization import cholesky
from xlstm_kernels.linalg.conjugate_gradients import conjugate_gradient
from xlstm_kernels.linalg.determinants import SlogdetResult, det, slogdet
from xlstm_kernels.linalg.least_squares import LstsqResult, lstsq
from xlstm_kernels.linalg.linear_systems import cho_solve, inv, lu_solve, solve
from xlstm_kernels.linalg.lu_factorization import lu, lu_factor
from xlstm_kernels.linalg.orthogonalization import orthogonalize
from xlstm_kernels.linalg.pseudoinverse import pinv
from xlstm_kernels.linalg.qr_factorization import QRResult, qr
from xlstm_kernels.linalg.rank import matrix_rank
from xlstm_kernels.linalg.singular_values import SVDResult, svd, svdvals
from xlstm_kernels.linalg.subspace_iteration import truncated_svd
from xlstm_kernels.linalg.symmetric_eigen import EighResult, eigh, eigvalsh
from xlstm_kernels.linalg.triangular import solve_triangular

__all__ = [
    "EighResult",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cho_solve",
    "cholesky",
    "conjugate_gradient",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matrix_rank",
    "orthogonalize",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "truncated_svd",
]
