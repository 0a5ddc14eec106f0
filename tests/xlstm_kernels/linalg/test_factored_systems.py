"""Systems of factored matrices, determinants and ranks against NumPy; half precision."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.linalg.matrices import check_slopes, positive_definite
from tests.xlstm_kernels.linalg.spectra import of_condition
from xlstm_kernels import linalg
from xlstm_kernels.linalg import (
    cho_solve,
    cholesky,
    det,
    lu_factor,
    lu_solve,
    matrix_rank,
    slogdet,
)

NAN = np.nan


def right_side(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize(("shape", "b"), [((7, 7), (7,)), ((2, 1, 5, 5), (3, 5, 2))], ids=str)
def test_lu_solve(shape, b, trans, device):
    a, right = of_condition(shape, 10.0), right_side(*b)
    x = lu_solve(lu_factor(mx.array(a), backend=device), mx.array(right), trans, backend=device)
    expected = np.linalg.solve(np.swapaxes(a, -1, -2) if trans else a, right)
    np.testing.assert_allclose(np.array(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(("shape", "b"), [((7, 7), (7,)), ((2, 1, 5, 5), (3, 5, 2))], ids=str)
def test_cho_solve_reads_one_triangle(shape, b, lower, device):
    a, right = positive_definite(shape, 10.0), right_side(*b)
    factor = cholesky(mx.array(a), upper=not lower, backend=device)
    other = mx.full(shape, NAN)
    factor = factor + (mx.triu(other, 1) if lower else mx.tril(other, -1))
    factor = mx.where(mx.isnan(other) & mx.isnan(factor), other, factor)
    x = cho_solve((factor, lower), mx.array(right), backend=device)
    np.testing.assert_allclose(np.array(x), np.linalg.solve(a, right), rtol=1e-4, atol=1e-5)


def test_solutions_with_factors_have_derivatives(device):
    a, b = of_condition((2, 4, 4), 5.0), right_side(2, 4, 2)

    def by_factors(a, b):
        return lu_solve(lu_factor(a, backend=device), b, 1, backend=device)

    check_slopes(by_factors, lambda a, b: np.linalg.solve(a.swapaxes(-1, -2), b), [a, b])
    check_slopes(
        lambda a, b: cho_solve((cholesky(a, backend=device), True), b, backend=device),
        np.linalg.solve,
        [positive_definite((2, 4, 4), 5.0), b],
        lambda d: d + d.swapaxes(-1, -2) if d.shape[-1] == d.shape[-2] else d,
    )


@pytest.mark.parametrize("shape", [(1, 1), (3, 4, 4), (2, 3, 9, 9), (2, 0, 0), (0, 3, 3)], ids=str)
def test_determinants(shape, device):
    a = of_condition(shape, 10.0) if min(shape) else np.zeros(shape, dtype=np.float32)
    found = det(mx.array(a), backend=device)
    np.testing.assert_allclose(np.array(found), np.linalg.det(a), rtol=1e-5, atol=0)
    for part, expected in zip(
        slogdet(mx.array(a), backend=device), np.linalg.slogdet(a), strict=True
    ):
        np.testing.assert_allclose(np.array(part), expected, rtol=1e-5, atol=1e-5)
        assert part.shape == expected.shape


def test_determinants_of_special_matrices(device):
    """Singular, not finite, and beyond float32."""
    a = np.stack([np.ones((20, 20)), np.diag([np.inf] * 20), 1e3 * np.eye(20)]).astype(np.float32)
    np.testing.assert_array_equal(np.array(det(mx.array(a), backend=device)), [0, NAN, np.inf])
    sign, logarithm = slogdet(mx.array(a), backend=device)
    np.testing.assert_array_equal(np.array(sign), [0, NAN, 1])
    expected = [-np.inf, NAN, 20 * np.log(1e3)]
    np.testing.assert_allclose(np.array(logarithm), expected, rtol=1e-6)


def test_determinants_have_derivatives(device):
    a = of_condition((2, 4, 4), 5.0)
    check_slopes(lambda a: det(a, backend=device), np.linalg.det, [a])
    check_slopes(
        lambda a: slogdet(a, backend=device).logabsdet, lambda a: np.linalg.slogdet(a)[1], [a]
    )


@pytest.mark.parametrize(
    "options", [{}, {"tol": 0.5}, {"rtol": 1e-3}, {"hermitian": True}], ids=str
)
def test_matrix_rank(options, device):
    a = np.stack([of_condition((6, 6), c, symmetric=True) for c in (1.0, 10.0, 1e9)])
    found = matrix_rank(mx.array(a), **options, backend=device)
    np.testing.assert_array_equal(np.array(found), np.linalg.matrix_rank(a, **options))
    assert found.dtype == mx.int32
    tall = of_condition((2, 6, 3), 2.0)
    bounds = np.array([0.1, 0.9], dtype=np.float32)
    found = matrix_rank(mx.array(tall), mx.array(bounds), backend=device)
    np.testing.assert_array_equal(np.array(found), np.linalg.matrix_rank(tall, bounds))
    assert matrix_rank(mx.zeros((2, 0, 3)), backend=device).tolist() == [0, 0]


DEFINITE = mx.array(positive_definite((2, 4, 4), 10.0))


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
@pytest.mark.parametrize(
    "name",
    [
        *("cholesky", "det", "eigh", "eigvalsh", "inv", "lu", "lu_factor", "matrix_rank", "pinv"),
        *("qr", "slogdet", "svd", "svdvals", "cho_solve", "conjugate_gradient", "lstsq"),
        *("lu_solve", "solve", "solve_triangular"),
    ],
)
def test_half_precision_is_rounded_float32(name, dtype):
    function = getattr(linalg, name)
    a, b = DEFINITE.astype(dtype), mx.array(right_side(2, 4)).astype(dtype)

    def called(a: mx.array, b: mx.array) -> list[mx.array]:
        b = b if name == "conjugate_gradient" else b[..., None]
        numbers = mx.zeros((2, 4), dtype=mx.int32) + mx.array([0, 2, 2, 3], dtype=mx.int32)
        arguments = {"cho_solve": ((a, True), b), "lu_solve": ((a, numbers), b)}
        two = name in {"conjugate_gradient", "lstsq", "solve", "solve_triangular"}
        results = function(*arguments.get(name, (a, b) if two else (a,)))
        return [results] if isinstance(results, mx.array) else list(results)

    wide = called(a.astype(mx.float32), b.astype(mx.float32))
    for found, expected in zip(called(a, b), wide, strict=True):
        rounded = expected.dtype if expected.dtype == mx.int32 else dtype
        assert found.dtype == rounded
        assert mx.array_equal(found, expected.astype(rounded), equal_nan=True)


def test_dtypes_of_two_arguments_are_promoted():
    a, b = mx.eye(3, dtype=mx.float16), mx.ones((3,))
    assert linalg.solve(a, b).dtype == mx.float32
    assert linalg.solve(a, b.astype(mx.bfloat16)).dtype == mx.float32
