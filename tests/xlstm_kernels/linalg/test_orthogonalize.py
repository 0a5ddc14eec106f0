"""`orthogonalize` against its iteration in float64, and against NumPy's QR."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.linalg.matrices import check_slopes
from xlstm_kernels.linalg import orthogonalize
from xlstm_kernels.linalg.arguments import LinAlgError

SHAPES = [(8, 8), (12, 5), (5, 12), (2, 3, 9, 4), (1, 6), (40, 1)]


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


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_newton_schulz(shape, precision, draw, wide):
    matrices = draw(shape, precision.dtype)
    actual = orthogonalize(matrices)
    assert (actual.shape, actual.dtype) == (shape, precision.dtype)
    expected = newton_schulz(wide(matrices))
    # Five steps enlarge small singular values, and their roundings, 3.4 times each.
    np.testing.assert_allclose(wide(actual), expected, atol=15 * precision.value)


@pytest.mark.parametrize("steps", [0, 1, 10])
def test_steps(steps, draw, wide):
    matrices = draw((6, 9), mx.float32)
    actual = wide(orthogonalize(matrices, steps=steps))
    np.testing.assert_allclose(actual, newton_schulz(wide(matrices), steps), atol=1e-4)


@pytest.mark.parametrize("exponent", [100, -60])
def test_numbers_near_the_ends_of_the_range(exponent, draw, wide):
    matrices = draw((4, 3), mx.float32)
    scaled = mx.array(np.ldexp(np.array(matrices), exponent))
    actual = wide(orthogonalize(scaled, eps=0.0))
    np.testing.assert_allclose(actual, newton_schulz(wide(matrices)), atol=1e-5)


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
def test_derivatives(method, shape, device, draw):
    def definition(numbers: np.ndarray) -> np.ndarray:
        if method == "newton_schulz":
            return newton_schulz(numbers)
        return gram_schmidt(numbers) if shape[0] > shape[1] else gram_schmidt(numbers.T).T

    check_slopes(
        lambda x: orthogonalize(x, method=method, backend=device),
        definition,
        [np.array(draw(shape, mx.float32))],
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: orthogonalize(mx.ones((3,))), LinAlgError, "at least two axes"),
        (lambda: orthogonalize(mx.ones((3, 3), dtype=mx.int32)), TypeError, "float32, float16"),
        (lambda: orthogonalize(mx.ones((3, 3)), method="svd"), ValueError, "method must be"),
        (lambda: orthogonalize(mx.ones((3, 3)), steps=-1), ValueError, "at least 0"),
        (lambda: orthogonalize(mx.ones((3, 3)), eps=-1.0), ValueError, "not be negative"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
