"""Products of matrices on GPUs that multiply in TF32, and what is multiplied as what."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels import products


def as_tf32(x: mx.array) -> mx.array:
    """The nearest number with 10 bits after the leading one."""
    bits = np.array(x).view(np.uint32)
    return mx.array(
        ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    )


@pytest.fixture
def gpu(monkeypatch):
    """Say that the GPU is the default device, one that multiplies in TF32; the CPU computes."""
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    monkeypatch.delenv("MLX_ENABLE_TF32", raising=False)


@pytest.fixture
def rounding(monkeypatch):
    """Multiply as a GPU does that rounds its factors to TF32."""

    def product(a: mx.array, b: mx.array, plus: mx.array | None) -> mx.array:
        result = as_tf32(a) @ as_tf32(b)
        return result if plus is None else result + plus

    monkeypatch.setattr(products, "_product", product)


@pytest.mark.parametrize("shape", [(5, 7, 3), (33, 256, 20), (3, 1024, 3)], ids=str)
def test_operands_keep_the_digits(shape, gpu, rounding, draw, wide, relative_error):
    rows, shared, columns = shape
    a, b = draw((2, rows, shared), mx.float32), draw((2, shared, columns), mx.float32)
    multiply = products.exact()
    expected = wide(a) @ wide(b)
    assert relative_error(as_tf32(a) @ as_tf32(b), expected) > 1e-4
    assert relative_error(multiply.operand(a) @ multiply.operand(b), expected) < 2e-6
    by_transposed = multiply.operand(a.swapaxes(-1, -2)).transposed
    assert relative_error(by_transposed @ multiply.operand(b), expected) < 2e-6


def test_what_is_not_finite_stays_so(gpu, rounding):
    a, b = mx.array([[np.inf, 1.0], [np.nan, 1.0], [2.0, 3.0]]), mx.ones((2, 1))
    multiply = products.exact()
    found = np.array(multiply.operand(a) @ multiply.operand(b)).ravel()
    assert np.isfinite(found).tolist() == [False, False, True]
    assert found[2] == 5


@pytest.mark.parametrize(
    ("dtype", "precision", "expected"),
    [
        (mx.bfloat16, "default", products.Products(mx.bfloat16)),
        (mx.bfloat16, "high", products.Products(mx.float32)),
        (mx.float16, "default", products.Products(mx.float32)),
        (mx.float32, "default", products.Products(mx.float32, in_parts=True)),
    ],
)
def test_what_is_multiplied_on_a_gpu(dtype, precision, expected, gpu):
    chosen = products.chosen(dtype, products.Precision(precision), on_gpu=True)
    assert chosen == expected


def test_factors_go_whole_without_tf32(gpu, monkeypatch):
    monkeypatch.setenv("MLX_ENABLE_TF32", "0")
    assert not products.exact().in_parts


@pytest.mark.parametrize(
    ("architecture", "in_parts"), [("applegpu_g16s", False), ("applegpu_g17p", True)]
)
def test_apples_gpus_from_the_m5_on_multiply_in_tf32(architecture, in_parts, gpu, monkeypatch):
    monkeypatch.setattr(mx.cuda, "is_available", lambda: False)
    monkeypatch.setattr(mx, "device_info", lambda: {"architecture": architecture})
    assert products.exact().in_parts is in_parts


def test_parts_have_derivatives(gpu, draw):
    (a, b, da, db, cotangent) = (draw((5, 5), mx.float32) for _ in range(5))

    def multiply(a: mx.array, b: mx.array) -> mx.array:
        return products.exact().operand(a) @ products.exact().operand(b)

    _, (pushed,) = mx.jvp(multiply, [a, b], [da, db])
    np.testing.assert_allclose(np.array(pushed), np.array(da @ b + a @ db), rtol=1e-5, atol=1e-5)
    _, pulled = mx.vjp(multiply, [a, b], [cotangent])
    for found, expected in zip(pulled, (cotangent @ b.T, a.T @ cotangent), strict=True):
        np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5, atol=1e-5)
