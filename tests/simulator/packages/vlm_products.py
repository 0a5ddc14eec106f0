"""mlx_vlm's matrix products: dense rows, one to eight bits a weight, experts chosen by index."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import mlx.core as mx
from mlx import nn

from .case import Data, Outcome, dtypes, kernel_cases, table


def _product(x: mx.array, weight: mx.array) -> mx.array:
    """The product with a transposed weight in float32, rounded once."""
    return (x.astype(mx.float32) @ weight.astype(mx.float32).T).astype(x.dtype)


DENSE = "mlx_vlm.models.exact_speculative_verify"


@kernel_cases(
    DENSE,
    "exact_speculative_verify_gemv",
    {
        **dtypes("float32", "bfloat16", width=128),
        "leftover": {"dtype": "float16", "width": 150},
        "short": {"dtype": "float32", "width": 30},
    },
)
def rows(m: ModuleType, dtype: str, width: int) -> Outcome:
    data = Data(dtype, 60)
    x, weight = data.normal(1, 3, width, scale=0.3), data.normal(12, width, scale=0.3)
    return Outcome([m.exact_speculative_verify_weight(weight, x)], [_product(x, weight)])


@kernel_cases(
    DENSE,
    "exact_speculative_verify_switch_gemv",
    {
        "shared-input": {"dtype": "float16", "broadcast": True},
        "own-input": {"dtype": "float32", "broadcast": False},
    },
)
def experts(m: ModuleType, dtype: str, broadcast: bool) -> Outcome:
    data = Data(dtype, 61)
    weight = data.normal(5, 8, 100, scale=0.3)
    chosen = data.integers(0, 5, 1, 3, 2)
    shape = (1, 3, 100) if broadcast else (1, 3, 2, 100)
    x = data.normal(*shape, scale=0.3)
    got = m.exact_speculative_verify_switch_weight(weight, x, chosen)
    wide = x[..., None, :] if broadcast else x
    picked = weight[chosen].astype(mx.float32)
    want = (picked @ wide.astype(mx.float32)[..., None]).squeeze(-1)
    return Outcome([got], [want.astype(x.dtype)])


NEMOTRON = "mlx_vlm.models.nemotron_labs_diffusion.language"


@kernel_cases(NEMOTRON, "nemotron_small_row_gemv", dtypes("float32", "bfloat16"))
def small_rows(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 62)
    linear = nn.Linear(140, 8, bias=True)
    linear.weight, linear.bias = data.normal(8, 140, scale=0.3), data.normal(8)
    x = data.normal(1, 3, 140, scale=0.3)
    return Outcome([m._small_row_linear(linear, x, 8)], [_product(x, linear.weight) + linear.bias])


@kernel_cases(NEMOTRON, "nemotron_small_row_swiglu", dtypes("float32", "float16"))
def small_row_swiglu(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 63)
    gate, up = nn.Linear(140, 8, bias=False), nn.Linear(140, 8, bias=False)
    gate.weight, up.weight = (data.normal(8, 140, scale=0.3) for _ in range(2))
    x = data.normal(1, 3, 140, scale=0.3)
    g, u = (_product(x, linear.weight).astype(mx.float32) for linear in (gate, up))
    want = (g * mx.sigmoid(g) * u).astype(x.dtype)
    return Outcome([m._small_row_swiglu(gate, up, x, 8)], [want])


@kernel_cases(NEMOTRON, "nemotron_bm32_steel_linear_nt", dtypes("bfloat16"))
def steel(m: ModuleType, dtype: str) -> Outcome:
    """MLX's own GEMM headers, pasted into the kernel's header by the package."""
    data = Data(dtype, 64)
    linear = nn.Linear(48, 64, bias=False)
    linear.weight = data.normal(64, 48, scale=0.3)
    x = data.normal(1, 32, 48, scale=0.3)
    return Outcome([m._bm32_linear(linear, x)], [_product(x, linear.weight)])


ONE_BIT = "mlx_vlm.quantization.one_bit"


@kernel_cases(
    ONE_BIT,
    "mlx_vlm_affine_1bit_qmv_gs_{group}_rows_{per_group}_aligned_{aligned}",
    table(
        "name            dtype     outputs  group  per_group  aligned",
        "float32         float32   16       64     4          1",
        "float16-ragged  float16   13       32     4          0",
        "bfloat16-wide   bfloat16  80       128    8          1",
    ),
    tolerance=2e-2,
)
# Products by ``simdgroup_multiply_accumulate``, elements placed lane by lane.
@kernel_cases(
    ONE_BIT,
    "mlx_vlm_affine_1bit_qmm_gs_{group}",
    table(
        "name            dtype     outputs  group  n_rows  width",
        "float32-matrix  float32   32       64     20      512",
        "float16-matrix  float16   40       128    20      512",
    ),
    tolerance=2e-2,
)
def one_bit(
    m: ModuleType, dtype: str, outputs: int, group: int, n_rows: int = 2, width: int = 128, **_: int
) -> Outcome:
    data = Data(dtype, 65)
    x = data.normal(n_rows, width, scale=0.2)
    weight = data.integers(0, 2**32, outputs, width // 32)
    scales = data.uniform(outputs, width // group, low=0.5, high=1.0)
    biases = data.normal(outputs, width // group, scale=0.3)
    got = m.one_bit_quantized_matmul(x, weight, scales, biases, group_size=group)
    wide = [a.astype(mx.float32) for a in (scales, biases)]
    dense = m.dequantize_one_bit(weight, *wide, group)
    return Outcome([got], [_product(x, dense)])


def _quantized(data: Data, inputs: int, outputs: int, **how: Any) -> nn.QuantizedLinear:
    linear = nn.Linear(inputs, outputs, bias=False)
    linear.weight = data.normal(outputs, inputs, scale=0.2)
    return nn.QuantizedLinear.from_linear(linear, **how)


def _dense(linear: nn.Module) -> mx.array:
    """The weight that a quantized layer stands for, in float32."""
    biases = linear.get("biases")
    rest = (
        (linear.scales, biases)
        if biases is None
        else (linear.scales.astype(mx.float32), biases.astype(mx.float32))
    )
    return mx.dequantize(
        linear.weight, *rest, group_size=linear.group_size, bits=linear.bits, mode=linear.mode
    ).astype(mx.float32)


HEAD = "mlx_vlm.models.glm_moe_dsa.speculative_verifier"


@kernel_cases(
    HEAD,
    "glm_moe_dsa_target_verify_qmv_b{bits}_gs64_t2_k512_n16_{short}",
    {
        "4-bit": {"dtype": "float16", "bits": 4},
        "5-bit": {"dtype": "bfloat16", "bits": 5},
        "8-bit": {"dtype": "float16", "bits": 8},
    },
)
def quantized_head(m: ModuleType, dtype: str, bits: int) -> Outcome:
    data = Data(dtype, 66)
    linear = _quantized(data, 512, 16, bits=bits, group_size=64)
    x = data.normal(1, 2, 512, scale=0.3)
    return Outcome([m._quantized_head_logits(linear, x)], [_product(x, _dense(linear))])


VERIFIER = "mlx_vlm.models.quantized_verifier"


def _argmax(logits: mx.array) -> mx.array:
    return mx.argmax(logits, axis=-1).astype(mx.int32)


@kernel_cases(
    VERIFIER,
    "quantized_verify_affine_qmv{kind}_b{bits}_gs64_t{length}_k512_n16_fp16",
    {
        "4-bit": {"dtype": "float16", "bits": 4, "length": 2, "kind": ""},
        "5-bit": {"dtype": "float16", "bits": 5, "length": 2, "kind": ""},
        "8-bit": {"dtype": "float16", "bits": 8, "length": 2, "kind": ""},
        "streamed": {"dtype": "float16", "bits": 4, "length": 6, "kind": "_streamed"},
        "token-tiled": {"dtype": "float16", "bits": 4, "length": 9, "kind": "_token_tiled"},
    },
)
def verify(m: ModuleType, dtype: str, bits: int, length: int, kind: str) -> Outcome:
    data = Data(dtype, 67)
    linear = _quantized(data, 512, 16, bits=bits, group_size=64)
    x = data.normal(1, length, 512, scale=0.3)
    return Outcome([m.optimized_affine_linear(linear, x)], [_product(x, _dense(linear))])


@kernel_cases(
    VERIFIER,
    "quantized_verify_affine_{masked}qargmax{kind}_b4_gs64_t{length}_k512_n16_fp16",
    table(
        "name                dtype    length  kind          masked",
        "plain               float16  2       -             -",
        "masked              float16  2       -             masked_",
        "streamed            float16  6       _streamed     -",
        "masked-streamed     float16  6       _streamed     masked_",
        "token-tiled         float16  9       _token_tiled  -",
        "masked-token-tiled  float16  9       _token_tiled  masked_",
    ),
)
def verify_argmax(m: ModuleType, dtype: str, length: int, kind: str, masked: str) -> Outcome:
    data = Data(dtype, 68)
    linear = _quantized(data, 512, 16, bits=4, group_size=64)
    x = data.normal(1, length, 512, scale=0.3)
    logits = _product(x, _dense(linear))
    if not masked:
        return Outcome([m.optimized_affine_argmax(linear, x)], [_argmax(logits)])
    mask = data.integers(1, 2**16, length, 1, dtype=mx.int32)
    allowed = ((mask >> mx.arange(16)) & 1).astype(mx.bool_)
    got = m.optimized_affine_argmax(linear, x, mask)
    return Outcome([got], [_argmax(mx.where(allowed, logits[0], -mx.inf)[None])])


@kernel_cases(
    VERIFIER,
    "quantized_verify_affine_fused_qmv{kind}_b4_gs64_t{length}_k512_n16_8_fp16",
    {
        "two-layers": {"dtype": "float16", "length": 2, "kind": ""},
        "streamed": {"dtype": "float16", "length": 6, "kind": "_streamed"},
    },
)
def verify_layers(m: ModuleType, dtype: str, length: int, kind: str) -> Outcome:
    data = Data(dtype, 75)
    layers = [_quantized(data, 512, outputs, bits=4, group_size=64) for outputs in (16, 8)]
    x = data.normal(1, length, 512, scale=0.3)
    want = [_product(x, _dense(layer)) for layer in layers]
    return Outcome(m.optimized_affine_linears(layers, x), want)


@kernel_cases(
    VERIFIER,
    "quantized_verify_nvfp4_argmax_t2_k64_n16_{short}",
    dtypes("float16", "bfloat16"),
)
def nvfp4_argmax(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 69)
    linear = _quantized(data, 64, 16, bits=4, group_size=16, mode="nvfp4")
    x = data.normal(1, 2, 64)
    want = _argmax(_product(x, _dense(linear)))
    return Outcome([m.optimized_nvfp4_argmax(linear, x)], [want])


def _switch(data: Data, inputs: int, outputs: int, **how: Any) -> Any:
    from mlx_vlm.models.switch_layers import SwitchLinear

    layer = SwitchLinear(inputs, outputs, 3, bias=False)
    layer.weight = data.normal(3, outputs, inputs, scale=0.2)
    return layer.to_quantized(**how)


def _selected(x: mx.array, dense: mx.array, chosen: mx.array) -> mx.array:
    """The products of each row with its chosen experts' weights, rounded once."""
    return (dense[chosen] @ x.astype(mx.float32)[..., None]).squeeze(-1).astype(x.dtype)


