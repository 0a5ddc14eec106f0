"""mlx_vlm.turboquant: keys and values of a few bits, packed, scored and summed as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import mlx.core as mx

from .case import Data, Flaw, Outcome, kernel_cases

MODULE = "mlx_vlm.turboquant"


@contextmanager
def without_kernels(m: ModuleType) -> Iterator[None]:
    """The module as it is on a machine without Metal, whatever its caches hold."""
    factories = [
        name for name in vars(m) if name.endswith("_kernel") and not name.startswith("_compiled")
    ]
    with ExitStack() as stack:
        stack.enter_context(patch.object(m, "_metal_available", lambda: False))
        for name in factories:
            stack.enter_context(patch.object(m, name, lambda *_, **__: None))
        yield


@kernel_cases(
    MODULE,
    "turboquant_pack_lowbit",
    {"3-bit": {"bits": 3}, "4-bit": {"bits": 4}, "5-bit": {"bits": 5}},
    tolerance=0.0,
)
def pack(m: ModuleType, bits: int) -> Outcome:
    values = Data(seed=90).integers(0, 2**bits, 2, 3, 45)
    got = m._pack_lowbit(values, bits)
    with without_kernels(m):
        return Outcome([got], [m._pack_lowbit(values, bits)])


@kernel_cases(
    MODULE,
    "turboquant_unpack_lowbit",
    {"3-bit": {"bits": 3}, "4-bit": {"bits": 4}, "5-bit": {"bits": 5}},
    tolerance=0.0,
)
def unpack(m: ModuleType, bits: int) -> Outcome:
    values = Data(seed=91).integers(0, 2**bits, 2, 3, 45)
    with without_kernels(m):
        packed = m._pack_lowbit(values, bits)
    return Outcome([m._unpack_lowbit(packed, bits, 45)], [values])


@kernel_cases(
    MODULE,
    "turboquant_norot_quantize_{bits}",
    {"hadamard": {"bits": 3, "dim": 64}, "dense": {"bits": 2, "dim": 48}},
    tolerance=0.0,
)
def quantize(m: ModuleType, bits: int, dim: int) -> Outcome:
    codec = m._TurboQuantMSECodec(dim, bits, 0)
    vectors = Data(seed=92).normal(1, 2, 3, dim)
    got = codec.quantize(vectors)
    with without_kernels(m):
        return Outcome(got, codec.quantize(vectors))


@kernel_cases(
    MODULE, "turboquant_fused_mse_quantize_v2_{bits}", {"dense": {"bits": 3}}, tolerance=1e-3
)
def quantize_one_token(m: ModuleType, bits: int) -> Outcome:
    """Norm and rotation in the kernel, which the wrapper takes where the shorter one is absent."""
    codec = m._TurboQuantMSECodec(48, bits, 0)
    vectors = Data(seed=103).normal(1, 2, 1, 48)
    with patch.object(m, "_fused_norot_quantize_kernel", lambda *_: None):
        got = codec.quantize(vectors)
    with without_kernels(m):
        return Outcome(got, codec.quantize(vectors))


def _stored(m: ModuleType, codec: Any, tokens: int, *, seed: int = 93) -> Any:
    """The state of ``tokens`` vectors of two heads, made without kernels."""
    with without_kernels(m):
        return codec.quantize(Data(seed=seed).normal(1, 2, tokens, codec.dim))


def _queries(repeats: int, dim: int) -> mx.array:
    return Data(seed=94).normal(1, 2, repeats, 1, dim)


def _scored(m: ModuleType, codec: Any, repeats: int) -> Outcome:
    state, queries = _stored(m, codec, 5), _queries(repeats, codec.dim)
    got = codec.score(queries, state)
    with without_kernels(m):
        return Outcome([got], [codec.score(queries, state)])


REPEATS = {"one": {"repeats": 1, "bits": 3}, "two": {"repeats": 2, "bits": 4}}


@kernel_cases(MODULE, "turboquant_mse_score_tiled_{repeats}", REPEATS, tolerance=1e-4)
def mse_score(m: ModuleType, repeats: int, bits: int) -> Outcome:
    return _scored(m, m._TurboQuantMSECodec(64, bits, 0), repeats)


@kernel_cases(MODULE, "turboquant_mse_score", {"untiled": {}}, tolerance=1e-4)
def untiled_score(m: ModuleType) -> Outcome:
    """What the wrapper takes where the tiled kernel is absent."""
    with patch.object(m, "_mse_score_tiled_kernel", lambda *_: None):
        return _scored(m, m._TurboQuantMSECodec(48, 3, 0), 2)


@kernel_cases(
    MODULE,
    "turboquant_prod_score{suffix}",
    {
        "one": {"repeats": 1, "bits": 3, "suffix": ""},
        "two": {"repeats": 2, "bits": 4, "suffix": "_repeat_2"},
    },
    tolerance=1e-4,
)
def prod_score(m: ModuleType, repeats: int, bits: int, suffix: str) -> Outcome:
    return _scored(m, m._TurboQuantProdCodec(64, bits, 0), repeats)


@kernel_cases(MODULE, "turboquant_qjl_score", {"one-bit": {}}, tolerance=1e-4)
def sign_score(m: ModuleType) -> Outcome:
    return _scored(m, m._TurboQuantProdCodec(48, 1, 0), 2)


@kernel_cases(
    MODULE,
    "turboquant_polar_turbo_score_4_2_2_2_repeat_{repeats}",
    {"one": {"repeats": 1}, "two": {"repeats": 2}},
    tolerance=1e-4,
)
def polar_score(m: ModuleType, repeats: int) -> Outcome:
    return _scored(m, m._TurboQuantPolarProdCodec(64, 4, 0), repeats)


@kernel_cases(
    MODULE, "turboquant_polar_prod_score_4_2_2 turboquant_qjl_score", {"8-wide": {}}, tolerance=1e-4
)
def polar_score_of_few_levels(m: ModuleType) -> Outcome:
    return _scored(m, m._TurboQuantPolarProdCodec(8, 4, 0), 1)


def _weights(repeats: int, tokens: int) -> mx.array:
    return Data(seed=95).uniform(1, 2, repeats, 1, tokens)


@kernel_cases(
    MODULE,
    "turboquant_mse_weighted_rot{suffix}",
    {"one": {"repeats": 1, "suffix": ""}, "two": {"repeats": 2, "suffix": "_repeat_2"}},
    tolerance=1e-4,
)
def weighted_sum(m: ModuleType, repeats: int, suffix: str) -> Outcome:
    codec = m._TurboQuantMSECodec(32, 3, 0)
    state, weights = _stored(m, codec, 37), _weights(repeats, 37)
    got = codec.weighted_sum(weights, state)
    with without_kernels(m):
        return Outcome([got], [codec.weighted_sum(weights, state)])


@kernel_cases(MODULE, "turboquant_mse_scores_weighted_rot_repeat_2", {"two": {}}, tolerance=1e-4)
def weighted_sum_from_scores(m: ModuleType) -> Outcome:
    codec = m._TurboQuantMSECodec(32, 3, 0)
    state, scores = _stored(m, codec, 37), _weights(2, 37)
    got = codec.weighted_sum_from_scores(scores, state)
    with without_kernels(m):
        return Outcome([got], [codec.weighted_sum_from_scores(scores, state)])


@kernel_cases(
    MODULE, "turboquant_mse_scores_weighted_rot_sum_repeat_2", {"two": {}}, tolerance=1e-4
)
def weighted_sum_stats(m: ModuleType) -> Outcome:
    codec = m._TurboQuantMSECodec(32, 3, 0)
    state, scores = _stored(m, codec, 37), _weights(2, 37)
    got = codec.weighted_sum_stats_from_scores(scores, state)
    with without_kernels(m):
        return Outcome(got, codec.weighted_sum_stats_from_scores(scores, state))


@kernel_cases(MODULE, "turboquant_fused_prod_quantize_4", {"dense": {}}, tolerance=2e-3)
def prod_quantize(m: ModuleType) -> Outcome:
    """One token; compared unpacked, as a sign at zero may fall either way."""
    codec, got, want = _prod_quantized(m, 5, 96)
    with without_kernels(m):
        return Outcome(
            [codec.dequantize(got), got.norms, got.residual_norms],
            [codec.dequantize(want), want.norms, want.residual_norms],
        )


@kernel_cases(MODULE, "turboquant_fused_prod_quantize_2_rht", {"hadamard": {}}, tolerance=2e-3)
def prod_quantize_hadamard(m: ModuleType) -> Outcome:
    """All but the signs: the wrapper projects as if the rotation were the dense one."""
    _, got, want = _prod_quantized(m, 3, 64)
    return Outcome(
        [got.norms, got.mse_indices, got.residual_norms],
        [want.norms, want.mse_indices, want.residual_norms],
    )


@kernel_cases(
    MODULE,
    "turboquant_fused_prod_quantize_4",
    {"ragged": {}},
    tolerance=2e-3,
    flaws=[
        Flaw("threadgroup-race", 80, "shared_signs[d < Dim ? d : 0] = (proj >= 0.0f) ? 1u : 0u;")
    ],
    differs=True,
)
def prod_quantize_ragged(m: ModuleType) -> Outcome:
    """Lanes beyond the width write the first sign, and add to the residual's norm."""
    _, got, want = _prod_quantized(m, 5, 48)
    return Outcome([got.residual_norms], [want.residual_norms])


