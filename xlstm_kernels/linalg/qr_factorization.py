"""QR factorization of batches of matrices, with a gradient."""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple, get_args, overload

import mlx.core as mx

from xlstm_kernels.arguments import require_choice
from xlstm_kernels.differentiation import Arrays, Operation, decomposition
from xlstm_kernels.executors import StreamLike, resolve
from xlstm_kernels.linalg.arguments import flat_batch, in_float32, require_matrices
from xlstm_kernels.linalg.arithmetic import multiply, unmapped
from xlstm_kernels.linalg.blocked_qr import blocked_qr
from xlstm_kernels.linalg.householder import fits, small_qr
from xlstm_kernels.linalg.triangular import solve_triangular

Mode = Literal["reduced", "complete", "r"]


class QRResult(NamedTuple):
    """The factors of `qr`, with NumPy's names."""

    Q: mx.array
    R: mx.array


@overload
def qr(
    a: mx.array,
    mode: Literal["reduced", "complete"] = "reduced",
    *,
    backend: str | None = None,
    stream: StreamLike = None,
) -> QRResult: ...
@overload
def qr(
    a: mx.array, mode: Literal["r"], *, backend: str | None = None, stream: StreamLike = None
) -> mx.array: ...


@in_float32
def qr(
    a: mx.array, mode: Mode = "reduced", *, backend: str | None = None, stream: StreamLike = None
) -> QRResult | mx.array:
    """Factor each matrix into an orthogonal Q and an upper triangular R, as `numpy.linalg.qr`.

    Householder's method in float32, with LAPACK's signs: a reflection gives R's diagonal the sign
    opposite to the element that it replaces; a column that is zero below the diagonal stays as it
    is. Columns that depend on earlier ones give zeros, or rounding errors, in R's diagonal, and Q
    is orthogonal nevertheless. Where a matrix is not finite, neither are its results.

    The gradient is that of Walter and Lehmann (2010), for wide matrices that of Liao et al.
    (2019). It divides by R: it is infinite or NaN if the first min(M, N) columns are dependent.

    Args:
        a: (..., M, N), float32.
        mode: "reduced" for Q of min(M, N) columns, "complete" for M columns, "r" for R alone.
        backend: `"metal"`, `"cuda"`, `"native"` (LAPACK on the CPU), or None for kernels where
            they can run. None of them runs inside `mx.vmap`.

    Returns:
        Q (..., M, K) and R (..., K, N), with K = M if complete and min(M, N) otherwise; only R
        with mode "r".

    Raises:
        TypeError: for a dtype that is not float32.
        LinAlgError: for fewer than two axes.
        ValueError: for another mode, or an unknown backend.
        RuntimeError: for a backend that cannot run here.
        NotImplementedError: for the gradient with mode "complete" and M > N. Q's last M - N columns
            are any basis, and have none.
    """
    require_matrices("qr", "a", a)
    require_choice("qr", "mode", mode, get_args(Mode))
    resolved = resolve(backend)
    if not a.size:
        return _of_empty(a, mode)
    rows, columns = a.shape[-2:]
    # For a matrix that is not tall the two modes are one.
    chosen: Mode = "reduced" if mode == "complete" and rows <= columns else mode
    factors: Any = qr_operation(resolved, chosen)(a)
    return QRResult(*factors) if mode != "r" else factors


@functools.cache
def qr_operation(backend: str, mode: Mode) -> Operation:
    """The differentiable operation matrices -> (Q, R), or R, on one backend."""

    def launch(matrices: mx.array) -> Any:
        rows, columns = matrices.shape[-2:]
        q_columns, r_rows = _extents(rows, columns, mode)
        factor = small_qr if fits(rows, columns, q_columns) else blocked_qr
        flat = flat_batch(matrices)
        factors = [
            array.reshape((*matrices.shape[:-2], *array.shape[1:]))
            for array in factor(flat, q_columns=q_columns, r_rows=r_rows, backend=backend)
        ]
        return tuple(factors) if mode != "r" else factors[0]

    native = functools.partial(_native, mode=mode)
    gradient = functools.partial(_gradient, backend=backend, mode=mode)
    return decomposition("qr", backend, launch, native, gradient)


def _extents(rows: int, columns: int, mode: Mode) -> tuple[int, int]:
    """The columns of Q and the rows of R."""
    if mode == "complete":
        return rows, rows
    factors = min(rows, columns)
    return 0 if mode == "r" else factors, factors


def _of_empty(matrices: mx.array, mode: Mode) -> QRResult | mx.array:
    """Factors of matrices without elements: Q is the identity."""
    *batch, rows, columns = matrices.shape
    q_columns, r_rows = _extents(rows, columns, mode)
    r = mx.zeros((*batch, r_rows, columns), dtype=mx.float32)
    if mode == "r":
        return r
    identity = mx.eye(rows, q_columns, dtype=mx.float32)
    return QRResult(mx.broadcast_to(identity, (*batch, rows, q_columns)), r)


# --- MLX operations ----------------------------------------------------------------------------


def _native(matrices: mx.array, mode: Mode) -> Any:
    """LAPACK's factors, on the CPU."""
    matrices = unmapped("qr")(matrices)
    rows, columns = matrices.shape[-2:]
    if mode == "complete":
        # Columns of zeros need no reflection, and fill Q with all rows' columns.
        padding = [(0, 0)] * (matrices.ndim - 1) + [(0, max(rows - columns, 0))]
        q, r = mx.linalg.qr(mx.pad(matrices, padding), stream=mx.cpu)
        return q, r[..., :columns]
    q, r = mx.linalg.qr(matrices, stream=mx.cpu)
    return r if mode == "r" else (q, r)


# --- gradients ---------------------------------------------------------------------------------


def _gradient(
    primals: Arrays, cotangents: Arrays, outputs: Arrays, *, backend: str, mode: Mode
) -> Arrays:
    (matrices,) = primals
    rows, columns = matrices.shape[-2:]
    if mode == "complete":
        raise NotImplementedError(
            "qr: mode 'complete' has no gradient for matrices of more rows than columns, got "
            f"shape {matrices.shape}; use 'reduced'"
        )
    if mode == "r":
        q, r = qr_operation(backend, "reduced")(matrices)
        in_q, in_r = mx.zeros_like(q), cotangents[0]
    else:
        (q, r), (in_q, in_r) = outputs, cotangents
    if rows >= columns:
        return (_tall_gradient(q, r, in_q, in_r, backend),)
    # A = [X Y], R = [U W]: QR of the square X, and W = Q' Y.
    right, in_w = matrices[..., rows:], in_r[..., rows:]
    in_q = in_q + multiply(right, mx.swapaxes(in_w, -1, -2))
    in_x = _tall_gradient(q, r[..., :rows], in_q, in_r[..., :rows], backend)
    return (mx.concatenate([in_x, multiply(q, in_w)], axis=-1),)


def _tall_gradient(
    q: mx.array, r: mx.array, in_q: mx.array, in_r: mx.array, backend: str
) -> mx.array:
    """(dQ + Q copyltu(R dR' - dQ' Q)) R^-T, copyltu: the lower triangle, mirrored to the upper."""
    inner = multiply(r, mx.swapaxes(in_r, -1, -2)) - multiply(mx.swapaxes(in_q, -1, -2), q)
    mirrored = mx.tril(inner) + mx.swapaxes(mx.tril(inner, -1), -1, -2)
    right_side = mx.swapaxes(in_q + multiply(q, mirrored), -1, -2)
    return mx.swapaxes(solve_triangular(r, right_side, backend=backend), -1, -2)
