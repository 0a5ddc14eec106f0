"""The pseudo-inverse against NumPy in float64, and against MLX's on the CPU."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.linalg.matrices import check_slopes
from tests.xlstm_kernels.linalg.spectra import of_condition, wide
from xlstm_kernels.linalg import pinv

EPSILON = float(np.finfo(np.float32).eps)


def relative_error(actual, expected):
    norm = np.linalg.norm(expected, 2, axis=(-2, -1)).max()
    return np.linalg.norm(wide(actual) - expected, 2, axis=(-2, -1)).max() / norm


@pytest.mark.parametrize("condition", [1, 1e3, 1e5])
@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (9, 4), (4, 9), (20, 20)], ids=str)
def test_is_as_accurate_as_mlx(shape, condition, device):
    """Three times the error of MLX's, of LAPACK's float32 singular values."""
    a = of_condition((2, *shape), condition)
    expected = np.linalg.pinv(a.astype(np.float64))
    limit = relative_error(mx.linalg.pinv(mx.array(a), stream=mx.cpu), expected)
    actual = pinv(mx.array(a), backend=device)
    assert relative_error(actual, expected) <= 3 * max(limit, min(condition, 100) * EPSILON)


@pytest.mark.parametrize(
    "a",
    [
        np.zeros((4, 3)),
        np.ones((3, 5)),
        np.outer([1.0, 0.0, -2.0, 0.0, 1.0], [0.0, 3.0, 0.0]),
        np.diag([1.0, 0.0, 2.0]),
        np.diag([1.0, 1e-5, 1e-9]),
    ],
    ids=["zero", "ones", "rank one", "zero value", "graded"],
)
@pytest.mark.parametrize("settings", [{}, {"rcond": 1e-3}, {"rtol": 1e-3}], ids=str)
def test_small_singular_values_are_zero(a, settings, device):
    expected = np.linalg.pinv(a, rcond=1e-3 if settings else max(a.shape) * EPSILON)
    actual = wide(pinv(mx.array(a, dtype=mx.float32), **settings, backend=device))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_a_bound_for_each_matrix(device):
    a = np.broadcast_to(np.diag([1.0, 0.1, 0.01]), (2, 3, 3, 3)).astype(np.float32)
    bounds = np.array([0.5, 0.05, 0.001], dtype=np.float32)
    expected = np.linalg.pinv(a.astype(np.float64), rcond=bounds[None])
    for rcond in (mx.array(bounds), mx.array(bounds)[None]):
        actual = wide(pinv(mx.array(a), rcond, backend=device))
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_symmetric_matrices_by_their_lower_triangle(device):
    a = of_condition((2, 5, 5), 100, symmetric=True)
    a[:, 4] = a[:, 3]
    a[:, :, 4] = a[:, :, 3]
    garbage = a + np.triu(np.ones((5, 5), dtype=np.float32), 1)
    expected = np.linalg.pinv(a.astype(np.float64), rcond=1e-5, hermitian=True)
    actual = wide(pinv(mx.array(garbage), 1e-5, hermitian=True, backend=device))
    np.testing.assert_allclose(actual, expected, atol=2e-4)


def test_a_matrix_that_is_not_finite_gives_nan_and_others_their_results(device):
    for number in (np.nan, np.inf):
        a = of_condition((3, 4, 4), 10, symmetric=True)
        a[1, 2, 0] = number
        for hermitian in (False, True):
            inverse = np.array(pinv(mx.array(a), hermitian=hermitian, backend=device))
            assert np.isnan(inverse[1]).all()
            assert np.isfinite(inverse[[0, 2]]).all()


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (3, 0), (0, 0)], ids=str)
def test_empty_arrays(shape, device):
    assert pinv(mx.zeros(shape), backend=device).shape == np.linalg.pinv(np.zeros(shape)).shape


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (2, 4)], ids=str)
def test_derivatives(shape, device):
    a = np.random.default_rng(1).standard_normal((2, *shape)).astype(np.float32)
    check_slopes(lambda a: pinv(a, backend=device), np.linalg.pinv, [a], forward=False)


def test_derivatives_of_matrices_of_lower_rank(device):
    """Along changes that keep the rank: the factors of A = L R change."""
    generator = np.random.default_rng(4)
    left, right = (generator.standard_normal(s).astype(np.float32) for s in ((5, 2), (2, 4)))
    check_slopes(
        lambda left: pinv(mx.matmul(left, mx.array(right)), backend=device),
        lambda left: np.linalg.pinv(left @ right.astype(np.float64), rcond=1e-6),
        [left],
        forward=False,
    )


def test_arguments():
    with pytest.raises(ValueError, match="rcond and rtol must not both be given"):
        pinv(mx.eye(2), 1e-3, rtol=1e-3)
    with pytest.raises(np.linalg.LinAlgError, match=r"square matrices, got shape \(3, 2\)"):
        pinv(mx.zeros((3, 2)), hermitian=True)
    with pytest.raises(np.linalg.LinAlgError, match="at least two axes"):
        pinv(mx.zeros((3,)))
    with pytest.raises(TypeError, match="must be float32"):
        pinv(mx.zeros((2, 2), dtype=mx.float16))
