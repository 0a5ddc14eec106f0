"""mlx_vlm's mixing of streams, biases by distance and fused rotations."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import mlx.core as mx
from mlx import nn

from .case import Data, Flaw, Outcome, dtypes, kernel_cases, table

HALVES = dtypes("float16", "bfloat16")
HYPER = "mlx_vlm.models.deepseek_v4.hyper_connection"
FAST = "mlx_vlm.models.fast_ops"


def _mixes(data: Data) -> tuple[mx.array, mx.array, mx.array]:
    """Mixes of two tokens, scale and base of four streams."""
    return tuple(data.normal(*shape, dtype=mx.float32) for shape in ((1, 2, 24), (3,), (24,)))


@kernel_cases(
    HYPER, "hc_sinkhorn_split", {"3-rounds": {"iters": 3}, "1-round": {"iters": 1}}, tolerance=1e-4
)
def split(m: ModuleType, iters: int) -> Outcome:
    inputs = (*_mixes(Data(seed=80)), 4, iters, 1e-6)
    return Outcome(m.hc_split_sinkhorn(*inputs), m._hc_split_sinkhorn_ops(*inputs))


# The preprocessor takes the template's D for 0, and so drops the loop over the tail. Rows of 70
# floats are seen as vectors of 4, and every other row does not begin at 16 bytes.
@kernel_cases(
    HYPER,
    "hc_sinkhorn_collapse",
    {"tail": {"dtype": "float32", "width": 70}},
    flaws=[
        Flaw("unwritten-output", 0, ""),
        Flaw("misaligned-access", 107, "float4 x1 = float4(x_row1[d4]);"),
        Flaw("misaligned-access", 109, "float4 x3 = float4(x_row3[d4]);"),
        Flaw("misaligned-access", 115, "out4[d4] = U4(result);"),
    ],
    differs=True,
)
@kernel_cases(
    HYPER,
    "hc_sinkhorn_collapse",
    dtypes("float32", "float16", "bfloat16", width=64),
    tolerance=2e-2,
)
def collapse(m: ModuleType, dtype: str, width: int) -> Outcome:
    data = Data(dtype, 81)
    x = data.normal(1, 2, 4, width)
    y = x.astype(mx.float32)
    inputs = (x, y, *_mixes(data), 4, 3, 1e-6)
    return Outcome(m._hc_kernel(*inputs), m._hc_ops(*inputs))


def _connection(data: Data, **more: Any) -> SimpleNamespace:
    scale, base = (data.normal(n, dtype=mx.float32) for n in (3, 24))
    return SimpleNamespace(
        scale=scale, base=base, sinkhorn_iters=3, hc_eps=1e-6, norm_eps=1e-6, **more
    )


def _normed(
    x: mx.array, mixes: mx.array, connection: SimpleNamespace, norm: nn.RMSNorm
) -> list[mx.array]:
    """Collapse by the package's fallback, then the norm."""
    from mlx_vlm.models.deepseek_v4.hyper_connection import _hc_ops

    c = connection
    rest = (mixes, c.scale, c.base, 4, c.sinkhorn_iters, c.hc_eps)
    collapsed, post, comb = _hc_ops(x, x.astype(mx.float32), *rest)
    return [norm(collapsed), post, comb]


@kernel_cases(FAST, "short_block_hc_norm_{short}_h4_d136_i3_he1000_ne1000", HALVES, tolerance=2e-2)
def hyper_norm(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 82)
    connection, norm = _connection(data), nn.RMSNorm(136, eps=1e-6)
    norm.weight = data.uniform(136, low=0.5, high=1.5)
    x, mixes = data.normal(1, 2, 4, 136), data.normal(1, 2, 24, dtype=mx.float32)
    got = m.exact_hc_norm(connection, norm, x, mixes)
    return Outcome(got, _normed(x, mixes, connection, norm))


