"""Calls of wrappers of mlx-lm and mlx-vlm, each of which launches a kernel.

Left out, since the CUDA executor's prelude lacks what they use: `qk_norm_rope` (`fast::cos`),
`ssm_kernel` (`fast::exp` without `metal::`), the quantized verifiers (`static inline`), and most
kernels on bfloat16, which CUDA does not multiply by a float without a conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import mlx.core as mx
from mlx import nn

from tests.simulator.packages.case import Data

LM = "mlx_lm.kernels"
GATED = "mlx_lm.models.gated_delta"


def _qk_norm(m: ModuleType, *, length: int) -> Any:
    sizes = {"n_heads": 16, "n_kv_heads": 4, "head_dim": 128, "eps": 1e-5, "query_scale": 4.9}
    return m.qk_norm(Data("bfloat16", 1).normal(2, length, 24 * 128), **sizes)


def _routing(m: ModuleType) -> Any:
    data = Data(seed=2)
    logits, bias = data.normal(1, 4096, 64), data.normal(64, scale=0.1)
    return m.expert_routing(logits, bias, top_k=4, multiplier=0.7, score_eps=1e-2, route_scale=2.5)


def _combine(m: ModuleType) -> Any:
    data = Data("bfloat16", 3)
    experts, weights = data.normal(1, 512, 4, 2048), data.uniform(1, 512, 4, low=0.1)
    norm_weight = data.uniform(2048, low=0.5, high=1.5)
    return m.post_expert_norm_combine(experts, weights, norm_weight=norm_weight, eps=1e-6)


def _gate(m: ModuleType) -> Any:
    data = Data("bfloat16", 4)
    x = data.normal(1, 512, 16, 128).transpose(0, 2, 1, 3)
    return m.rms_norm_sigmoid_gate(x, data.normal(1, 512, 2048), eps=1e-5)


def _norms(m: ModuleType, *, rows: int) -> Any:
    data = Data("bfloat16", 5)
    norm = nn.RMSNorm(4096, eps=1e-5)
    norm.weight = data.uniform(4096, low=0.5, high=1.5)
    f = mx.float32
    return m.norm_add_norm(
        branch=data.normal(1, rows, 4096),
        stream=data.normal(1, rows, 4096, dtype=f),
        alpha=data.uniform(4096, dtype=f),
        beta=data.uniform(4096, dtype=f),
        post_weight=data.uniform(4096),
        post_eps=1e-6,
        next_norm=norm,
    )


def _loss(m: ModuleType, *, name: str, rows: int) -> Any:
    data = Data("float32", 12)
    return getattr(m, name)(data.normal(rows, 32000), data.normal(rows, 32000))


def _gated(
    m: ModuleType, *, length: int, head_dim: int = 128, vector: bool = False, name: str = "kernel"
) -> Any:
    data = Data("float32", 6)
    batch, keys, values, value_dim = 2, 4, 8, 128
    q, k = (data.normal(batch, length, keys, head_dim, scale=0.05) for _ in "qk")
    v = data.normal(batch, length, values, value_dim)
    gates = (batch, length, values, head_dim) if vector else (batch, length, values)
    g = mx.exp(data.uniform(*gates, low=-0.2, high=0.0, dtype=mx.float32))
    beta = data.uniform(batch, length, values)
    state = data.normal(batch, values, value_dim, head_dim, scale=0.3, dtype=mx.float32)
    return getattr(m, f"gated_delta_{name}")(q, k, v, g, beta, state)


def _bitlinear(m: ModuleType, *, rows: int) -> Any:
    data = Data("float32", 8)
    layer = m.BitLinear(2048, 4096, bias=False, invert_weight_scales=False)
    layer.weight = data.integers(0, 255, 1024, 2048, dtype=mx.uint8)
    layer.weight_scale = mx.array([0.75], dtype=data.dtype)
    return layer(data.normal(1, rows, 2048))


def _wkv7(m: ModuleType) -> Any:
    data = Data("float32", 9)
    r, k, v, a, b = (data.normal(1, 128, 32, 64, scale=0.1) for _ in range(5))
    w = data.uniform(1, 128, 32, 64, low=0.8)
    return m.wkv7_kernel(r, w, k, v, a, b, data.normal(1, 32, 64, 64, scale=0.3))


def _residuals(m: ModuleType) -> Any:
    data = Data("bfloat16", 10)
    earlier = m.ResidualBlocks(1e-5)
    for _ in range(4):
        earlier.append(data.normal(1, 512, 2048))
    weights = data.normal(2048, scale=0.1, dtype=mx.float32)
    return m._attn_res_mix(earlier, data.normal(1, 512, 2048), weights, 1e-5)


def _rows(m: ModuleType) -> Any:
    data = Data("bfloat16", 60)
    return m.exact_speculative_verify_weight(data.normal(2048, 2048), data.normal(1, 3, 2048))


def _one_bit(m: ModuleType) -> Any:
    data = Data("float16", 65)
    x = data.normal(2, 2048, scale=0.2)
    weight = data.integers(0, 2**31, 2048, 64)
    scales, biases = data.uniform(2048, 32, low=0.5), data.normal(2048, 32, scale=0.3)
    return m.one_bit_quantized_matmul(x, weight, scales, biases, group_size=64)


def _indexed(m: ModuleType) -> Any:
    data = Data("float16", 50)
    q = data.normal(1, 8, 64, 64)
    k, v = data.normal(1, 2, 2048, 64), data.normal(1, 2, 2048, 64)
    indices = data.integers(0, 2048, 1, 64, 128, dtype=mx.int32)
    return m.indexed_sparse_attention(q, k, v, indices, 0.125)


def _indexer(m: ModuleType) -> Any:
    data = Data("bfloat16", 53)
    q, pooled, weights = (
        data.normal(1, 16, 64, 64),
        data.normal(1, 1024, 64),
        data.normal(1, 64, 16),
    )
    return m.indexer_dense_scores(q, pooled, weights, 0.25)


def _sinkhorn(m: ModuleType) -> Any:
    data = Data("bfloat16", 81)
    x = data.normal(1, 512, 4, 2048)
    mixes = (data.normal(*s, dtype=mx.float32) for s in ((1, 512, 24), (3,), (24,)))
    return m._hc_kernel(x, x.astype(mx.float32), *mixes, 4, 3, 1e-6)


def _short_convolution(m: ModuleType) -> Any:
    data = Data("bfloat16", 42)
    layer = m.ShortConv1d(4096, 4)
    layer.conv.weight = data.normal(4096, 4, 1)
    layer.eval()
    return layer(data.normal(64, 1, 4096), data.normal(64, 3, 4096), None, None)


def _turboquant(m: ModuleType) -> Any:
    return m._pack_lowbit(Data(seed=90).integers(0, 8, 8, 4096, 128), 3)


CALLS: dict[str, tuple[str, Callable[[ModuleType], Any]]] = {
    "lm_qk_norm_1": (LM, partial(_qk_norm, length=1)),
    "lm_qk_norm_256": (LM, partial(_qk_norm, length=256)),
    "lm_expert_routing": (LM, _routing),
    "lm_post_expert_norm_combine": (LM, _combine),
    "lm_rms_norm_sigmoid_gate": (LM, _gate),
    "lm_norm_add_norm_1": (LM, partial(_norms, rows=1)),
    "lm_norm_add_norm_1024": (LM, partial(_norms, rows=1024)),
    "lm_kl_forward": ("mlx_lm.tuner.losses", partial(_loss, name="kl_div_loss", rows=256)),
    "lm_kl_forward_4": ("mlx_lm.tuner.losses", partial(_loss, name="kl_div_loss", rows=4)),
    "lm_js_forward": ("mlx_lm.tuner.losses", partial(_loss, name="js_div_loss", rows=256)),
    "lm_gated_delta_1": (GATED, partial(_gated, length=1)),
    "lm_gated_delta_64": (GATED, partial(_gated, length=64)),
    "lm_gated_delta_64_narrow": (GATED, partial(_gated, length=64, head_dim=64)),
    "lm_gated_delta_256_vector": (GATED, partial(_gated, length=256, vector=True)),
    "lm_gated_delta_unpacked": (GATED, partial(_gated, length=64, name="kernel_unpacked")),
    "lm_bitlinear_1": ("mlx_lm.models.bitlinear_layers", partial(_bitlinear, rows=1)),
    "lm_bitlinear_16": ("mlx_lm.models.bitlinear_layers", partial(_bitlinear, rows=16)),
    "lm_wkv7": ("mlx_lm.models.rwkv7", _wkv7),
    "lm_attention_residual": ("mlx_lm.models.kimi_k3", _residuals),
    "vlm_verify_rows": ("mlx_vlm.models.exact_speculative_verify", _rows),
    "vlm_one_bit": ("mlx_vlm.quantization.one_bit", _one_bit),
    "vlm_indexed_attention": ("mlx_vlm.models.sparse_attention", _indexed),
    "vlm_indexer_scores": ("mlx_vlm.models.longcat_flash_sparse.indexer_kernel", _indexer),
    "vlm_sinkhorn": ("mlx_vlm.models.deepseek_v4.hyper_connection", _sinkhorn),
    "vlm_short_convolution": ("mlx_vlm.models.kimi_k3.language", _short_convolution),
    "vlm_pack_lowbit": ("mlx_vlm.turboquant", _turboquant),
}