def _prod_quantized(m: ModuleType, bits: int, dim: int) -> tuple[Any, Any, Any]:
    codec = m._TurboQuantProdCodec(dim, bits, 0)
    vectors = Data(seed=104).normal(1, 2, 1, dim)
    got = codec.quantize(vectors)
    with without_kernels(m):
        return codec, got, codec.quantize(vectors)


def _cache(m: ModuleType, tokens: int, dim: int, bits: float) -> Any:
    """A cache of two heads that was filled without kernels."""
    data = Data(seed=97)
    cache = m.TurboQuantKVCache(bits=bits)
    with without_kernels(m):
        cache.update_and_fetch(data.normal(1, 2, tokens, dim), data.normal(1, 2, tokens, dim))
    return cache


@kernel_cases(
    MODULE, "turboquant_fused_kv_quantize_k3_v3", {"eight-groups": {"dim": 240}}, tolerance=2e-3
)
def cache_one_token(m: ModuleType, dim: int) -> Outcome:
    return _cached_token(m, dim)


@kernel_cases(
    MODULE,
    "turboquant_fused_kv_quantize_k3_v3",
    {"two-groups": {"dim": 48}},
    tolerance=2e-3,
    flaws=[
        Flaw(
            "uninitialized-read",
            27,
            "float total_sq = (sg_id == 0 && sg_lid < 8) ? sg_norms[sg_lid] : 0.0f;",
        )
    ],
)
def cache_one_narrow_token(m: ModuleType, dim: int) -> Outcome:
    """Eight norms are added up, of which as many are written as there are SIMD groups."""
    return _cached_token(m, dim)


