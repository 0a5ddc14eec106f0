"""Linear algebra of batches of matrices, with the names, shapes and conventions of NumPy."""

from __future__ import annotations

from xlstm_kernels.linalg.cholesky import cholesky
from xlstm_kernels.linalg.lu import lu, lu_factor
from xlstm_kernels.linalg.solve import inv, solve
from xlstm_kernels.linalg.triangular import solve_triangular

__all__ = ["cholesky", "inv", "lu", "lu_factor", "solve", "solve_triangular"]
