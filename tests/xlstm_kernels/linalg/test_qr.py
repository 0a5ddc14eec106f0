"""`qr` against LAPACK in float32, NumPy in float64, and differences of NumPy's factors."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.linalg.matrices import check_slopes
from xlstm_kernels.linalg import qr
from xlstm_kernels.linalg.arguments import LinAlgError
from xlstm_kernels.linalg.householder import fits

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
    [(1, 1), (3, 1, 1), (33, 2, 2), (2, 5, 4, 4), (5, 3), (3, 5), (17, 9), (9, 17), (2, 32, 32)],
    ids=str,
)
def test_small(shape, mode, device):
    check(shape, mode, device)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("condition", [1, 1e3, 1e6])
@pytest.mark.parametrize("shape", [(64, 64), (2, 20, 33), (300, 3), (3, 300)], ids=str)
def test_one_launch(shape, mode, condition, device):
    if mode != "complete":
        assert fits(*shape[-2:], min(shape[-2:]))
    check(shape, mode, device, condition)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("condition", [1, 1e6])
@pytest.mark.parametrize("shape", [(96, 96), (2, 120, 70), (80, 130), (330, 33)], ids=str)
def test_blocks(shape, mode, condition, device):
    assert not fits(*shape[-2:], min(shape[-2:]))
    check(shape, mode, device, condition)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", [(256, 256), (512, 512), (4096, 16, 16), (4, 128, 128)], ids=str)
def test_large(shape, device):
    check(shape, "reduced", device, 1e6)


def test_numbers_near_the_ends_of_the_range(device):
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
def test_not_finite(value, size, device):
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
def test_empty(shape, mode, device):
    expected = np.linalg.qr(np.zeros(shape, dtype=np.float32), mode=mode)
    actual = qr(mx.zeros(shape), mode, backend=device)
    pairs = [(actual, expected)] if mode == "r" else zip(actual, expected, strict=True)
    for array, numbers in pairs:
        np.testing.assert_array_equal(np.array(array), numbers)


def test_a_launch_for_a_batch(simulator):
    mx.eval(qr(mx.array(matrices((50, 6, 4), 4)), backend="metal"))
    assert [launch.kernel for launch in simulator.launches] == ["xlstm_small_qr"]


@pytest.mark.parametrize(
    ("array", "mode", "error", "message"),
    [
        (mx.zeros((3,)), "reduced", LinAlgError, "at least two axes"),
        (mx.zeros((3, 3), dtype=mx.float16), "reduced", TypeError, "must be float32"),
        (mx.zeros((3, 3)), "raw", ValueError, "mode must be"),
    ],
)
def test_errors(array, mode, error, message):
    with pytest.raises(error, match=message):
        qr(array, mode)


def test_vmap_is_refused():
    with pytest.raises(ValueError, match="as a batch axis"):
        mx.vmap(qr)(mx.zeros((2, 3, 3)))


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
def test_derivatives(shape, mode, device):
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
