"""The norms as layers."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from xlstm_kernels import rms_norm
from xlstm_kernels.nn.normalization import MultiHeadLayerNorm, MultiHeadRMSNorm, RMSNorm
from xlstm_kernels.norm.multi_head_norm import multi_head_layer_norm, multi_head_rms_norm

OF_HEADS = {MultiHeadLayerNorm: multi_head_layer_norm, MultiHeadRMSNorm: multi_head_rms_norm}


@pytest.fixture(params=OF_HEADS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


def parameters(layer: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in tree_flatten(layer.parameters())}


@pytest.mark.parametrize("use_weight", [True, False])
@pytest.mark.parametrize("use_bias", [True, False])
def test_parameters_are_those_that_are_wanted(use_weight, use_bias, kind):
    wanted = {"weight": (12,)} if use_weight else {}
    wanted |= {"bias": (12,)} if use_bias else {}
    options = {"use_weight": use_weight, "use_bias": use_bias, "force_float32_reductions": True}
    assert parameters(RMSNorm(12, **options)) == wanted
    layer = kind(num_heads=3, head_dim=4, **options)
    assert parameters(layer) == wanted
    assert layer.num_features == 12


@pytest.mark.parametrize("gated", [False, True])
def test_heads(gated, kind, device, precision, draw):
    layer = kind(3, 8, eps=1e-3, use_bias=True, backend=device)
    layer.update({"weight": draw((24,), mx.float32), "bias": draw((24,), mx.float32)})
    x = draw((2, 3, 5, 8), precision.dtype).transpose(0, 2, 1, 3)
    gate = draw((2, 5, 24), precision.dtype) if gated else None
    expected = OF_HEADS[kind](
        x, layer.weight, eps=1e-3, bias=layer.bias, gate=gate, backend="native"
    )
    result = layer(x, gate)
    assert result.dtype == precision.dtype
    np.testing.assert_allclose(
        np.array(result.astype(mx.float32)), np.array(expected.astype(mx.float32)), rtol=1e-2
    )


def test_rms(device, precision, draw, wide, relative_error):
    layer = RMSNorm(24, eps=1e-3, use_bias=True, backend=device)
    weight, bias, x = (
        draw((24,), mx.float32),
        draw((24,), mx.float32),
        draw((2, 5, 24), precision.dtype),
    )
    layer.update({"weight": weight, "bias": bias})
    rows = wide(x)
    expected = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-3) * wide(weight) + wide(bias)
    assert layer(x).dtype == precision.dtype
    assert relative_error(layer(x), expected) < precision.value
    plain = RMSNorm(24, eps=1e-3, use_weight=False, backend=device)
    np.testing.assert_array_equal(wide(plain(x)), wide(rms_norm(x, eps=1e-3, backend=device)))


def test_rejects_other_heads(kind):
    layer = kind(3, 4)
    for shape in ((2, 5, 4, 3), (5, 3, 4), (2, 5, 12), (1, 2, 5, 3, 4)):
        with pytest.raises(ValueError, match=rf"{kind.__name__}: x must be \(B, S, 3, 4\), got"):
            layer(mx.ones(shape))


@pytest.mark.parametrize("shape", [(), (11,), (12, 1)], ids=str)
def test_rejects_other_features(shape):
    with pytest.raises(ValueError, match="RMSNorm: x must have 12 features along its last axis"):
        RMSNorm(12)(mx.ones(shape))
