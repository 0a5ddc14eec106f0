"""`lstsq` against NumPy, which computes in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.linalg.matrices import check_slopes
from xlstm_kernels.linalg import lstsq
from xlstm_kernels.linalg.arguments import LinAlgError

EPSILON = np.finfo(np.float32).eps
SHAPES = [(1, 1), (7, 4), (4, 7), (9, 9), (40, 17)]


def matrix(rows: int, columns: int, rank: int | None = None, condition: float = 1.0) -> np.ndarray:
    generator = np.random.default_rng(rows * 100 + columns)
    u, s, v = np.linalg.svd(generator.standard_normal((rows, columns)), full_matrices=False)
    s = np.logspace(0, -np.log10(condition), len(s)) if condition > 1 else s
    s[rank:] = s[rank:] if rank is None else 0
    return (u * s @ v).astype(np.float32)


def right_side(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def agree(actual: mx.array, expected: np.ndarray, error: float = 1e-5) -> None:
    np.testing.assert_allclose(
        np.array(actual), expected, atol=error * np.abs(expected).max(initial=1e-30), rtol=0
    )


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_full_rank(shape, vector, device):
    a, b = matrix(*shape), right_side(*shape[:1]) if vector else right_side(shape[0], 3)
    actual = lstsq(mx.array(a), mx.array(b), backend=device)
    expected = np.linalg.lstsq(a, b)
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.shape == np.shape(theirs)
    agree(actual.x, expected[0], 2e-5)
    agree(actual.residuals, expected[1])
    agree(actual.s, expected[3])
    assert actual.rank.item() == expected[2]


@pytest.mark.parametrize("condition", [1e3, 1e6])
@pytest.mark.parametrize("shape", [(30, 10), (10, 30)], ids=str)
def test_conditions(shape, condition, device):
    """Of normal numbers b, the error of x has the condition number, its squared for residuals."""
    a, b = matrix(*shape, condition=condition), right_side(shape[0], 2)
    x, _, rank, _ = lstsq(mx.array(a), mx.array(b), 1e-9, backend=device)
    expected, _, full, _ = np.linalg.lstsq(a.astype(np.float64), b, 1e-12)
    assert rank.item() == full
    agree(x, expected, 20 * condition * EPSILON)
    # What x leaves over is orthogonal to the columns of a.
    left = b - a.astype(np.float64) @ np.array(x).astype(np.float64)
    scale = np.linalg.norm(a) * np.linalg.norm(np.array(x)) * np.linalg.norm(a)
    assert np.linalg.norm(a.T @ left) < 20 * EPSILON * scale


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (9, 9)], ids=str)
def test_deficient_rank(shape, device):
    a, b = matrix(*shape, rank=3), right_side(shape[0], 2)
    x, residuals, rank, s = lstsq(mx.array(a), mx.array(b), backend=device)
    expected, _, expected_rank, expected_s = np.linalg.lstsq(a, b, 1e-5)
    assert rank.item() == expected_rank == 3
    agree(x, expected)
    agree(s, expected_s)
    assert residuals.shape == ((2,) if shape[0] > shape[1] else (0,))
    assert np.isnan(np.array(residuals)).all()
    x, _, rank, _ = lstsq(mx.zeros(shape), mx.array(b), backend=device)
    assert (rank.item(), mx.abs(x).max().item()) == (0, 0)


def test_bounds_of_singular_values(device):
    a, b = np.diag([1, 0.1, 1e-3, 3e-7]).astype(np.float32), np.ones((4, 1), dtype=np.float32)
    for rcond, rank in ((None, 3), (-1, 4), (0.05, 2), (0.5, 1)):
        x, _, counted, _ = lstsq(mx.array(a), mx.array(b), rcond, backend=device)
        assert counted.item() == rank
        expected = [*(1 / np.diag(a)[:rank]), *[0] * (4 - rank)]
        np.testing.assert_allclose(np.array(x)[:, 0], expected, rtol=1e-6)


def test_batches(device):
    a, b = right_side(3, 1, 6, 4), right_side(2, 6, 5)
    x, residuals, rank, s = lstsq(mx.array(a), mx.array(b), backend=device)
    assert [part.shape for part in (x, residuals, rank, s)] == [
        (3, 2, 4, 5),
        (3, 2, 5),
        (3, 2),
        (3, 2, 4),
    ]
    for i in range(3):
        for j in range(2):
            expected = np.linalg.lstsq(a[i, 0], b[j])
            agree(x[i, j], expected[0])
            agree(residuals[i, j], expected[1])
    x, residuals, _, _ = lstsq(mx.array(a), mx.ones((6,)), backend=device)
    assert (x.shape, residuals.shape) == ((3, 1, 4), (3, 1, 1))


def test_not_finite(device):
    a, b = right_side(2, 5, 3), right_side(2, 5, 1)
    a[1, 2, 1] = np.nan
    x, residuals, rank, s = lstsq(mx.array(a), mx.array(b), backend=device)
    agree(x[0], np.linalg.lstsq(a[0], b[0])[0])
    assert np.isnan(np.array(x[1])).all()
    assert np.isnan(np.array(s[1])).all()
    assert np.isnan(np.array(residuals[1])).all()
    assert rank.tolist() == [3, 0]


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 1), (2, 3, 0)], ids=str)
def test_empty(shape, device):
    rows, columns, count = shape
    a, b = np.ones((rows, columns), np.float32), np.ones((rows, count), np.float32)
    expected_x, expected_residuals, _, expected_s = np.linalg.lstsq(np.eye(rows, columns), b)
    x, residuals, rank, s = lstsq(mx.array(a), mx.array(b), backend=device)
    np.testing.assert_array_equal(np.array(x), expected_x)
    assert s.shape == expected_s.shape
    assert rank.item() == min(rows, columns, 1)
    if not min(shape[:2]):
        np.testing.assert_array_equal(np.array(residuals), expected_residuals)
    assert lstsq(mx.ones((0, 3, 2)), mx.ones((0, 3, 4)), backend=device).x.shape == (0, 2, 4)


# --- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "a", [matrix(6, 3), matrix(3, 6), matrix(4, 4), np.eye(4, 3) * 2], ids=lambda a: str(a.shape)
)
def test_derivatives(a, device):
    def joined(result, library):
        return library.concatenate([part.reshape(-1) for part in (result[0], result[1])])

    check_slopes(
        lambda a, b: joined(lstsq(a, b, backend=device), mx),
        lambda a, b: joined(np.linalg.lstsq(a, b), np),
        [a, right_side(len(a), 2)],
        forward=False,
    )


def test_derivatives_of_constant_rank(device):
    """All matrices L R have rank 2 here."""
    right, b = right_side(2, 4), right_side(5, 1)
    check_slopes(
        lambda left: lstsq(left @ mx.array(right), mx.array(b), 1e-4, backend=device).x,
        lambda left: np.linalg.pinv(left @ right.astype(np.float64), 1e-8) @ b,
        [right_side(5, 2)],
        forward=False,
    )


@pytest.mark.parametrize(
    ("a", "b", "rcond", "error", "message"),
    [
        (mx.ones((3,)), mx.ones((3,)), None, LinAlgError, "at least two axes"),
        (mx.ones((3, 2)), mx.array(1.0), None, LinAlgError, "at least two axes"),
        (mx.ones((3, 2)), mx.ones((2,)), None, LinAlgError, "as many rows"),
        (mx.ones((2, 3, 2)), mx.ones((4, 3, 1)), None, ValueError, "do not broadcast"),
        (mx.ones((3, 2)), mx.ones((3,), dtype=mx.int32), None, TypeError, "must be float32"),
        (mx.ones((3, 2)), mx.ones((3,)), "1", TypeError, "rcond must be a number"),
    ],
)
def test_errors(a, b, rcond, error, message):
    with pytest.raises(error, match=message):
        lstsq(a, b, rcond)
