"""QR, least squares and orthogonalization against LAPACK and NumPy in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.linalg.matrices import check_slopes
from xlstm_kernels.linalg import lstsq, orthogonalize, qr
from xlstm_kernels.linalg.householder import fits

# --- qr ----------------------------------------------------------------------------------------


LAPACK_FACTOR = 3
MODES = ("reduced", "complete", "r")


def matrices(shape: tuple[int, ...], seed: int, condition: float = 1.0) -> np.ndarray:
    """Normal numbers, or singular values from 1 down to 1 / condition: float32."""
    normal = np.random.default_rng(seed).standard_normal(shape)
    if condition > 1:
        u, s, v = np.linalg.svd(normal, full_matrices=False)
        normal = (u * np.logspace(0, -np.log10(condition), s.shape[-1])) @ v
    return normal.astype(np.float32)


def errors(a: np.ndarray, q: object, r: object) -> np.ndarray:
    """|A - Q R| / |A| and |Q' Q - I|, of the worst matrix, in float64."""
    q, r = (np.array(factor).astype(np.float64) for factor in (q, r))
    axes = (-2, -1)
    residual = np.linalg.norm(a - q @ r, axis=axes) / np.linalg.norm(a, axis=axes)
    gram = np.swapaxes(q, -1, -2) @ q - np.eye(q.shape[-1])
    return np.array([residual.max(), np.linalg.norm(gram, axis=axes).max()])


def check(shape: tuple[int, ...], mode: str, backend: str, condition: float = 1.0) -> None:
    a = matrices(shape, sum(shape), condition)
    array = mx.array(a)
    if mode == "r":
        expected = np.linalg.qr(a.astype(np.float64), mode="r")
        actual = np.array(qr(array, "r", backend=backend))
        # R is as sensitive as A is badly conditioned, but R'R is not.
        gram = np.swapaxes(actual, -1, -2).astype(np.float64) @ actual
        exact = np.swapaxes(expected, -1, -2) @ expected
        assert actual.shape == expected.shape
        assert np.abs(gram - exact).max() < 3e-6 * np.abs(exact).max()
        return
    q, r = qr(array, mode, backend=backend)
    expected_q, expected_r = np.linalg.qr(a, mode=mode)
    assert (q.shape, r.shape) == (expected_q.shape, expected_r.shape)
    r = np.array(r)
    assert not np.tril(r, -1).any()
    if condition == 1:
        diagonals = (np.diagonal(factor, axis1=-2, axis2=-1) for factor in (r, expected_r))
        np.testing.assert_array_equal(*map(np.sign, diagonals))
    # MLX's is LAPACK's sgeqrf, while NumPy converts to float64 and back.
    lapack = errors(a, *qr(array, mode, backend="native"))
    rounding = np.array([1, np.sqrt(q.shape[-1])]) * 1e-7
    assert (errors(a, q, r) <= LAPACK_FACTOR * np.maximum(lapack, rounding)).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "shape",
    [(17, 9), (1, 1), (3, 1, 1), (33, 2, 2), (2, 5, 4, 4), (5, 3), (3, 5), (9, 17), (2, 32, 32)],
    ids=str,
)
def test_small(shape, mode, device):
    check(shape, mode, device)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("condition", [1, 1e3, 1e6])
@pytest.mark.parametrize("shape", [(64, 64), (2, 20, 33), (300, 3), (3, 300)], ids=str)
def test_one_launch(shape, mode, condition, simulator):
    if mode != "complete":
        assert fits(*shape[-2:], min(shape[-2:]))
    check(shape, mode, "metal", condition)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("condition", [1, 1e6])
@pytest.mark.parametrize("shape", [(96, 96), (2, 120, 70), (80, 130), (330, 33)], ids=str)
def test_blocks(shape, mode, condition, simulator):
    assert not fits(*shape[-2:], min(shape[-2:]))
    check(shape, mode, "metal", condition)


