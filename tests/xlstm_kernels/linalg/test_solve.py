"""`solve` and `inv` against NumPy, in float32 and in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.linalg.matrices import (
    check_slopes,
    conditioned,
    largest_residual,
    norms,
)
from xlstm_kernels.linalg import inv, solve


def backward_error(a: np.ndarray, x: np.ndarray, b: np.ndarray) -> float:
    a, x, b = (array.astype(np.float64) for array in (a, x, b))
    return largest_residual(a @ x, b, norms(a) * norms(x) + norms(b))


@pytest.mark.parametrize("condition", [10.0, 1e6])
@pytest.mark.parametrize(
    ("shape", "columns"),
    [
        *(((4, 5, 5), 2), ((3, 1, 1), 1), ((2, 16, 16), 40)),
        *(
            pytest.param(*sizes, marks=pytest.mark.exhaustive)
            for sizes in (((2, 33, 33), 1), ((1, 160, 160), 2), ((4096, 8, 8), 1))
        ),
    ],
)
def test_backward_error(shape, columns, condition, device):
    a = conditioned(shape, condition)
    b = np.random.default_rng(1).standard_normal((*shape[:-1], columns)).astype(np.float32)
    x = np.array(solve(mx.array(a), mx.array(b), backend=device))
    bar = 3 * max(backward_error(a, np.linalg.solve(a, b), b), 2**-25)
    assert backward_error(a, x, b) <= bar
    one = np.broadcast_to(np.eye(shape[-1]), shape)
    bar = 3 * max(backward_error(a, np.linalg.inv(a), one), 2**-25)
    assert backward_error(a, np.array(inv(mx.array(a), backend=device)), one) <= bar


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 3), (3,)),
        ((2, 3, 3), (3,)),
        ((3, 3), (2, 3, 4)),
        ((3, 3, 3), (3, 3)),
        ((2, 1, 3, 3), (5, 3, 2)),
        ((0, 3, 3), (3, 2)),
        ((0, 0), (0, 2)),
        ((2, 3, 3), (2, 3, 0)),
    ],
)
def test_shapes_are_those_of_numpy(a, b, device):
    generator = np.random.default_rng(3)
    matrices = (generator.standard_normal(a) + 4 * np.eye(a[-1])).astype(np.float32)
    right = generator.standard_normal(b).astype(np.float32)
    x = solve(mx.array(matrices), mx.array(right), backend=device)
    expected = np.linalg.solve(matrices, right)
    assert x.shape == expected.shape
    np.testing.assert_allclose(np.array(x), expected, atol=1e-5)
    inverse = inv(mx.array(matrices), backend=device)
    np.testing.assert_allclose(np.array(inverse), np.linalg.inv(matrices), atol=1e-5)


def test_singular_matrices_are_nan(device):
    a = np.array([[[1, 2], [2, 4]], [[2, 0], [0, 4]], [[0, 0], [0, 0]]], dtype=np.float32)
    x = np.array(solve(mx.array(a), mx.ones((2,)), backend=device))
    inverse = np.array(inv(mx.array(a), backend=device))
    assert np.isnan(x[[0, 2]]).all()
    assert np.isnan(inverse[[0, 2]]).all()
    assert x[1].tolist() == [0.5, 0.25]
    assert inverse[1].tolist() == [[0.5, 0], [0, 0.25]]


def test_derivatives(device):
    a = conditioned((2, 4, 4), 5.0)
    b = np.random.default_rng(4).standard_normal((2, 4, 2)).astype(np.float32)
    check_slopes(lambda a, b: solve(a, b, backend=device), np.linalg.solve, [a, b])
    check_slopes(lambda a: inv(a, backend=device), np.linalg.inv, [a])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: solve(mx.eye(3), mx.ones((4,))), ValueError, "must have 3 rows"),
        (lambda: solve(mx.ones((3, 2)), mx.ones((3,))), np.linalg.LinAlgError, "square"),
        (lambda: inv(mx.ones((3, 2))), np.linalg.LinAlgError, "square"),
        (lambda: inv(mx.eye(3, dtype=mx.float16)), TypeError, "must be float32"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
