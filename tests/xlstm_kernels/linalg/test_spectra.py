"""Eigenvalues, singular values and pseudo-inverses against LAPACK and NumPy in float64."""

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
    spectral_norm,
    wide,
)
from xlstm_kernels.linalg import (
    eigh,
    eigh_kernel,
    eigvalsh,
    large_spectra,
    pinv,
    svd,
    svd_kernel,
    svdvals,
    truncated_svd,
)

# --- eigh --------------------------------------------------------------------------------------


EIGH_EPSILON = float(np.finfo(np.float32).eps)


def eigh_errors(a, values, vectors):
    """Of the product, and of the orthogonality of the vectors."""
    vectors = np.array(vectors)
    middle = diagonal(values, *a.shape[-2:])
    product = backward_error(a, vectors, middle, np.swapaxes(vectors, -1, -2))
    return product, orthogonality_error(vectors)


def eigh_assert_as_accurate_as_lapack(a, results):
    """Three times the eigh_errors of LAPACK's ssyevd, which MLX calls; NumPy's is in float64."""
    with mx.stream(mx.cpu):
        lapack = mx.linalg.eigh(mx.array(a))
    for error, limit in zip(eigh_errors(a, *results), eigh_errors(a, *lapack), strict=True):
        assert error <= 3 * max(limit, EIGH_EPSILON)
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
def test_eigh_is_as_accurate_as_lapack(rows, condition, device):
    a = of_condition((2, rows, rows), condition, symmetric=True)
    eigh_assert_as_accurate_as_lapack(a, eigh(mx.array(a), backend=device))


@pytest.mark.parametrize("rows", [2, 37, pytest.param(160, marks=pytest.mark.exhaustive)])
def test_eigh_by_blocks(rows, simulator):
    a = np.stack(
        [
            of_condition((rows, rows), 1e6, symmetric=True),
            np.eye(rows, dtype=np.float32),
            np.full((rows, rows), 1 / rows, dtype=np.float32),
            of_condition((rows, rows), 1.000001, symmetric=True) * np.float32(1e-20),
        ]
    )
    values, vectors = large_spectra.large_eigh(mx.array(np.tril(a)), "metal")
    eigh_assert_as_accurate_as_lapack(a, (values, vectors))
    assert {launch.kernel for launch in simulator.launches} == {"xlstm_block_jacobi"}


def test_spectra_beyond_the_kernels(simulator, monkeypatch):
    """Values alone, and matrices that are not finite."""
    module = importlib.import_module("xlstm_kernels.linalg.symmetric_eigen")
    monkeypatch.setattr(module, "MOST_ROWS", 8)
    monkeypatch.setattr(svd_kernel, "_HELD", (512,))
    a = np.stack([of_condition((24, 24), 10, symmetric=True), np.full((24, 24), np.nan)])
    matrices = mx.array(a.astype(np.float32))
    for values in (eigvalsh(matrices, backend="metal"), eigh(matrices, backend="metal")[0]):
        expected = np.linalg.eigvalsh(a[0])
        np.testing.assert_allclose(np.array(values[0]), expected, rtol=0, atol=1e-6)
        assert np.isnan(np.array(values[1])).all()
    for shape, full in (((24, 30), True), ((30, 24), True), ((24, 30), False)):
        a = np.stack([of_condition(shape, 10), np.full(shape, np.inf)]).astype(np.float32)
        values = svdvals(mx.array(a), backend="metal")
        expected = np.linalg.svd(a[0], compute_uv=False)
        np.testing.assert_allclose(np.array(values[0]), expected, rtol=0, atol=1e-6)
        assert np.isnan(np.array(values[1])).all()
        u, s, vh = svd(mx.array(a[:1]), full_matrices=full, backend="metal")
        middle = diagonal(s, u.shape[2], vh.shape[1])
        assert backward_error(a[:1], u, middle, vh) < 1e-6
        assert orthogonality_error(u) < 1e-5


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
def test_eigh_a_matrix_that_is_not_finite_gives_nan_and_others_their_results(number, device):
    a = of_condition((3, 4, 4), 10, symmetric=True)
    a[1, 2, 0] = number
    results = [*eigh(mx.array(a), backend=device), eigvalsh(mx.array(a), backend=device)]
    for part in map(np.array, results):
        assert np.isnan(part[1]).all()
        assert np.isfinite(part[[0, 2]]).all()


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 0)], ids=str)
def test_eigh_empty_arrays(shape, device):
    results = eigh(mx.zeros(shape), backend=device)
    for part, expected in zip(results, np.linalg.eigh(np.zeros(shape)), strict=True):
        assert part.shape == expected.shape
    assert eigvalsh(mx.zeros(shape), backend=device).shape == shape[:-1]


