"""The largest singular values against those of NumPy in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.linalg.spectra import (
    numerical_gradient,
    of_condition,
    orthogonality_error,
    spectral_norm,
    wide,
)
from xlstm_kernels.linalg import truncated_svd

KEY = mx.random.key(7)


@pytest.mark.parametrize("shape", [(2, 3, 40, 30), (12, 60), (60, 12), (5, 5)], ids=str)
def test_largest_singular_values(shape, device):
    a = of_condition(shape, 1e4)
    k = 4
    u, s, vh = truncated_svd(mx.array(a), k, key=KEY, backend=device)
    assert (u.shape, s.shape, vh.shape) == (
        (*shape[:-1], k),
        (*shape[:-2], k),
        (*shape[:-2], k, shape[-1]),
    )
    exact = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(wide(s), exact[..., :k], rtol=0, atol=2e-6)
    assert orthogonality_error(u) < 3e-6
    assert orthogonality_error(np.swapaxes(np.array(vh), -1, -2)) < 3e-6
    rest = a - wide(u) * wide(s)[..., None, :] @ wide(vh)
    # No matrix of rank k is nearer than the singular value k + 1.
    assert spectral_norm(rest) < exact[..., k].max() + 5e-6


def test_a_matrix_of_low_rank_is_exact(device):
    generator = np.random.default_rng(2)
    a = (generator.standard_normal((20, 3)) @ generator.standard_normal((3, 15))).astype(np.float32)
    u, s, vh = truncated_svd(mx.array(a), 3, iterations=1, key=KEY, backend=device)
    product = wide(u) * wide(s) @ wide(vh)
    np.testing.assert_allclose(product, a, rtol=0, atol=3e-6 * np.linalg.norm(a, 2))


def test_the_key_decides_the_start():
    a = mx.array(of_condition((30, 30), 2))
    settings = {"oversampling": 0, "iterations": 0, "backend": "native"}
    first, same = (truncated_svd(a, 2, key=KEY, **settings).S for _ in range(2))
    other = truncated_svd(a, 2, key=mx.random.key(8), **settings).S
    assert mx.array_equal(first, same)
    assert not mx.array_equal(first, other)
    mx.random.seed(3)
    first = truncated_svd(a, 2, **settings).S
    assert not mx.array_equal(first, truncated_svd(a, 2, **settings).S)


def test_a_matrix_that_is_not_finite_gives_nan_and_others_their_results(device):
    a = of_condition((3, 8, 6), 10)
    a[1, 2, 0] = np.inf
    for part in map(np.array, truncated_svd(mx.array(a), 2, key=KEY, backend=device)):
        assert np.isnan(part[1]).all()
        assert np.isfinite(part[[0, 2]]).all()


def test_gradient(device):
    """Near that of the decomposition itself, where the spectrum falls fast."""
    generator = np.random.default_rng(5)
    bases = [np.linalg.qr(generator.standard_normal((n, 5)))[0] for n in (7, 5)]
    a = ((bases[0] * [1.0, 0.6, 0.05, 0.02, 0.01]) @ bases[1].T).astype(np.float32)
    weights = generator.standard_normal(a.shape).astype(np.float32)

    def total(u, s, vh, weights):
        return (((u * s) @ vh) ** 2 * weights).sum() + (s[0] - s[1]) ** 2 + (u**2).sum() * s[1]

    def exact(a):
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return total(u[:, :2], s[:2], vh[:2], weights)

    def function(a):
        result = truncated_svd(a, 2, oversampling=1, key=KEY, backend=device)
        return total(*result, mx.array(weights))

    expected = numerical_gradient(exact, a.astype(np.float64))
    gradient = wide(mx.grad(function)(mx.array(a)))
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_arguments():
    a = mx.zeros((4, 3))
    with pytest.raises(ValueError, match="k must be at most the least of rows and columns, 3"):
        truncated_svd(a, 4)
    for settings in ({"k": 0}, {"k": 1, "oversampling": -1}, {"k": 1, "iterations": -1}):
        with pytest.raises(ValueError, match="must be at least"):
            truncated_svd(a, **settings)
    with pytest.raises(TypeError, match="k must be an int, got float"):
        truncated_svd(a, 1.5)
    with pytest.raises(np.linalg.LinAlgError, match="at least two axes"):
        truncated_svd(mx.zeros((3,)), 1)