def _cached_token(m: ModuleType, dim: int) -> Outcome:
    data = Data(seed=98)
    keys, values = data.normal(1, 2, 1, dim), data.normal(1, 2, 1, dim)
    cache = m.TurboQuantKVCache(bits=3.0)
    cache.update_and_fetch(keys, values)
    with without_kernels(m):
        plain = m.TurboQuantKVCache(bits=3.0)
        plain.update_and_fetch(keys, values)
        return Outcome(cache.dequantize(), plain.dequantize())


def _attended(m: ModuleType, cache: Any, queries: mx.array) -> mx.array:
    """Attention over what the cache stands for, unpacked."""
    with without_kernels(m):
        keys, values = cache.dequantize()
    return mx.fast.scaled_dot_product_attention(
        queries, keys.astype(queries.dtype), values.astype(queries.dtype), scale=0.2, mask=None
    )


def _decoded(m: ModuleType, tokens: int, dim: int) -> Outcome:
    cache = _cache(m, tokens, dim, 3.0)
    queries = Data(seed=99).normal(1, 4, 1, dim)
    got = cache.decode_attention(queries, scale=0.2)
    return Outcome([got], [_attended(m, cache, queries)])


@kernel_cases(MODULE, "turboquant_fused_mse_sdpa_k3_v3_d64", {"one-pass": {}}, tolerance=1e-3)
def decode(m: ModuleType) -> Outcome:
    return _decoded(m, 40, 64)


