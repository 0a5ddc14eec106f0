"""Eigenvalues and eigenvectors against LAPACK in float32, and definitions in float64."""

from __future__ import annotations

import importlib

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.linalg.matrices import check_slopes
from tests.xlstm_kernels.linalg.spectra import (
    backward_error,
    diagonal,
    of_condition,
    orthogonality_error,
    wide,
)
from xlstm_kernels.linalg import eigh, eigh_kernel, eigvalsh

EPSILON = float(np.finfo(np.float32).eps)


def errors(a, values, vectors):
    """Of the product, and of the orthogonality of the vectors."""
    vectors = np.array(vectors)
    middle = diagonal(values, *a.shape[-2:])
    product = backward_error(a, vectors, middle, np.swapaxes(vectors, -1, -2))
    return product, orthogonality_error(vectors)


def assert_as_accurate_as_lapack(a, results):
    """Three times the errors of LAPACK's ssyevd, which MLX calls; NumPy's is in float64."""
    with mx.stream(mx.cpu):
        lapack = mx.linalg.eigh(mx.array(a))
    for error, limit in zip(errors(a, *results), errors(a, *lapack), strict=True):
        assert error <= 3 * max(limit, EPSILON)
    expected = np.linalg.eigvalsh(a.astype(np.float64))
    np.testing.assert_allclose(wide(results[0]), expected, rtol=0, atol=3e-6)
    assert np.all(np.diff(np.array(results[0]), axis=-1) >= 0)


@pytest.mark.parametrize("condition", [1, 1e3, 1e6])
@pytest.mark.parametrize(
    "rows",
    [
        *(8, 1, 2, 3, 17, 32),
        *(pytest.param(rows, marks=pytest.mark.exhaustive) for rows in (60, 64, 87, 127, 128)),
    ],
)
def test_is_as_accurate_as_lapack(rows, condition, device):
    a = of_condition((2, rows, rows), condition, symmetric=True)
    assert_as_accurate_as_lapack(a, eigh(mx.array(a), backend=device))


@pytest.mark.parametrize("rows", [129, pytest.param(512, marks=pytest.mark.exhaustive)])
def test_sizes_beyond_the_kernel_are_lapacks(rows, simulator):
    a = of_condition((rows, rows), 1e6, symmetric=True)
    assert_as_accurate_as_lapack(a, eigh(mx.array(a), backend="metal"))
    assert eigvalsh(mx.array(a), backend="metal").shape == (rows,)
    assert not simulator.launches


@pytest.mark.parametrize(
    "a",
    [
        np.zeros((3, 3)),
        np.ones((5, 5)),
        np.eye(4),
        np.diag([3.0, -1.0, 2.0, -1.0]),
        np.array([[0.0, 1.0], [1.0, 0.0]]),
        np.full((3, 3), 1e-30),
        np.full((2, 2), 1e38),
        np.array([[1.0, 1e-5, 0.0], [1e-5, 1e-10, 1e-9], [0.0, 1e-9, -1e-20]]),
    ],
    ids=["zero", "ones", "identity", "diagonal", "swap", "small", "large", "graded"],
)
def test_singular_and_badly_scaled_matrices(a, device):
    values, vectors = eigh(mx.array(a, dtype=mx.float32), backend=device)
    scale = np.linalg.norm(a, 2)
    np.testing.assert_allclose(wide(values), np.linalg.eigvalsh(a), rtol=1e-6, atol=1e-6 * scale)
    assert orthogonality_error(vectors) < 1e-6
    product = wide(vectors) * wide(values) @ wide(vectors).T
    np.testing.assert_allclose(product, a, rtol=0, atol=1e-6 * scale)


