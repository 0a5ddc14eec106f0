"""mlx_vlm's attention kernels: indexed, block-sparse and ragged; SIMD groups share the keys."""

from __future__ import annotations

from types import ModuleType
from unittest.mock import patch

import mlx.core as mx

from .case import Data, Outcome, dtypes, kernel_cases

HALVES = dtypes("float16", "bfloat16")


def attend(
    queries: mx.array, keys: mx.array, values: mx.array, visible: mx.array, scale: float
) -> mx.array:
    """Dense attention in float32; ``visible`` is (batch, queries, keys); no keys give zeros."""
    repeats = queries.shape[1] // keys.shape[1]
    k, v = (mx.repeat(x.astype(mx.float32), repeats, axis=1) for x in (keys, values))
    scores = (queries.astype(mx.float32) * scale) @ k.swapaxes(-1, -2)
    scores = mx.where(visible[:, None], scores, -1e30)
    weights = mx.softmax(scores, axis=-1) * visible[:, None]
    return (weights @ v).astype(queries.dtype)


def _chosen(indices: mx.array, length: int) -> mx.array:
    """Which of ``length`` positions a list of indices names, (batch, queries, keys)."""
    return mx.any(indices[..., None] == mx.arange(length), axis=-2)


@kernel_cases(
    "mlx_vlm.models.sparse_attention", "indexed_sparse_attention_{short}_q64_v32_k5_qh2_kh1", HALVES
)
def indexed(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 50)
    q, k, v = data.normal(1, 2, 2, 64), data.normal(1, 1, 40, 64), data.normal(1, 1, 40, 32)
    indices = mx.array([[[3, 17, -1, 39, 0], [5, 4, 33, 21, 22]]], dtype=mx.int32)
    got = m.indexed_sparse_attention(q, k, v, indices, 0.125)
    return Outcome([got], [attend(q, k, v, _chosen(indices, 40), 0.125)])


@kernel_cases(
    "mlx_vlm.models.minimax_m3_vl.language",
    "minimax_m3_sparse_prefill_1p_{short}_d32_s8_b4_k2_qh2_kh1",
    HALVES,
)
def minimax_blocks(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 51)
    q, k, v = data.normal(1, 2, 2, 32), data.normal(1, 1, 60, 32), data.normal(1, 1, 60, 32)
    blocks = mx.array([[[0, 12], [3, 14]]], dtype=mx.int32)
    positions = mx.array([[50, 57]], dtype=mx.int32)
    got = m._minimax_m3_sparse_prefill_attention(q, k, v, blocks, positions, 0.2, 4)
    visible = mx.repeat(_chosen(blocks, 15), 4, axis=-1) & (mx.arange(60) <= positions[..., None])
    return Outcome([got], [attend(q, k, v, visible, 0.2)])


@kernel_cases(
    "mlx_vlm.models.qwen4_exp.qsa_kernel",
    "qwen4_exp_qsa_sparse_attention_{short}_d32_s8_b4_k2_qh2_kh1",
    HALVES,
)
def qsa_blocks(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 52)
    q, k, v = data.normal(1, 2, 2, 32), data.normal(1, 1, 30, 32), data.normal(1, 1, 30, 32)
    blocks = mx.array([[[1, -1], [5, 0]]], dtype=mx.int32)
    ends = mx.array([[22, 27]], dtype=mx.int32)
    got = m.qsa_sparse_attention(q, k, v, blocks, ends, scale=0.2, block_size=4)
    # The chosen blocks, and the tokens after the last complete one.
    at = mx.arange(30)
    chosen = mx.repeat(_chosen(blocks, 8), 4, axis=-1)[..., :30]
    visible = (chosen | (at >= ends[..., None] // 4 * 4)) & (at < ends[..., None])
    return Outcome([got], [attend(q, k, v, visible, 0.2)])


@kernel_cases(
    "mlx_vlm.models.longcat_flash_sparse.indexer_kernel",
    "indexer_epilogue_h4",
    dtypes("float32", "bfloat16"),
    tolerance=1e-4,
)
def indexer_scores(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 53)
    q, pooled, weights = data.normal(2, 4, 3, 16), data.normal(2, 11, 16), data.normal(2, 3, 4)
    dots = q.astype(mx.float32) @ pooled[:, None].swapaxes(-1, -2).astype(mx.float32)
    weighted = mx.maximum(dots, 0) * weights.astype(mx.float32).swapaxes(1, 2)[..., None]
    return Outcome([m.indexer_dense_scores(q, pooled, weights, 0.25)], [weighted.sum(1) * 0.25])


RAGGED = "mlx_vlm.models.qwen3_5.language"


@kernel_cases(RAGGED, "qwen3_5_ragged_sdpa_1p_{short}_d64_v64", HALVES)
@kernel_cases(
    RAGGED,
    "qwen3_5_ragged_sdpa_2p1_{short}_d64_v64_b64 qwen3_5_ragged_sdpa_2p2_{short}_v64_b64",
    {"two-passes": {"dtype": "float16", "length": 1030, "pad": 3, "room": 1030}},
)
def ragged(m: ModuleType, dtype: str, length: int = 40, pad: int = 13, room: int = 48) -> Outcome:
    data, pads = Data(dtype, 54), [0, pad]
    q = data.normal(2, 2, 1, 64)
    k, v = (data.normal(2, 1, room, 64)[:, :, :length] for _ in range(2))
    # A GPU of the larger sort takes two passes from 1024 keys on.
    with patch.object(m, "_qwen3_5_device_arch_suffix", lambda: "s"):
        got = m._qwen3_5_ragged_decode_attention(q, k, v, pads, 0.125)
    visible = (mx.arange(length) >= mx.array(pads)[:, None])[:, None]
    return Outcome([got], [attend(q, k, v, visible, 0.125)])
