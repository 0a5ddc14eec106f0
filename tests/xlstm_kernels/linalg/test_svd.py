"""Singular values and vectors against LAPACK in float32, and definitions in float64."""

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
from xlstm_kernels.linalg import svd, svd_kernel, svdvals

SHAPES = [(5, 3), (1, 1), (2, 2), (3, 5), (2, 9), (17, 16), (32, 32)]
LARGE = [
    pytest.param(shape, marks=pytest.mark.exhaustive)
    for shape in [(64, 64), (90, 88), (100, 128), (300, 20), (2000, 3)]
]
EPSILON = float(np.finfo(np.float32).eps)


def errors(a, u, s, vh):
    """Of the product, and of the orthogonality of both bases."""
    middle = diagonal(s, u.shape[-1], vh.shape[-2])
    transposed = np.swapaxes(np.array(vh), -1, -2)
    return backward_error(a, u, middle, vh), orthogonality_error(u), orthogonality_error(transposed)


def assert_as_accurate_as_lapack(a, factors):
    """Three times the errors of LAPACK's sgesdd, which MLX calls; NumPy's is in float64.

    Where LAPACK was lucky, as for 1 x 1, three times the rounding of a number.
    """
    with mx.stream(mx.cpu):
        lapack = mx.linalg.svd(mx.array(a))
    count = min(a.shape[-2:])
    reduced = lapack[0][..., :count], lapack[1], lapack[2][..., :count, :]
    for error, limit in zip(errors(a, *factors), errors(a, *reduced), strict=True):
        assert error <= 3 * max(limit, EPSILON)
    expected = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(wide(factors[1]), expected, rtol=0, atol=3e-6 * expected.max())
    assert np.all(np.diff(np.array(factors[1]), axis=-1) <= 0)


@pytest.mark.parametrize("condition", [1, 1e3, 1e6])
@pytest.mark.parametrize("shape", [*SHAPES, *LARGE], ids=str)
def test_is_as_accurate_as_lapack(shape, condition, device):
    a = of_condition((2, *shape), condition)
    assert_as_accurate_as_lapack(a, svd(mx.array(a), full_matrices=False, backend=device))


@pytest.mark.parametrize(
    "shape",
    [(140, 130), pytest.param((512, 512), marks=pytest.mark.exhaustive), (5000, 2), (2, 5000)],
    ids=str,
)
def test_sizes_beyond_the_kernel_are_lapacks(shape, simulator):
    a = of_condition(shape, 1e6)
    factors = svd(mx.array(a), full_matrices=False, backend="metal")
    assert_as_accurate_as_lapack(a, factors)
    assert not simulator.launches


@pytest.mark.parametrize("shape", [(1, 3), (6, 4), (4, 6), (5, 5), (12, 1)], ids=str)
def test_full_matrices_have_complete_bases(shape, device):
    a = of_condition((3, *shape), 1e4)
    u, s, vh = svd(mx.array(a), backend=device)
    expected = np.linalg.svd(a)
    assert (u.shape, s.shape, vh.shape) == tuple(part.shape for part in expected)
    assert max(errors(a, u, s, vh)) < 1e-6


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "a",
    [
        np.zeros((4, 3)),
        np.ones((3, 5)),
        np.diag([1.0, 0.0, 2.0]),
        np.diag([1.0, 1.0, 1.0, 1.0]),
        np.outer([1.0, 0.0, -2.0, 0.0, 1.0], [0.0, 3.0, 0.0]),
        np.diag([1e-30, 2e-30]),
        np.full((3, 2), 1e38),
        np.diag([1.0, 1e-6, 1e-12, 1e-25]),
    ],
    ids=["zero", "ones", "zero value", "equal", "rank one", "small", "large", "graded"],
)
def test_rank_deficient_and_badly_scaled_matrices(a, full, device):
    u, s, vh = svd(mx.array(a, dtype=mx.float32), full, backend=device)
    expected = np.linalg.svd(a, compute_uv=False)
    np.testing.assert_allclose(wide(s), expected, rtol=1e-6, atol=1e-6 * expected.max())
    transposed = np.array(vh).T
    assert orthogonality_error(u) < 1e-6
    assert orthogonality_error(transposed) < 1e-6
    middle = diagonal(s, u.shape[-1], vh.shape[-2])
    np.testing.assert_allclose(wide(u) @ middle @ wide(vh), a, rtol=0, atol=1e-6 * np.abs(a).max())


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("full", [False, True])
def test_a_matrix_that_is_not_finite_gives_nan_and_others_their_results(number, full, device):
    a = of_condition((3, 4, 3), 10)
    a[1, 2, 0] = number
    results = [*svd(mx.array(a), full, backend=device), svdvals(mx.array(a), backend=device)]
    for part in map(np.array, results):
        assert np.isnan(part[1]).all()
        assert np.isfinite(part[[0, 2]]).all()


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (3, 0), (0, 0), (0, 4)], ids=str)
def test_empty_arrays(shape, full, device):
    results = svd(mx.zeros(shape), full, backend=device)
    for part, expected in zip(results, np.linalg.svd(np.zeros(shape), full), strict=True):
        np.testing.assert_array_equal(np.array(part), expected)
    assert svdvals(mx.zeros(shape), backend=device).shape == results.S.shape


