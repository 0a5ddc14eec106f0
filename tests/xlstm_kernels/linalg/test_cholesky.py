"""`cholesky` against NumPy, in float64 and in float32."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.linalg.matrices import (
    check_slopes,
    largest_residual,
    norms,
    positive_definite,
)
from xlstm_kernels.executors import NATIVE
from xlstm_kernels.linalg import cholesky

INF, NAN = np.inf, np.nan


def backward_error(matrices: np.ndarray, factors: np.ndarray) -> float:
    wide, factors = matrices.astype(np.float64), factors.astype(np.float64)
    return largest_residual(factors @ factors.swapaxes(-1, -2), wide, norms(wide))


def lapack(matrices: np.ndarray, device: str) -> np.ndarray:
    """NumPy's, which computes in float64; of operations MLX's, which computes in float32."""
    if device == NATIVE:
        return np.array(mx.linalg.cholesky(mx.array(matrices), stream=mx.cpu))
    return np.linalg.cholesky(matrices)


@pytest.mark.parametrize("condition", [10.0, 1e6])
@pytest.mark.parametrize(
    ("size", "batch"),
    [
        *((16, 5), (1, 70), (2, 5), (7, 9)),
        *(
            pytest.param(*sizes, marks=pytest.mark.exhaustive)
            for sizes in ((31, 7), (32, 4), (33, 3), (65, 2), (160, 2), (512, 1), (16, 4096))
        ),
    ],
)
def test_backward_error(size, batch, condition, device):
    matrices = positive_definite((batch, size, size), condition)
    factors = np.array(cholesky(mx.array(matrices), backend=device))
    assert not np.triu(factors, 1).any()
    bar = 3 * max(backward_error(matrices, lapack(matrices, device)), 2**-25)
    assert backward_error(matrices, factors) <= bar


@pytest.mark.parametrize("upper", [False, True])
def test_reads_one_triangle(upper, device):
    matrices = positive_definite((2, 3, 6, 6), 10.0)
    other = np.tril(np.full((6, 6), 7.0), -1) if upper else np.triu(np.full((6, 6), 7.0), 1)
    triangle = np.triu(matrices) if upper else np.tril(matrices)
    found = cholesky(mx.array((triangle + other).astype(np.float32)), upper=upper, backend=device)
    expected = np.linalg.cholesky(matrices.astype(np.float64), upper=upper)
    np.testing.assert_allclose(np.array(found), expected, atol=1e-6)


def test_matrices_that_are_not_positive_definite_are_nan(device):
    bad = [[[1, 2], [2, 1]], [[0, 0], [0, 1]], [[NAN, 0], [0, 1]], [[4, 2], [2, NAN]]]
    good = [[4, 2], [2, 5]]
    found = np.array(cholesky(mx.array([*bad[:2], good, *bad[2:]]), backend=device))
    expected = np.full((5, 2, 2), NAN)
    expected[2] = [[2, 0], [1, 2]]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.exhaustive
def test_a_failure_in_any_block_makes_the_matrix_nan(device):
    matrices = positive_definite((3, 130, 130), 10.0)
    matrices[0, 129, 129], matrices[2, 70, 70] = -1, -1
    found = np.isnan(np.array(cholesky(mx.array(matrices), backend=device)))
    assert found[0].all()
    assert not found[1].any()
    assert found[2].all()


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 0)])
def test_empty(shape, device):
    found = cholesky(mx.zeros(shape), backend=device)
    assert found.shape == np.linalg.cholesky(np.zeros(shape)).shape
    assert mx.grad(lambda a: cholesky(a, backend=device).sum())(mx.zeros(shape)).shape == shape


@pytest.mark.parametrize("upper", [False, True])
def test_derivatives(upper, device):
    check_slopes(
        lambda a: cholesky(a, upper=upper, backend=device),
        lambda a: np.linalg.cholesky(a, upper=upper),
        [positive_definite((2, 5, 5), 10.0)],
        lambda direction: direction + direction.swapaxes(-1, -2),
    )


@pytest.mark.parametrize(
    ("shape", "dtype", "error"),
    [
        ((2, 3), mx.float32, np.linalg.LinAlgError),
        ((3,), mx.float32, np.linalg.LinAlgError),
        ((3, 3), mx.float16, TypeError),
    ],
)
def test_errors(shape, dtype, error):
    with pytest.raises(error, match="cholesky: a must"):
        cholesky(mx.zeros(shape, dtype=dtype))