@kernel_cases(
    FAST,
    "short_block_hc_normalized_norm_{short}_{short}_h4_d4096_i3_he1000_ne1000",
    {"float16": HALVES["float16"]},
    tolerance=2e-2,
)
def hyper_normalized(m: ModuleType, dtype: str) -> Outcome:
    """The only width that the wrapper lets through is 4096."""
    data = Data(dtype, 83)
    connection = _connection(data, fn=data.normal(24, 4 * 4096, scale=0.02))
    norm = nn.RMSNorm(4096, eps=1e-6)
    norm.weight = data.uniform(4096, low=0.5, high=1.5)
    x = data.normal(1, 1, 4, 4096)
    got = m.exact_hc_normalized_norm(connection, norm, x)
    flat = mx.fast.rms_norm(x.astype(mx.float32).flatten(-2), None, 1e-6)
    mixes = flat @ connection.fn.astype(mx.float32).T
    return Outcome(got, _normed(x, mixes, connection, norm))


@kernel_cases(FAST, "short_block_hc_expand_{short}_r2_h4_d24", HALVES)
def expand(m: ModuleType, dtype: str) -> Outcome:
    """Four streams mixed by one 8 by 8 ``simdgroup_multiply_accumulate`` a tile."""
    data = Data(dtype, 84)
    inputs = (
        data.normal(1, 2, 24),
        data.normal(1, 2, 4, 24),
        data.uniform(1, 2, 4, dtype=mx.float32),
        data.uniform(1, 2, 4, 4, dtype=mx.float32),
    )
    from mlx_vlm.models.deepseek_v4.hyper_connection import _hc_expand_op

    return Outcome([m.exact_hc_expand(*inputs)], [_hc_expand_op(*inputs)])


INKLING = "mlx_vlm.models.inkling.language"


@kernel_cases(
    INKLING,
    "inkling_banded_mask{version}",
    table(
        "name               dtype     sliding  version",
        "sliding            float32   8        -",
        "causal             bfloat16  0        -",
        "sliding-of-shapes  float32   8        _v2",
        "causal-of-shapes   float16   0        _v2",
    ),
)
def banded_mask(m: ModuleType, dtype: str, sliding: int, version: str) -> Outcome:
    data = Data(dtype, 85)
    rel, proj = data.normal(2, 3, 2, 8), data.normal(8, 6)
    inputs = (rel, proj, 9, 12, sliding, 6)
    got = m.banded_additive_mask(*inputs, shape_ref=data.normal(2, 1, 12, 4) if version else None)
    scores = (rel.astype(mx.float32) @ proj.astype(mx.float32)).transpose(0, 2, 1, 3)
    dist = (mx.arange(3) + 9)[:, None] - mx.arange(12)[None, :]
    nearest = mx.broadcast_to(mx.clip(dist, 0, 5)[None, None], (2, 2, 3, 12))
    want = mx.where(dist >= 6, 0.0, mx.take_along_axis(scores, nearest, axis=-1))
    hidden = (dist < 0) | (dist >= sliding) if sliding else dist < 0
    # -1e30 is the package's minus infinity; it overflows to it in float16.
    return Outcome([got], [mx.where(hidden, -1e30, want).astype(rel.dtype)])


@kernel_cases(
    INKLING,
    "inkling_sconv_decode",
    {
        "residual": {"dtype": "float32", "residual": True},
        "bfloat16": {"dtype": "bfloat16", "residual": False},
    },
)
def short_convolution(m: ModuleType, dtype: str, residual: bool) -> Outcome:
    data = Data(dtype, 86)
    layer = m.InklingShortConvolution(40, 4, 0)
    layer.conv.weight = data.normal(40, 4, 1)
    x, state = data.normal(2, 2, 40), data.normal(2, 3, 40, dtype=mx.float32)
    added = data.normal(2, 2, 40) if residual else None
    cache, plain = [state], [state]
    got = layer(x, cache, residual=added)
    # A mask that hides nothing keeps the layer off its kernel.
    want = layer(x, plain, mask=mx.ones((2, 2), dtype=mx.bool_), residual=added)
    return Outcome([got, cache[0]], [want, plain[0]])


