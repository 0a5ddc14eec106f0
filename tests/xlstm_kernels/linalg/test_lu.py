"""`lu` and `lu_factor` against elimination in NumPy, in float32 and in float64."""

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
from xlstm_kernels.linalg import lu, lu_factor


def eliminated(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compact factors, the order of the rows and the pivots of one matrix, as LAPACK's sgetf2."""
    a, order, pivots = a.copy(), np.arange(len(a)), []
    for k in range(min(a.shape)):
        pivot = k + int(np.argmax(np.abs(a[k:, k])))
        pivots.append(pivot)
        a[[k, pivot]], order[[k, pivot]] = a[[pivot, k]], order[[pivot, k]]
        if a[k, k] != 0:
            a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, order, np.array(pivots, dtype=np.int32)


def split(compact: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    k = min(compact.shape[-2:])
    wide = compact.astype(np.float64)
    return np.tril(wide[..., :k], -1) + np.eye(wide.shape[-2], k), np.triu(wide[..., :k, :])


def backward_error(a: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    lower, upper = lower.astype(np.float64), upper.astype(np.float64)
    return largest_residual(lower @ upper, a.astype(np.float64), norms(a))


@pytest.mark.parametrize("condition", [10.0, 1e6])
@pytest.mark.parametrize(
    "shape",
    [
        *((2, 16, 16), (3, 1, 1), (4, 5, 5), (2, 12, 5), (2, 5, 12), (2, 40, 7)),
        *(
            pytest.param(shape, marks=pytest.mark.exhaustive)
            for shape in (
                *((2, 32, 32), (2, 33, 33), (2, 65, 65), (1, 160, 160), (1, 130, 70)),
                *((1, 70, 130), (1, 512, 512), (1, 1100, 40), (4096, 8, 8)),
            )
        ),
    ],
    ids=str,
)
def test_backward_error(shape, condition, device):
    a = conditioned(shape, condition)
    places, lower, upper = (np.array(p) for p in lu(mx.array(a), p_indices=True, backend=device))
    assert places.dtype == np.int32
    assert np.abs(lower).max() == 1
    assert not np.tril(upper, -1).any()
    assert not np.triu(lower, 1).any()
    compact, orders, _ = zip(*(eliminated(matrix) for matrix in a), strict=True)
    ordered = np.take_along_axis(a, np.array(orders)[..., None], axis=-2)
    bar = 3 * max(backward_error(ordered, *split(np.array(compact))), 2**-25)
    permuted = np.take_along_axis(lower, places[..., None], axis=-2)
    assert backward_error(a, permuted, upper) <= bar


def check_choice(a: np.ndarray, device: str) -> None:
    """In small integers no rounding can change the choice."""
    compact, pivots = lu_factor(mx.array(a), backend=device)
    places, _, _ = lu(mx.array(a), p_indices=True, backend=device)
    for i, matrix in enumerate(a):
        expected, order, swaps = eliminated(matrix)
        np.testing.assert_allclose(np.array(compact[i]), expected, atol=1e-5)
        np.testing.assert_array_equal(np.array(pivots[i]), swaps)
        np.testing.assert_array_equal(np.argsort(np.array(places[i])), order)
    assert pivots.dtype == mx.int32


def test_pivots_are_those_of_lapack(device):
    """Also of ties, where the first row is taken, and of columns of zeros."""
    ties = [[[1, 2, 3], [-1, 4, 4], [1, 1, 1]], [[0, 1, 2], [0, 3, 1], [0, 3, 2]], np.zeros((3, 3))]
    check_choice(np.array(ties, dtype=np.float32), device)
    check_choice(np.random.default_rng(0).standard_normal((3, 16, 16)).astype(np.float32), device)


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (5, 3), (3, 5)], ids=str)
def test_forms_of_the_permutation(shape, device):
    a = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    p, lower, upper = (np.array(part) for part in lu(mx.array(a), backend=device))
    np.testing.assert_allclose(p @ lower @ upper, a, atol=1e-5)
    permuted, same = lu(mx.array(a), permute_l=True, backend=device)
    np.testing.assert_array_equal(np.array(permuted), p @ lower)
    np.testing.assert_array_equal(np.array(same), upper)


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (3, 0), (0, 3)], ids=str)
def test_empty(shape, device):
    *batch, rows, columns = shape
    least = min(rows, columns)
    p, lower, upper = lu(mx.zeros(shape), backend=device)
    assert p.shape == (*batch, rows, rows)
    assert lower.shape == (*batch, rows, least)
    assert upper.shape == (*batch, least, columns)
    compact, pivots = lu_factor(mx.zeros(shape), backend=device)
    assert compact.shape == shape
    assert pivots.shape == (*batch, least)


@pytest.mark.parametrize("shape", [(2, 4, 4), (2, 5, 3), (2, 3, 5)], ids=str)
def test_derivatives(shape, device):
    def product_of_factors(lower, upper, library):
        """Distinguishes the factors, in one array."""
        return library.concatenate([lower.reshape(-1), upper.reshape(-1)])

    def definition(a):
        pairs = [split(eliminated(matrix)[0]) for matrix in a]
        lower, upper = (np.stack(parts) for parts in zip(*pairs, strict=True))
        return product_of_factors(lower, upper, np)

    check_slopes(
        lambda a: product_of_factors(*lu(a, backend=device)[1:], mx),
        definition,
        [conditioned(shape, 3.0)],
    )


@pytest.mark.parametrize("operator", [lu, lu_factor])
def test_errors(operator):
    with pytest.raises(np.linalg.LinAlgError, match="at least two axes"):
        operator(mx.zeros((3,)))
    with pytest.raises(TypeError, match="must be float32"):
        operator(mx.zeros((3, 3), dtype=mx.int32))