def test_eigh_large_eigenvectors_are_in_device_memory(simulator, monkeypatch):
    kernel = eigh_kernel._kernel(held_vectors=False, vectors=True)
    # The package has the function under the name of the module.
    module = importlib.import_module("xlstm_kernels.linalg.symmetric_eigen")
    monkeypatch.setattr(module, "kernel_for", lambda *_, **__: kernel)
    a = of_condition((2, 9, 9), 1e3, symmetric=True)
    eigh_assert_as_accurate_as_lapack(a, eigh(mx.array(a), backend="metal"))
    assert [launch.kernel for launch in simulator.launches] == [kernel.name]


# --- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh_derivatives(uplo, device):
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
    )
    check_slopes(
        lambda a: eigvalsh(a, uplo, backend=device),
        lambda a: np.linalg.eigvalsh(a, uplo),
        [a],
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


# --- svd ---------------------------------------------------------------------------------------


SHAPES = [(5, 3), (1, 1), (2, 2), (3, 5), (2, 9), (17, 16), (32, 32)]
LARGE = [
    pytest.param(shape, marks=pytest.mark.exhaustive)
    for shape in [(64, 64), (90, 88), (100, 128), (300, 20), (2000, 3)]
]
SVD_EPSILON = float(np.finfo(np.float32).eps)


def svd_errors(a, u, s, vh):
    """Of the product, and of the orthogonality of both bases."""
    middle = diagonal(s, u.shape[-1], vh.shape[-2])
    transposed = np.swapaxes(np.array(vh), -1, -2)
    return backward_error(a, u, middle, vh), orthogonality_error(u), orthogonality_error(transposed)


def svd_assert_as_accurate_as_lapack(a, factors):
    """Three times the svd_errors of LAPACK's sgesdd, which MLX calls; NumPy's is in float64.

    Where LAPACK was lucky, as for 1 x 1, three times the rounding of a number.
    """
    with mx.stream(mx.cpu):
        lapack = mx.linalg.svd(mx.array(a))
    count = min(a.shape[-2:])
    reduced = lapack[0][..., :count], lapack[1], lapack[2][..., :count, :]
    for error, limit in zip(svd_errors(a, *factors), svd_errors(a, *reduced), strict=True):
        assert error <= 3 * max(limit, SVD_EPSILON)
    expected = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(wide(factors[1]), expected, rtol=0, atol=3e-6 * expected.max())
    assert np.all(np.diff(np.array(factors[1]), axis=-1) <= 0)


@pytest.mark.parametrize("condition", [1, 1e3, 1e6])
@pytest.mark.parametrize("shape", [*SHAPES, *LARGE], ids=str)
def test_svd_is_as_accurate_as_lapack(shape, condition, device):
    a = of_condition((2, *shape), condition)
    svd_assert_as_accurate_as_lapack(a, svd(mx.array(a), full_matrices=False, backend=device))


@pytest.mark.parametrize(
    "shape", [(2, 2), (70, 37), pytest.param((160, 160), marks=pytest.mark.exhaustive)], ids=str
)
def test_svd_by_blocks(shape, simulator):
    a = np.stack(
        [
            of_condition(shape, 1e6),
            np.eye(*shape, dtype=np.float32),
            np.ones(shape, dtype=np.float32),
            of_condition(shape, 1.000001) * np.float32(1e-20),
        ]
    )
    svd_assert_as_accurate_as_lapack(a, large_spectra.large_svd(mx.array(a), "metal", full=False))


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
def test_svd_a_matrix_that_is_not_finite_gives_nan_and_others_their_results(number, full, device):
    a = of_condition((3, 4, 3), 10)
    a[1, 2, 0] = number
    results = [*svd(mx.array(a), full, backend=device), svdvals(mx.array(a), backend=device)]
    for part in map(np.array, results):
        assert np.isnan(part[1]).all()
        assert np.isfinite(part[[0, 2]]).all()


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (3, 0), (0, 0), (0, 4)], ids=str)
def test_svd_empty_arrays(shape, full, device):
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