@kernel_cases(
    INKLING,
    "inkling_moe_route",
    {
        "one-each": {"dtype": "float32", "experts": 20},
        "several-a-lane": {"dtype": "bfloat16", "experts": 70},
    },
)
def route(m: ModuleType, dtype: str, experts: int) -> Outcome:
    data = Data(dtype, 87)
    bias = data.normal(experts, scale=0.1, dtype=mx.float32)
    logits = data.normal(3, experts + 2)
    block = SimpleNamespace(
        e_score_correction_bias=bias,
        n_routed=experts,
        n_shared=2,
        top_k=4,
        intermediate_size=8,
        route_scale=1.5,
        global_scale=mx.ones((1,)),
        _wscale=None,
    )
    got = m.InklingSparseMoE._route(block, logits)
    wide = logits.astype(mx.float32)
    chosen = mx.argsort(-(mx.sigmoid(wide[:, :experts]) + bias), axis=-1)[:, :4]
    picked = mx.concatenate(
        [mx.take_along_axis(wide[:, :experts], chosen, axis=-1), wide[:, experts:]], axis=-1
    )
    weights = mx.softmax(-mx.logaddexp(mx.array(0.0), -picked), axis=-1) * 1.5
    weights = weights.astype(logits.dtype)
    return Outcome(got, [chosen, weights[:, :4], mx.repeat(weights[:, 4:], 8, axis=-1)])


FLUX = "mlx_vlm.models.bonsai.klein_fast.blocks"


def _rotated(x: mx.array, weight: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Norm over the heads' width, then interleaved rotation; (batch, heads, tokens, width)."""
    normed = mx.fast.rms_norm(x.astype(mx.float32), weight.astype(mx.float32), 1e-6)
    even, odd = normed[..., 0::2], normed[..., 1::2]
    cos, sin = cos.astype(mx.float32), sin.astype(mx.float32)
    pairs = mx.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1)
    return pairs.flatten(-2).astype(x.dtype)


SPEC = SimpleNamespace(dim=128, num_heads=2, head_dim=64, qkv_mlp_out_dim=400, rms_norm_eps=1e-6)


def _launched(kernel: Any, inputs: list[mx.array], *, tokens: int) -> list[mx.array]:
    """A kernel of the module's factories, launched as its blocks do."""
    return kernel(
        inputs=inputs,
        template=[("T", inputs[0].dtype)],
        grid=(tokens * 2 * 32, 1, 1),
        threadgroup=(32, 1, 1),
        output_shapes=[(1, 2, tokens, 64)] * 3,
        output_dtypes=[inputs[0].dtype] * 3,
    )


def _heads(qkv: mx.array, part: int) -> mx.array:
    batch, tokens, _ = qkv.shape
    x = qkv[..., 128 * part : 128 * (part + 1)].reshape(batch, tokens, 2, 64)
    return x.transpose(0, 2, 1, 3)


@kernel_cases(
    FLUX, "flux2_fused_single_norm_rope_3_128_2_64_400_1en06", dtypes("float32", "bfloat16")
)
def flux_single(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 88)
    fused = data.normal(1, 3, 400)
    weights = [data.uniform(64, low=0.5, high=1.5) for _ in range(2)]
    cos, sin = (data.uniform(3, 32, low=-1.0) for _ in range(2))
    kernel = m._get_fused_single_norm_rope_kernel(SPEC, 3)
    got = _launched(kernel, [fused, *weights, cos, sin], tokens=3)
    q, k, v = (_heads(fused, part) for part in range(3))
    rotated = [_rotated(x, weight, cos, sin) for x, weight in zip((q, k), weights, strict=True)]
    return Outcome(got, [*rotated, v])


@kernel_cases(FLUX, "flux2_fused_double_norm_rope_3_2_128_2_64_1en06", dtypes("bfloat16"))
def flux_double(m: ModuleType, dtype: str) -> Outcome:
    """Text before picture, each with norms of its own."""
    data = Data(dtype, 89)
    picture, text = data.normal(1, 3, 384), data.normal(1, 2, 384)
    weights = [data.uniform(64, low=0.5, high=1.5) for _ in range(4)]
    cos, sin = (data.uniform(5, 32, low=-1.0) for _ in range(2))
    kernel = m._get_fused_double_norm_rope_kernel(SPEC, 3, 2)
    got = _launched(kernel, [picture, text, *weights, cos, sin], tokens=5)

    def both(part: int) -> mx.array:
        parts = [
            _rotated(_heads(x, part), weights[part + own], cos[at], sin[at])
            for x, own, at in ((text, 2, slice(0, 2)), (picture, 0, slice(2, 5)))
        ]
        return mx.concatenate(parts, axis=2)

    values = mx.concatenate([_heads(text, 2), _heads(picture, 2)], axis=2)
    return Outcome(got, [both(0), both(1), values])