FAST = "mlx_vlm.models.fast_ops"


@kernel_cases(
    FAST,
    "short_block_affine{bits}_switch_gate_up_{short}_t3_k512_n8_e2_g64",
    {
        "4-bit": {"dtype": "float16", "bits": 4},
        "5-bit": {"dtype": "bfloat16", "bits": 5},
    },
)
def switch_gate_up(m: ModuleType, dtype: str, bits: int) -> Outcome:
    data = Data(dtype, 70)
    up, gate = (_switch(data, 512, 8, bits=bits, group_size=64) for _ in range(2))
    x = data.normal(1, 3, 512, scale=0.3)
    chosen = mx.array([[[0, 1], [2, 0], [1, 2]]], dtype=mx.uint32)
    got = m.exact_affine_switch_gate_up(SimpleNamespace(up_proj=up, gate_proj=gate), x, chosen)
    wide = mx.broadcast_to(x[..., None, :], (1, 3, 2, 512))
    return Outcome(got, [_selected(wide, _dense(layer), chosen) for layer in (up, gate)])


@kernel_cases(
    FAST,
    "short_block_affine{bits}_moe_down_{short}_t2_k512_n8_e2_g64",
    {
        "4-bit": {"dtype": "float16", "bits": 4},
        "5-bit": {"dtype": "bfloat16", "bits": 5},
    },
)
def moe_down(m: ModuleType, dtype: str, bits: int) -> Outcome:
    data = Data(dtype, 71)
    down = _switch(data, 512, 8, bits=bits, group_size=64)
    x, shared = data.normal(1, 2, 2, 512, scale=0.3), data.normal(1, 2, 8)
    chosen = mx.array([[[0, 2], [2, 1]]], dtype=mx.uint32)
    weights = data.uniform(1, 2, 2, dtype=mx.float32)
    got = m.exact_affine_moe_down(down, x, chosen, weights, shared)
    routed = _selected(x, _dense(down), chosen) * weights.astype(x.dtype)[..., None]
    return Outcome([got], [routed.sum(-2) + shared])