def test_values_alone(device):
    for shape in [(2, 2, 5, 7), (6, 6), (9, 2)]:
        a = of_condition(shape, 100)
        expected = np.linalg.svd(a, compute_uv=False)
        for s in (
            svdvals(mx.array(a), backend=device),
            svd(mx.array(a), compute_uv=False, backend=device),
        ):
            np.testing.assert_allclose(np.array(s), expected, rtol=0, atol=1e-6)


def test_one_launch_for_a_batch(simulator):
    a = mx.array(of_condition((2, 3, 6, 5), 10))
    mx.eval(svd(a, backend="metal"), svdvals(mx.swapaxes(a, 2, 3), backend="metal"))
    assert len(simulator.launches) == 2


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("shape", [(1, 9, 8), (2, 6, 13)], ids=str)
def test_large_matrices_are_in_device_memory(shape, held, simulator, monkeypatch):
    """Their rotations, or both."""
    kernel = svd_kernel._kernel(held=held, held_right=False, vectors=True)
    # The package has the function under the name of the module.
    module = importlib.import_module("xlstm_kernels.linalg.singular_values")
    monkeypatch.setattr(module, "kernel_for", lambda *_, **__: kernel)
    a = of_condition(shape, 1e3)
    assert_as_accurate_as_lapack(a, svd(mx.array(a), full_matrices=False, backend="metal"))
    assert [launch.kernel for launch in simulator.launches] == [kernel.name]


def test_memory_is_enough_for_the_largest_matrices():
    """32 KiB of threadgroup memory, which HELD numbers leave 1 KiB of."""
    for columns in (1, 16, 62, 64, 88, 128):
        for rows in {columns, 4096, 512}:
            for vectors in (False, True):
                a = mx.zeros((2, columns, rows))
                kernel = svd_kernel.kernel_for(columns, rows, vectors=vectors)
                launch = kernel.launch(a, full=vectors and rows <= 512)
                held = dict(launch.template)["HELD"]
                assert held <= 7936
                needed = rows * columns if "held" in kernel.name else 0
                needed += columns**2 if "right" in kernel.name and vectors else 0
                assert needed <= held


# --- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (2, 4)], ids=str)
def test_derivatives(shape, device):
    """Of what the signs of the vectors do not change."""

    def invariants(factors, library):
        u, s, vh = factors
        parts = u**2, s, vh**2, u @ (s[..., None] ** 1.5 * vh)
        return library.concatenate([part.reshape(-1) for part in parts])

    check_slopes(
        lambda a: invariants(svd(a, False, backend=device), mx),
        lambda a: invariants(np.linalg.svd(a, full_matrices=False), np),
        [np.random.default_rng(1).standard_normal((2, *shape)).astype(np.float32)],
        forward=False,
    )


@pytest.mark.parametrize(
    "values_of", [svdvals, lambda a, backend: svd(a, False, backend=backend)[1]]
)
def test_gradient_of_equal_values_alone_is_finite(values_of, device):
    """The sum of the singular values of a matrix U diag(s) Vh has the gradient U Vh."""
    a = mx.array(np.diag([2.0, 2.0, 1.0]).astype(np.float32))
    gradient = mx.grad(lambda a: values_of(a, backend=device).sum())(a)
    np.testing.assert_allclose(np.array(gradient), np.eye(3), atol=1e-6)


def test_gradient_in_vectors_of_equal_values_is_not_finite():
    a = mx.eye(2)
    gradient = mx.grad(lambda a: svd(a, backend="native").U[0, 1])(a)
    assert not np.isfinite(np.array(gradient)).all()


def test_complete_bases_have_no_gradient():
    with pytest.raises(ValueError, match="gradient for square matrices only"):
        mx.grad(lambda a: svd(a, backend="native").S.sum())(mx.ones((3, 2)))


# --- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [svd, svdvals])
def test_arguments(function):
    with pytest.raises(TypeError, match=r"must be float32, got mlx\.core\.float16"):
        function(mx.zeros((2, 2), dtype=mx.float16))
    with pytest.raises(TypeError, match=r"must be an mlx\.core\.array, got list"):
        function([[1.0]])
    with pytest.raises(np.linalg.LinAlgError, match=r"at least two axes, got shape \(3,\)"):
        function(mx.zeros((3,)))
    with pytest.raises(ValueError, match="unknown backend"):
        function(mx.zeros((2, 2)), backend="abacus")