def test_qr_numbers_near_the_ends_of_the_range(device):
    a = matrices((7, 5), 1)
    q, r = qr(mx.array(a), backend=device)
    # The squares of these numbers are beyond float32, or vanish.
    for exponent in (100, -90):
        scaled_q, scaled_r = qr(mx.array(np.ldexp(a, exponent)), backend=device)
        np.testing.assert_allclose(np.array(scaled_q), np.array(q), atol=1e-6)
        np.testing.assert_allclose(np.ldexp(np.array(scaled_r), -exponent), np.array(r), atol=4e-6)
    columns = a * np.ldexp(np.float32(1), np.array([0, -90, 60, -60, 90]))
    graded_q, _ = qr(mx.array(columns), backend=device)
    np.testing.assert_allclose(np.array(graded_q), np.array(q), atol=1e-6)


def test_a_tail_far_below_its_column(device):
    a = np.array([[1, 1], [0, 3e-25], [0, 4e-25]], dtype=np.float32)
    q, r = (np.array(factor) for factor in qr(mx.array(a), backend=device))
    np.testing.assert_allclose(r, [[1, 1], [0, -5e-25]], rtol=1e-6)
    np.testing.assert_allclose(q, [[1, 0], [0, -0.6], [0, -0.8]], atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 3), (40, 37), (100, 90)], ids=str)
def test_dependent_columns(shape, device):
    a = matrices(shape, 2)
    a[:, 0] = 0
    a[:, 2] = 3 * a[:, 1]
    q, r = qr(mx.array(a), backend=device)
    assert (errors(a, q, r) < [1e-6, 1e-5]).all()
    zeros = mx.zeros(shape)
    q, r = (np.array(factor) for factor in qr(zeros, backend=device))
    np.testing.assert_array_equal(q, np.eye(*shape))
    assert not r.any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("size", [4, 90])
def test_qr_not_finite(value, size, device):
    a = matrices((2, size, size), 3)
    expected_q, expected_r = np.linalg.qr(a)
    a[1, 2, 1] = value
    q, r = (np.array(factor) for factor in qr(mx.array(a), backend=device))
    np.testing.assert_allclose(q[0], expected_q[0], atol=1e-4)
    np.testing.assert_allclose(r[0], expected_r[0], atol=1e-4)
    # The columns before it have their reflections.
    assert np.isfinite(q[1, :, 0]).all()
    assert np.isnan(q[1, :, 1:]).all()
    assert np.isnan(np.diagonal(r[1])[1:]).sum() >= size - 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (0, 3, 2), (2, 4, 0)], ids=str)
def test_qr_empty(shape, mode, device):
    expected = np.linalg.qr(np.zeros(shape, dtype=np.float32), mode=mode)
    actual = qr(mx.zeros(shape), mode, backend=device)
    pairs = [(actual, expected)] if mode == "r" else zip(actual, expected, strict=True)
    for array, numbers in pairs:
        np.testing.assert_array_equal(np.array(array), numbers)


# --- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "mode"),
    [
        ((5, 3), "reduced"),
        ((2, 4, 4), "reduced"),
        ((3, 6), "reduced"),
        ((3, 5), "complete"),
        ((5, 3), "r"),
        ((3, 5), "r"),
        ((4, 1), "reduced"),
    ],
)
def test_qr_derivatives(shape, mode, device):
    def joined(factors, library):
        parts = [factors] if mode == "r" else factors
        return library.concatenate([part.reshape(-1) for part in parts])

    check_slopes(
        lambda a: joined(qr(a, mode, backend=device), mx),
        lambda a: joined(np.linalg.qr(a, mode=mode), np),
        [matrices(shape, 6, 10)],
    )


def test_complete_of_tall_matrices_has_no_gradient(device):
    with pytest.raises(NotImplementedError, match="use 'reduced'"):
        mx.grad(lambda a: qr(a, "complete", backend=device)[0].sum())(mx.ones((3, 2)))


# --- lstsq -------------------------------------------------------------------------------------


LSTSQ_SHAPES = [(7, 4), (1, 1), (4, 7), (9, 9), (40, 17)]


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
@pytest.mark.parametrize("shape", LSTSQ_SHAPES, ids=str)
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