def _streams(data: Data, width: int) -> tuple[mx.array, mx.array, mx.array]:
    """Four residual streams of two tokens, and what spreads and mixes them."""
    f = mx.float32
    return (
        data.normal(1, 2, 4, width),
        data.uniform(1, 2, 4, dtype=f),
        data.uniform(1, 2, 4, 4, dtype=f),
    )


def _expanded(y: mx.array, residual: mx.array, post: mx.array, comb: mx.array) -> mx.array:
    """A branch's output spread over the residual streams."""
    spread = post[..., None] * y[..., None, :].astype(mx.float32)
    mixed = comb.swapaxes(-1, -2) @ residual.astype(mx.float32)
    return (spread + mixed).astype(residual.dtype)


@kernel_cases(
    VERIFIER,
    "quantized_verify_fused_{mode}{bits}_moe_hc_{short}_t2_k{width}_n8_e2_h4_g{group}",
    table(
        "name      dtype     mode    bits  width  group",
        "affine-4  float16   affine  4     512    64",
        "affine-8  bfloat16  affine  8     512    64",
        "mxfp4     float16   mxfp4   4     512    32",
        "nvfp4     float16   nvfp4   4     512    16",
    ),
)
def fused_moe(m: ModuleType, dtype: str, mode: str, bits: int, width: int, group: int) -> Outcome:
    data = Data(dtype, 72)
    down = _switch(data, width, 8, bits=bits, group_size=group, mode=mode)
    x, shared = data.normal(1, 2, 2, width, scale=0.3), data.normal(1, 2, 8)
    chosen = mx.array([[[0, 2], [2, 1]]], dtype=mx.uint32)
    weights = data.uniform(1, 2, 2, dtype=mx.float32)
    streams = _streams(data, 8)
    got = m.exact_quantized_moe_hc_expand(down, x, chosen, weights, shared, *streams)
    routed = _selected(x, _dense(down), chosen) * weights.astype(x.dtype)[..., None]
    return Outcome([got], [_expanded(routed.sum(-2) + shared, *streams)])