@kernel_cases(
    MODULE,
    "turboquant_mse_sdpa_2pass1_k3_v3_d32 turboquant_mse_sdpa_2pass2",
    {"long": {}},
    tolerance=1e-3,
)
def decode_in_two_passes(m: ModuleType) -> Outcome:
    return _decoded(m, 2050, 32)


def _grouped(
    m: ModuleType, tokens: int, *, dim: int, heads: int = 2
) -> tuple[Any, mx.array, mx.array]:
    """A cache with keys of the product codec, grouped queries and what must come out."""
    cache = m.TurboQuantKVCache(bits=3.0)
    data = Data(seed=100)
    keys, values = data.normal(1, heads, tokens, dim), data.normal(1, heads, tokens, dim)
    cache.key_codec = m._TurboQuantProdCodec(dim, 3, 0)
    with without_kernels(m):
        cache.update_and_fetch(keys, values)
        queries = data.normal(1, heads, 2, 1, dim, scale=0.2)
        scores = cache.key_codec.score(queries, cache.keys)
        return cache, queries, cache.value_codec.weighted_sum_from_scores(scores, cache.values)


@kernel_cases(
    MODULE,
    "turboquant_prod_score_repeat_2 turboquant_single_tile_value_3_r2",
    {"product-keys": {}},
    tolerance=1e-3,
)
def separate_decode(m: ModuleType) -> Outcome:
    cache, queries, want = _grouped(m, 9, dim=64)
    return Outcome([cache._separate_score_value_decode(queries, *cache.state)], [want])


# The fused decoders rotate densely; a power of two as width would give their codecs Hadamard's
# rotation, which the package then never hands to them.
@kernel_cases(MODULE, "turboquant_fully_fused_3_r2", {"product-keys": {}}, tolerance=1e-3)
def fused_decode(m: ModuleType) -> Outcome:
    cache, queries, want = _grouped(m, 9, dim=48)
    return Outcome([cache._compiled_integer_decode_attention(queries, *cache.state)], [want])


@kernel_cases(
    MODULE,
    "turboquant_fused_integer_{kind}_3_r2",
    {
        "many-tiles": {"kind": "decode", "dim": 48, "heads": 2},
        "single-tile": {"kind": "single_tile", "dim": 240, "heads": 64},
    },
    tolerance=1e-3,
)
def tiled_decode(m: ModuleType, kind: str, dim: int, heads: int) -> Outcome:
    """What the wrapper takes from 32769 tokens on, where its first choice is given up."""
    cache, queries, want = _grouped(m, 3, dim=dim, heads=heads)
    with patch.object(m, "_fully_fused_decode_kernel", lambda *_, **__: None):
        got = cache._compiled_integer_decode_attention(queries, *cache.state)
    return Outcome([got], [want])


@kernel_cases(
    MODULE,
    "mq_prod_score_2_r2_l3 turboquant_single_tile_value_3_r6",
    {"three-queries": {}},
    tolerance=1e-3,
)
def prefill(m: ModuleType) -> Outcome:
    cache, _, _ = _grouped(m, 9, dim=48)
    queries = Data(seed=102).normal(1, 4, 3, 48)
    got = cache.prefill_attention(queries, *cache.state, scale=0.2)
    return Outcome([got], [_attended(m, cache, queries)])


@kernel_cases(MODULE, "turboquant_fused_split_decode_2_3_r2", {"half-bits": {}}, tolerance=1e-3)
def split_decode(m: ModuleType) -> Outcome:
    """Keys and values of two widths each, at 2.5 bits."""
    data = Data(seed=101)
    cache = m.TurboQuantKVCache(bits=2.5, key_bits=2.5, value_bits=2.5)
    keys, values = data.normal(1, 2, 9, 96), data.normal(1, 2, 9, 96)
    queries = data.normal(1, 4, 1, 96)
    with without_kernels(m):
        cache.key_codec = m._build_codec(keys, 2.5, mode="prod", seed=0)
        cache.update_and_fetch(keys, values)
    got = cache.decode_attention(queries, scale=0.2)
    return Outcome([got], [_attended(m, cache, queries)])