def test_lstsq_not_finite(device):
    a, b = right_side(2, 5, 3), right_side(2, 5, 1)
    a[1, 2, 1] = np.nan
    x, residuals, rank, s = lstsq(mx.array(a), mx.array(b), backend=device)
    agree(x[0], np.linalg.lstsq(a[0], b[0])[0])
    assert np.isnan(np.array(x[1])).all()
    assert np.isnan(np.array(s[1])).all()
    assert np.isnan(np.array(residuals[1])).all()
    assert rank.tolist() == [3, 0]


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 1), (2, 3, 0)], ids=str)
def test_lstsq_empty(shape, device):
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
def test_lstsq_derivatives(a, device):
    def joined(result, library):
        return library.concatenate([part.reshape(-1) for part in (result[0], result[1])])

    check_slopes(
        lambda a, b: joined(lstsq(a, b, backend=device), mx),
        lambda a, b: joined(np.linalg.lstsq(a, b), np),
        [a, right_side(len(a), 2)],
    )


# --- orthogonalize -----------------------------------------------------------------------------


ORTHOGONALIZE_SHAPES = [(8, 8), (12, 5), (5, 12), (2, 3, 9, 4), (1, 6), (40, 1)]


def newton_schulz(matrices: np.ndarray, steps: int = 5) -> np.ndarray:
    """Muon's iteration on the singular values, in float64."""
    u, s, v = np.linalg.svd(matrices.astype(np.float64), full_matrices=False)
    s = s / (np.linalg.norm(s, axis=-1, keepdims=True) + 1e-7)
    for _ in range(steps):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u * s[..., None, :] @ v


def gram_schmidt(matrix: np.ndarray) -> np.ndarray:
    """Orthonormal columns of one matrix, each with a positive product with the one it is of."""
    columns: list[np.ndarray] = []
    for column in matrix.astype(np.float64).T:
        left = column
        for other in columns * 2:
            left = left - other * (other @ left)
        columns.append(left / np.linalg.norm(left))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("shape", ORTHOGONALIZE_SHAPES, ids=str)
def test_newton_schulz(shape, precision, draw, wide):
    matrices = draw(shape, precision.dtype)
    actual = orthogonalize(matrices)
    assert (actual.shape, actual.dtype) == (shape, precision.dtype)
    expected = newton_schulz(wide(matrices))
    # Five steps enlarge small singular values, and their roundings, 3.4 times each.
    np.testing.assert_allclose(wide(actual), expected, atol=15 * precision.value)


def test_zeros(device):
    zeros = mx.zeros((2, 3, 2))
    assert not orthogonalize(zeros).any().item()
    gradient = mx.grad(lambda x: orthogonalize(x).sum())(zeros)
    assert mx.isfinite(gradient).all().item()
    by_qr = orthogonalize(zeros, method="qr", backend=device)
    np.testing.assert_array_equal(np.array(by_qr[0]), np.eye(3, 2))
    assert orthogonalize(mx.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("shape", [(8, 8), (12, 5), (5, 12), (100, 90)], ids=str)
def test_qr(shape, precision, device, draw, wide):
    matrices = draw(shape, precision.dtype)
    actual = orthogonalize(matrices, method="qr", backend=device)
    assert (actual.shape, actual.dtype) == (shape, precision.dtype)
    tall = shape[0] >= shape[1]
    expected = gram_schmidt(wide(matrices) if tall else wide(matrices).T)
    rounded = wide(actual) if tall else wide(actual).T
    np.testing.assert_allclose(rounded, expected, atol=max(precision.value, 5e-5))


@pytest.mark.parametrize("method", ["newton_schulz", "qr"])
@pytest.mark.parametrize("shape", [(4, 3), (3, 4)], ids=str)
def test_orthogonalize_derivatives(method, shape, device, draw):
    def definition(numbers: np.ndarray) -> np.ndarray:
        if method == "newton_schulz":
            return newton_schulz(numbers)
        return gram_schmidt(numbers) if shape[0] > shape[1] else gram_schmidt(numbers.T).T

    check_slopes(
        lambda x: orthogonalize(x, method=method, backend=device),
        definition,
        [np.array(draw(shape, mx.float32))],
    )