@kernel_cases(
    VERIFIER,
    "quantized_verify_moe_hc_expand_{short}_r2_h4_d16_e2",
    dtypes("float16", "bfloat16"),
)
def moe_expand(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 73)
    routed, shared = data.normal(1, 2, 2, 16), data.normal(1, 2, 16)
    weights = data.uniform(1, 2, 2, dtype=mx.float32)
    streams = _streams(data, 16)
    got = m.exact_quantized_moe_hc_expand(
        None, None, None, weights, shared, *streams, routed=routed
    )
    y = (routed * weights.astype(routed.dtype)[..., None]).sum(-2) + shared
    return Outcome([got], [_expanded(y, *streams)])


@kernel_cases(
    "mlx_vlm.models.inkling.language",
    "inkling_moe_route inkling_moe_down_combine",
    dtypes("float16", "bfloat16"),
    tolerance=4e-2,
)
def inkling_moe(m: ModuleType, dtype: str) -> Outcome:
    """A whole block of experts, against the same block without its two kernels."""
    data = Data(dtype, 74)
    config = SimpleNamespace(
        n_routed_experts=6,
        n_shared_experts=1,
        num_experts_per_tok=2,
        route_scale=1.5,
        intermediate_size=2048,
        hidden_size=64,
    )
    moe = m.InklingSparseMoE(config)
    moe.set_dtype(data.dtype)
    moe.gate_weight = data.normal(7, 64, scale=0.3)
    moe.e_score_correction_bias = data.normal(6, scale=0.1, dtype=mx.float32)
    for name, bits in (("up_proj", 8), ("gate_proj", 8), ("down_proj", 4)):
        layer = getattr(moe.switch_mlp, name)
        setattr(moe.switch_mlp, name, layer.to_quantized(group_size=64, bits=bits))
    x = data.normal(1, 2, 64)
    got = moe(x)
    logits = x.reshape(2, 64) @ moe.gate_weight.T
    scores = mx.sigmoid(logits[:, :6].astype(mx.float32)) + moe.e_score_correction_bias
    chosen = mx.argsort(-scores, axis=-1)[:, :2]
    picked = [mx.take_along_axis(logits[:, :6], chosen, axis=-1), logits[:, 6:]]
    weights = mx.softmax(
        -mx.logaddexp(mx.array(0.0), -mx.concatenate(picked, -1).astype(mx.float32)), axis=-1
    )
    weights = (weights * config.route_scale).astype(x.dtype)
    routed = (moe.switch_mlp(x.reshape(2, 64), chosen) * weights[:, :2, None]).sum(-2)
    shared = moe.shared_experts(x.reshape(2, 64), mx.repeat(weights[:, 2:], 2048, axis=-1))
    return Outcome([got], [(routed + shared).reshape(x.shape)])