def test_svd_large_rotations_are_in_device_memory(simulator, monkeypatch):
    kernel = svd_kernel._kernel(held_right=False, vectors=True)
    # The package has the function under the name of the module.
    module = importlib.import_module("xlstm_kernels.linalg.singular_values")
    monkeypatch.setattr(module, "kernel_for", lambda *_, **__: kernel)
    a = of_condition((2, 6, 13), 1e3)
    svd_assert_as_accurate_as_lapack(a, svd(mx.array(a), full_matrices=False, backend="metal"))
    assert [launch.kernel for launch in simulator.launches] == [kernel.name]


def test_memory_is_enough_for_the_largest_matrices():
    """32 KiB of threadgroup memory, which HELD numbers leave 1 KiB of."""
    for columns, rows in ((1, 1), (16, 16), (62, 62), (62, 128), (64, 64), (89, 89), (1, 7936)):
        for vectors in (False, True):
            full = vectors and rows <= 512
            assert svd_kernel.fits(columns, rows, full=full)
            kernel = svd_kernel.kernel_for(columns, rows, vectors=vectors)
            launch = kernel.launch(mx.zeros((2, columns, rows)), full=full)
            held = dict(launch.template)["HELD"]
            assert held <= 7936
            needed = columns**2 if "right" in kernel.name and vectors else 0
            assert rows * columns + needed <= held


# --- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (2, 4)], ids=str)
def test_svd_derivatives(shape, device):
    """Of what the signs of the vectors do not change."""

    def invariants(factors, library):
        u, s, vh = factors
        parts = u**2, s, vh**2, u @ (s[..., None] ** 1.5 * vh)
        return library.concatenate([part.reshape(-1) for part in parts])

    check_slopes(
        lambda a: invariants(svd(a, False, backend=device), mx),
        lambda a: invariants(np.linalg.svd(a, full_matrices=False), np),
        [np.random.default_rng(1).standard_normal((2, *shape)).astype(np.float32)],
    )


@pytest.mark.parametrize(
    "values_of", [svdvals, lambda a, backend: svd(a, False, backend=backend)[1]]
)
def test_gradient_of_equal_values_alone_is_finite(values_of, device):
    """The sum of the singular values of a matrix U diag(s) Vh has the gradient U Vh."""
    a = mx.array(np.diag([2.0, 2.0, 1.0]).astype(np.float32))
    gradient = mx.grad(lambda a: values_of(a, backend=device).sum())(a)
    np.testing.assert_allclose(np.array(gradient), np.eye(3), atol=1e-6)


def test_complete_bases_have_no_gradient():
    with pytest.raises(ValueError, match="gradient for square matrices only"):
        mx.grad(lambda a: svd(a, backend="native").S.sum())(mx.ones((3, 2)))


# --- truncated svd -----------------------------------------------------------------------------


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


# --- pinv --------------------------------------------------------------------------------------


PINV_EPSILON = float(np.finfo(np.float32).eps)


def relative_error(actual, expected):
    norm = np.linalg.norm(expected, 2, axis=(-2, -1)).max()
    return np.linalg.norm(wide(actual) - expected, 2, axis=(-2, -1)).max() / norm


@pytest.mark.parametrize("condition", [1, 1e3, 1e5])
@pytest.mark.parametrize("shape", [(6, 6), (1, 1), (9, 4), (4, 9), (20, 20)], ids=str)
def test_is_as_accurate_as_mlx(shape, condition, device):
    """Three times the error of MLX's, of LAPACK's float32 singular values."""
    a = of_condition((2, *shape), condition)
    expected = np.linalg.pinv(a.astype(np.float64))
    limit = relative_error(mx.linalg.pinv(mx.array(a), stream=mx.cpu), expected)
    actual = pinv(mx.array(a), backend=device)
    assert relative_error(actual, expected) <= 3 * max(limit, min(condition, 100) * PINV_EPSILON)


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
    expected = np.linalg.pinv(a, rcond=1e-3 if settings else max(a.shape) * PINV_EPSILON)
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


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (3, 0), (0, 0)], ids=str)
def test_pinv_empty_arrays(shape, device):
    assert pinv(mx.zeros(shape), backend=device).shape == np.linalg.pinv(np.zeros(shape)).shape


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (2, 4)], ids=str)
def test_pinv_derivatives(shape, device):
    a = np.random.default_rng(1).standard_normal((2, *shape)).astype(np.float32)
    check_slopes(lambda a: pinv(a, backend=device), np.linalg.pinv, [a])
