"""Gradients of recurrent layers for batches without sequences."""

from __future__ import annotations

import mlx.core as mx
import pytest

from xlstm_kernels import lstm, slstm


@pytest.mark.parametrize("operator", [slstm, lstm])
def test_parameters_have_no_gradient(operator):
    # MLX's sum over two axes of an empty transposed array returns memory as it was found.
    mx.eval([mx.full((size,), 7.0) for size in (16, 64, 256, 1024)])
    inputs = mx.zeros((0, 5, 4, 2, 8))
    parameters = mx.ones((4, 2, 8, 8)), mx.ones((4, 2, 8))

    def loss(recurrent, bias):
        result = operator(inputs, recurrent, bias)
        return mx.sum(result[0] if isinstance(result, tuple) else result)

    for gradient in mx.grad(loss, argnums=(0, 1))(*parameters):
        assert mx.array_equal(gradient, mx.zeros_like(gradient))