@pytest.mark.parametrize("uplo", ["L", "U", "l", "u"])
def test_one_triangle_is_read(uplo, device):
    a = np.random.default_rng(2).standard_normal((2, 3, 5, 5)).astype(np.float32)
    unread = np.tril if uplo.upper() == "U" else np.triu
    a += unread(np.full((5, 5), np.nan), -1 if uplo.upper() == "U" else 1)
    a = np.where(np.isnan(a), np.float32(np.nan), a)
    expected = np.linalg.eigvalsh(np.nan_to_num(a).astype(np.float64), uplo.upper())
    values, vectors = eigh(mx.array(a), uplo, backend=device)
    np.testing.assert_allclose(wide(values), expected, atol=2e-6)
    np.testing.assert_allclose(
        wide(eigvalsh(mx.array(a), uplo, backend=device)), expected, atol=2e-6
    )
    assert orthogonality_error(vectors) < 2e-6


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_matrix_that_is_not_finite_gives_nan_and_others_their_results(number, device):
    a = of_condition((3, 4, 4), 10, symmetric=True)
    a[1, 2, 0] = number
    results = [*eigh(mx.array(a), backend=device), eigvalsh(mx.array(a), backend=device)]
    for part in map(np.array, results):
        assert np.isnan(part[1]).all()
        assert np.isfinite(part[[0, 2]]).all()


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 0)], ids=str)
def test_empty_arrays(shape, device):
    results = eigh(mx.zeros(shape), backend=device)
    for part, expected in zip(results, np.linalg.eigh(np.zeros(shape)), strict=True):
        assert part.shape == expected.shape
    assert eigvalsh(mx.zeros(shape), backend=device).shape == shape[:-1]


def test_one_launch_for_a_batch(simulator):
    a = mx.array(of_condition((2, 3, 6, 6), 10, symmetric=True))
    mx.eval(eigh(a, backend="metal"), eigvalsh(a, "U", backend="metal"))
    assert len(simulator.launches) == 2


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("rows", [8, 9])
def test_large_matrices_are_in_device_memory(rows, held, simulator, monkeypatch):
    """Their rotations, or both."""
    kernel = eigh_kernel._kernel(held=held, held_vectors=False, vectors=True)
    # The package has the function under the name of the module.
    module = importlib.import_module("xlstm_kernels.linalg.symmetric_eigen")
    monkeypatch.setattr(module, "kernel_for", lambda *_, **__: kernel)
    a = of_condition((2, rows, rows), 1e3, symmetric=True)
    assert_as_accurate_as_lapack(a, eigh(mx.array(a), backend="metal"))
    assert [launch.kernel for launch in simulator.launches] == [kernel.name]


# --- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_derivatives(uplo, device):
    """Of what the signs of the vectors do not change."""

    def invariants(factors, library):
        values, vectors = factors
        product = (vectors * values[..., None, :] ** 2) @ vectors.swapaxes(-1, -2)
        return library.concatenate([part.reshape(-1) for part in (values, vectors**2, product)])

    a = np.random.default_rng(1).standard_normal((2, 4, 4)).astype(np.float32)
    check_slopes(
        lambda a: invariants(eigh(a, uplo, backend=device), mx),
        lambda a: invariants(np.linalg.eigh(a, uplo), np),
        [a],
        forward=False,
    )
    check_slopes(
        lambda a: eigvalsh(a, uplo, backend=device),
        lambda a: np.linalg.eigvalsh(a, uplo),
        [a],
        forward=False,
    )


def test_gradient_of_equal_values(device):
    """Finite in the values alone: that of their sum, the trace, is the identity."""
    a = mx.array(np.diag([2.0, 2.0, 1.0]).astype(np.float32))
    for values_of in (eigvalsh, lambda a, backend: eigh(a, backend=backend)[0]):
        gradient = mx.grad(lambda a, of=values_of: of(a, backend=device).sum())(a)
        np.testing.assert_allclose(np.array(gradient), np.eye(3), atol=1e-6)
    weights = mx.arange(9, dtype=mx.float32).reshape(3, 3)
    gradient = mx.grad(lambda a: (eigh(a, backend=device)[1] * weights).sum())(a)
    assert not np.isfinite(np.array(gradient)).all()


# --- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [eigh, eigvalsh])
def test_arguments(function):
    with pytest.raises(TypeError, match=r"must be float32, got mlx\.core\.float16"):
        function(mx.zeros((2, 2), dtype=mx.float16))
    with pytest.raises(np.linalg.LinAlgError, match=r"square matrices, got shape \(3, 2\)"):
        function(mx.zeros((3, 2)))
    with pytest.raises(ValueError, match="UPLO must be 'L' or 'U', got 'X'"):
        function(mx.zeros((2, 2)), "X")
    with pytest.raises(ValueError, match="unknown backend"):
        function(mx.zeros((2, 2)), backend="abacus")
