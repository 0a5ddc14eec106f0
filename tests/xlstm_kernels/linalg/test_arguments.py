"""Arguments that the functions of linear algebra refuse."""

from __future__ import annotations

import mlx.core as mx
import pytest

from xlstm_kernels import linalg
from xlstm_kernels.linalg.arguments import LinAlgError

EYE, ONES, LINE = mx.eye(3), mx.ones((3, 2)), mx.ones((3,))
INTEGERS, FOUR = mx.eye(3, dtype=mx.int32), mx.ones((4,))
KIND = r"must be float32, float16 or bfloat16, got mlx\.core\.int32"
SQUARE = r"square matrices, got shape \(3, 2\)"
AXES = r"at least two axes, got shape \(3,\)"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: linalg.cholesky(ONES), LinAlgError, f"cholesky: a must have {SQUARE}"),
        (lambda: linalg.cholesky(LINE), LinAlgError, f"cholesky: a must have {AXES}"),
        (lambda: linalg.cholesky(INTEGERS), TypeError, f"cholesky: a {KIND}"),
        (lambda: linalg.lu(LINE), LinAlgError, AXES),
        (lambda: linalg.lu(INTEGERS), TypeError, KIND),
        (lambda: linalg.lu_factor(LINE), LinAlgError, AXES),
        (lambda: linalg.lu_factor(INTEGERS), TypeError, KIND),
        (lambda: linalg.solve(EYE, FOUR), ValueError, "as many rows as a,"),
        (lambda: linalg.solve(ONES, LINE), LinAlgError, SQUARE),
        (lambda: linalg.inv(ONES), LinAlgError, SQUARE),
        (lambda: linalg.inv(INTEGERS), TypeError, KIND),
        (lambda: linalg.solve_triangular(EYE, FOUR), ValueError, "as many rows as a,"),
        (lambda: linalg.solve_triangular(ONES, LINE), LinAlgError, SQUARE),
        (lambda: linalg.solve_triangular(EYE, LINE, 3), ValueError, "trans must be"),
        (
            lambda: linalg.solve_triangular(mx.ones((2, 3, 3)), mx.ones((5, 3, 1))),
            ValueError,
            "do not broadcast",
        ),
        (lambda: linalg.solve_triangular(EYE, LINE.astype(mx.int32)), TypeError, f"b {KIND}"),
        (lambda: linalg.lu_solve((EYE, mx.zeros((2,))), LINE), ValueError, "piv must have"),
        (lambda: linalg.lu_solve((EYE, mx.zeros((3,))), LINE, 3), ValueError, "trans must"),
        (lambda: linalg.cho_solve((EYE, True), FOUR), ValueError, "as many rows as a,"),
        (lambda: linalg.det(ONES), LinAlgError, f"det: a must have {SQUARE}"),
        (lambda: linalg.slogdet(LINE), LinAlgError, f"slogdet: a must have {AXES}"),
        (lambda: linalg.matrix_rank(EYE, 1.0, rtol=1.0), ValueError, "not both"),
        (lambda: linalg.matrix_rank(EYE, "1"), TypeError, "tol must be a number"),
        (lambda: linalg.conjugate_gradient(ONES, LINE), ValueError, "square"),
        (lambda: linalg.conjugate_gradient(EYE, FOUR), ValueError, "must multiply b"),
        (lambda: linalg.conjugate_gradient(EYE, mx.array(1.0)), ValueError, "at least one axis"),
        (lambda: linalg.conjugate_gradient(EYE, [1.0]), TypeError, "b must be an mlx.core.array"),
        (lambda: linalg.conjugate_gradient(EYE, LINE, rtol=-1), ValueError, "negative"),
        (lambda: linalg.conjugate_gradient(EYE, LINE, maxiter=-1), ValueError, "least 0"),
        (lambda: linalg.qr(LINE), LinAlgError, AXES),
        (lambda: linalg.qr(INTEGERS), TypeError, KIND),
        (lambda: linalg.qr(EYE, "raw"), ValueError, "mode must be"),
        (lambda: linalg.lstsq(LINE, LINE), LinAlgError, AXES),
        (lambda: linalg.lstsq(ONES, mx.array(1.0)), LinAlgError, "at least two axes"),
        (lambda: linalg.lstsq(ONES, mx.ones((2,))), LinAlgError, "as many rows as a"),
        (
            lambda: linalg.lstsq(mx.ones((2, 3, 2)), mx.ones((4, 3, 1))),
            ValueError,
            "do not broadcast",
        ),
        (lambda: linalg.lstsq(ONES, LINE.astype(mx.int32)), TypeError, KIND),
        (lambda: linalg.lstsq(ONES, LINE, "1"), TypeError, "rcond must be a number"),
        (lambda: linalg.orthogonalize(LINE), LinAlgError, AXES),
        (lambda: linalg.orthogonalize(INTEGERS), TypeError, KIND),
        (lambda: linalg.orthogonalize(EYE, method="svd"), ValueError, "method must be"),
        (lambda: linalg.orthogonalize(EYE, steps=-1), ValueError, "at least 0"),
        (lambda: linalg.orthogonalize(EYE, eps=-1.0), ValueError, "not be negative"),
        *(
            row
            for function in (linalg.eigh, linalg.eigvalsh)
            for row in (
                (lambda f=function: f(INTEGERS), TypeError, KIND),
                (lambda f=function: f(ONES), LinAlgError, SQUARE),
                (lambda f=function: f(EYE, "X"), ValueError, "UPLO must be 'L' or 'U', got 'X'"),
                (lambda f=function: f(EYE, backend="abacus"), ValueError, "unknown backend"),
            )
        ),
        *(
            row
            for function in (linalg.svd, linalg.svdvals)
            for row in (
                (lambda f=function: f(INTEGERS), TypeError, KIND),
                (
                    lambda f=function: f([[1.0]]),
                    TypeError,
                    r"must be an mlx\.core\.array, got list",
                ),
                (lambda f=function: f(LINE), LinAlgError, AXES),
                (lambda f=function: f(EYE, backend="abacus"), ValueError, "unknown backend"),
            )
        ),
        (lambda: linalg.truncated_svd(EYE, 4), ValueError, "k must be at most 3, got"),
        (lambda: linalg.truncated_svd(EYE, 0), ValueError, "must be at least"),
        (lambda: linalg.truncated_svd(EYE, 1, oversampling=-1), ValueError, "must be at least"),
        (lambda: linalg.truncated_svd(EYE, 1, iterations=-1), ValueError, "must be at least"),
        (lambda: linalg.truncated_svd(EYE, 1.5), TypeError, "k must be an int, got float"),
        (lambda: linalg.truncated_svd(LINE, 1), LinAlgError, AXES),
        (
            lambda: linalg.pinv(EYE, 1e-3, rtol=1e-3),
            ValueError,
            "rcond and rtol must not both be given",
        ),
        (lambda: linalg.pinv(ONES, hermitian=True), LinAlgError, SQUARE),
        (lambda: linalg.pinv(LINE), LinAlgError, AXES),
        (lambda: linalg.pinv(INTEGERS), TypeError, KIND),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "operator", [linalg.inv, linalg.lu_factor, linalg.qr, lambda a, **_: linalg.solve(a, a, **_)]
)
def test_vmap_is_refused_with_what_to_do(operator):
    with pytest.raises(ValueError, match="mapped axis as a batch axis"):
        mx.vmap(lambda a: operator(a, backend="native"))(mx.zeros((2, 3, 3)))
