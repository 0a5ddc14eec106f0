"""`solve_triangular` against substitution in float32 and float64."""

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
from xlstm_kernels.linalg import solve_triangular


def triangle(a: np.ndarray, trans: int, lower: bool, unit: bool) -> np.ndarray:
    """The matrix of the system, written out."""
    part = np.tril(a) if lower else np.triu(a)
    if unit:
        size = a.shape[-1]
        part = part * (1 - np.eye(size, dtype=a.dtype)) + np.eye(size, dtype=a.dtype)
    return part.swapaxes(-1, -2) if trans else part


def substituted(t: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Row by row, in the dtype of the arguments."""
    size, x = t.shape[-1], np.zeros_like(b)
    lower = not np.triu(t, 1).any()
    for i in range(size) if lower else reversed(range(size)):
        known = np.einsum("...k,...km->...m", t[..., i, :], x)
        x[..., i, :] = (b[..., i, :] - known) / t[..., i, i, None]
    return x


def backward_error(t: np.ndarray, x: np.ndarray, b: np.ndarray) -> float:
    t, x, b = (array.astype(np.float64) for array in (t, x, b))
    return largest_residual(t @ x, b, norms(t) * norms(x) + norms(b))


def drawn(size: int, columns: int, batch: int, condition: float) -> tuple[np.ndarray, np.ndarray]:
    """A triangular factor of a matrix with this condition number, in both triangles, and b."""
    factor = np.linalg.qr(conditioned((batch, size, size), condition).astype(np.float64))[1]
    both = factor + np.triu(factor, 1).swapaxes(-1, -2)
    b = np.random.default_rng(2).standard_normal((batch, size, columns))
    return both.astype(np.float32), b.astype(np.float32)


@pytest.mark.parametrize("condition", [10.0, 1e6])
@pytest.mark.parametrize(
    ("size", "columns", "batch"),
    [
        *((7, 3, 2), (1, 1, 3), (16, 40, 2)),
        *(
            pytest.param(*sizes, marks=pytest.mark.exhaustive)
            for sizes in (
                (32, 1, 2),
                (33, 65, 2),
                (65, 2, 2),
                (160, 3, 2),
                (512, 2, 1),
                (8, 1, 4096),
            )
        ),
    ],
)
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("trans", [0, 1])
def test_backward_error(size, columns, batch, condition, trans, lower, device):
    a, b = drawn(size, columns, batch, condition)
    x = solve_triangular(mx.array(a), mx.array(b), trans, lower, backend=device)
    t = triangle(a, trans, lower, unit=False)
    bar = 3 * max(backward_error(t, substituted(t, b), b), 2**-25)
    assert backward_error(t, np.array(x), b) <= bar


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("trans", ["N", "T", "C"])
def test_unit_diagonal_is_not_read(trans, lower, device):
    a, b = drawn(5, 2, 2, 3.0)
    a[:, range(5), range(5)] = np.nan
    x = solve_triangular(mx.array(a), mx.array(b), trans, lower, True, backend=device)
    part = np.tril(a, -1) if lower else np.triu(a, 1)
    t = part.astype(np.float64) + np.eye(5)
    expected = np.linalg.solve(t if trans == "N" else t.swapaxes(-1, -2), b)
    np.testing.assert_allclose(np.array(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 3), (3,)),
        ((2, 3, 3), (3,)),
        ((3, 3), (2, 3, 4)),
        ((2, 1, 3, 3), (5, 3, 2)),
        ((0, 3, 3), (3, 2)),
        ((0, 0), (0, 2)),
        ((2, 3, 3), (2, 3, 0)),
    ],
)
def test_shapes_and_broadcasting(a, b, device):
    generator = np.random.default_rng(3)
    matrices = (generator.standard_normal(a) + 4 * np.eye(a[-1])).astype(np.float32)
    right = generator.standard_normal(b).astype(np.float32)
    x = solve_triangular(mx.array(matrices), mx.array(right), lower=True, backend=device)
    expected = np.linalg.solve(np.tril(matrices), right)
    assert x.shape == expected.shape
    np.testing.assert_allclose(np.array(x), expected, atol=1e-5)


def test_singular_matrices_are_nan(device):
    a = np.tile(np.eye(4, dtype=np.float32), (3, 1, 1))
    a[1, 2, 2] = 0
    x = np.array(solve_triangular(mx.array(a), mx.ones((3, 4, 1)), backend=device))
    assert np.isnan(x[1]).all()
    assert (x[[0, 2]] == 1).all()


@pytest.mark.exhaustive
def test_a_zero_in_any_block_makes_the_solution_nan(device):
    a = np.tile(np.eye(130, dtype=np.float32), (3, 1, 1))
    a[1, 129, 129] = 0
    x = np.array(solve_triangular(mx.array(a), mx.ones((3, 130, 1)), lower=True, backend=device))
    assert np.isnan(x[1]).all()
    assert (x[[0, 2]] == 1).all()


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize(("trans", "lower"), [(0, True), (1, False), (1, True)])
def test_derivatives(trans, lower, unit, device):
    a, b = drawn(5, 2, 2, 10.0)
    check_slopes(
        lambda a, b: solve_triangular(a, b, trans, lower, unit, backend=device),
        lambda a, b: np.linalg.solve(triangle(a, trans, lower, unit), b),
        [a, b],
    )


@pytest.mark.parametrize(
    ("a", "b", "trans", "error", "message"),
    [
        (mx.eye(3), mx.ones((4,)), 0, ValueError, "must have 3 rows"),
        (mx.ones((3, 2)), mx.ones((3,)), 0, np.linalg.LinAlgError, "square"),
        (mx.eye(3), mx.ones((3,)), 3, ValueError, "trans must be"),
        (mx.ones((2, 3, 3)), mx.ones((5, 3, 1)), 0, ValueError, "do not broadcast"),
        (mx.eye(3), mx.ones((3,), dtype=mx.bfloat16), 0, TypeError, "b must be float32"),
    ],
)
def test_errors(a, b, trans, error, message):
    with pytest.raises(error, match=message):
        solve_triangular(a, b, trans)
