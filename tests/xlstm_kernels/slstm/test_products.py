"""Products by the leading bits of factors, as a GPU that multiplies in TF32 needs them."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.slstm.gradient_case import judge
from xlstm_kernels.slstm import products


def as_tf32(x: mx.array) -> mx.array:
    """The nearest number with 10 bits after the leading one."""
    bits = np.array(x).view(np.uint32)
    return mx.array(
        ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    )


@pytest.fixture
def gpu(monkeypatch):
    """Say that the GPU is the default device; the CPU computes."""
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)


def multiplied(a: mx.array, b: mx.array) -> mx.array:
    """As a GPU does it that rounds its factors to TF32."""
    return as_tf32(products.left_factor(a, -1)) @ as_tf32(products.right_factor(b, -2))


@pytest.mark.parametrize("shape", [(5, 7, 3), (33, 256, 20), (3, 1024, 3)], ids=str)
def test_factors_of_tf32_keep_the_digits(shape, gpu, draw, wide, relative_error):
    rows, shared, columns = shape
    a, b = draw((2, rows, shared), mx.float32), draw((2, shared, columns), mx.float32)
    exact = wide(a) @ wide(b)
    assert relative_error(as_tf32(a) @ as_tf32(b), exact) > 1e-4
    assert relative_error(multiplied(a, b), exact) < 2e-6


def test_what_is_not_finite_stays_so(gpu):
    a, b = mx.array([[np.inf, 1.0], [np.nan, 1.0], [2.0, 3.0]]), mx.ones((2, 1))
    found = np.array(products.left_factor(a, -1) @ products.right_factor(b, -2)).ravel()
    assert np.isfinite(found).tolist() == [False, False, True]
    assert found[2] == 5


def test_a_cpu_takes_factors_whole(draw):
    x = draw((4, 5), mx.float32)
    if mx.default_device() == mx.cpu:
        assert products.left_factor(x, 0) is products.right_factor(x, 0) is x


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_with_split_factors(masked, gpu, draw_case):
    """By the operations of the native backend, for which the GPU's factors are split."""
    case = draw_case((2, 5, 3, 33), masked=masked)
    judge(case.computed("native"), case.expected())
