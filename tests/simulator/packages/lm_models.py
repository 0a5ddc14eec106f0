"""Kernels of mlx_lm.models: recurrences, ternary weights and mixing of residuals.

Those that mlx_vlm has as well are here too.
"""

from __future__ import annotations

from types import ModuleType

import mlx.core as mx

from .case import Data, Flaw, Outcome, dtypes, kernel_cases

GATED = "mlx_lm.models.gated_delta"


def gated_inputs(
    dtype: str, head_dim: int, value_dim: int, *, length: int = 3, vector: bool = False
) -> tuple[mx.array, ...]:
    """q, k, v, g, beta, state of two batch rows, two key heads and four value heads."""
    data = Data(dtype, 6)
    batch, keys, values = 2, 1, 2

    def normed() -> mx.array:
        x = data.normal(batch, length, keys, head_dim, dtype=mx.float32)
        return (mx.fast.rms_norm(x, None, 1e-6) * head_dim**-0.5).astype(data.dtype)

    q, k = normed(), normed()
    v = data.normal(batch, length, values, value_dim)
    gates = (batch, length, values, head_dim) if vector else (batch, length, values)
    g = mx.exp(data.uniform(*gates, low=-0.2, high=0.0, dtype=mx.float32))
    beta = data.uniform(batch, length, values)
    state = data.normal(batch, values, value_dim, head_dim, scale=0.3, dtype=mx.float32)
    return q, k, v, g, beta, state


MASK = ((True, True, True), (True, False, False))


def gated_outcome(m: ModuleType, *inputs: mx.array, **settings: int) -> Outcome:
    """The kernel and its fallback."""
    return Outcome(
        m.gated_delta_kernel(*inputs, **settings), m.gated_delta_ops(*inputs, **settings)
    )


def masked_outcome(m: ModuleType, *inputs: mx.array, **settings: int) -> Outcome:
    """Outputs of padded steps are unspecified: the kernel zeros them, the fallback doesn't."""
    both = gated_outcome(m, *inputs, mx.array(MASK), **settings)
    valid = mx.array(MASK)[..., None, None]
    return Outcome(*([mx.where(valid, y, 0), *rest] for y, *rest in (both.got, both.want)))


VECTOR = {"dtype": "float32", "suffix": "_vec"}


@kernel_cases(
    GATED,
    "gated_delta_step{suffix}",
    {
        **dtypes("float32", "float16", "bfloat16", suffix=""),
        "vector": VECTOR,
        "vector-bfloat16": {**VECTOR, "dtype": "bfloat16"},
    },
)
def gated(m: ModuleType, dtype: str, suffix: str) -> Outcome:
    return gated_outcome(m, *gated_inputs(dtype, 64, 8, vector=bool(suffix)))


@kernel_cases(
    GATED,
    "gated_delta_step{suffix}_mask",
    {**dtypes("float32", "bfloat16", suffix=""), "vector": VECTOR},
    flaws=[Flaw("same-value-write", 56, "y[dv_idx] = static_cast<InT>(0);")],
)
def masked(m: ModuleType, dtype: str, suffix: str) -> Outcome:
    return masked_outcome(m, *gated_inputs(dtype, 64, 8, vector=bool(suffix)))


@kernel_cases(GATED, "gated_delta_step_packed_btree", dtypes("float32", "float16", "bfloat16"))
def packed(m: ModuleType, dtype: str) -> Outcome:
    return gated_outcome(m, *gated_inputs(dtype, 128, 16))


@kernel_cases(
    GATED, "gated_delta_step_xtree gated_delta_step_packed_btree", dtypes("float32"), tolerance=0.0
)
def explicit_tree(m: ModuleType, dtype: str) -> Outcome:
    """The package promises the same bits of both."""
    inputs = gated_inputs(dtype, 128, 16)
    return Outcome(m.gated_delta_kernel_xtree(*inputs), m.gated_delta_kernel(*inputs))


@kernel_cases(
    GATED, "gated_delta_step gated_delta_step_packed_btree", dtypes("float32"), tolerance=0.0
)
def unpacked(m: ModuleType, dtype: str) -> Outcome:
    """The same bits, as ``simd_sum`` adds in the order of the written tree on Apple's GPUs."""
    inputs = gated_inputs(dtype, 128, 16)
    return Outcome(m.gated_delta_kernel_unpacked(*inputs), m.gated_delta_kernel(*inputs))


@kernel_cases("mlx_vlm.models.ssm", "ssm_kernel", dtypes("float32"))
@kernel_cases("mlx_lm.models.ssm", "ssm_kernel", dtypes("float32", "float16", "bfloat16"))
def ssm_step(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 7)
    batch, heads, head_dim, groups, width = 2, 4, 8, 2, 64
    inputs = (
        data.normal(batch, 1, heads, head_dim),
        data.uniform(heads, low=-1.0, high=1.0),
        data.normal(batch, 1, groups, width),
        data.normal(batch, 1, groups, width, scale=0.2),
        data.normal(heads),
        data.normal(batch, 1, heads),
        data.normal(heads),
        data.normal(batch, heads, head_dim, width),
    )
    limits = (0.001, 100.0)
    y, state = m.ssm_attn(*inputs, time_step_limit=limits)
    return Outcome(m.ssm_update(*inputs, time_step_limit=limits), [y, state.astype(data.dtype)])


BITLINEAR = {
    "float32": {"dtype": "float32", "invert": False},
    "float32-inverted": {"dtype": "float32", "invert": True},
    "bfloat16": {"dtype": "bfloat16", "invert": False},
}


@kernel_cases("mlx_vlm.models.bitnet.bitlinear", "bitlinear_matmul", BITLINEAR)
@kernel_cases("mlx_lm.models.bitlinear_layers", "bitlinear_matmul", BITLINEAR)
def bitlinear(m: ModuleType, dtype: str, invert: bool) -> Outcome:
    """A packed ternary layer's product and that of its unpacked weights."""
    data = Data(dtype, 8)
    layer = m.BitLinear(128, 16, bias=False, invert_weight_scales=invert)
    layer.weight = data.integers(0, 3, 4, 128, dtype=mx.uint8)
    layer.weight = sum(data.integers(0, 3, 4, 128, dtype=mx.uint8) << (2 * i) for i in range(4))
    layer.weight_scale = mx.array([0.75], dtype=data.dtype)
    x = data.normal(2, 3, 128)
    rows = [((layer.weight >> (2 * i)) & 3).astype(mx.float32) - 1 for i in range(4)]
    scale = 1 / 0.75 if invert else 0.75
    want = (x.astype(mx.float32) @ mx.concatenate(rows).T) * scale
    return Outcome([layer(x)], [want.astype(data.dtype)])


@kernel_cases("mlx_vlm.models.rwkv7.language", "wkv7_kernel", dtypes("float32"))
@kernel_cases("mlx_lm.models.rwkv7", "wkv7_kernel", dtypes("float32", "float16", "bfloat16"))
def wkv7(m: ModuleType, dtype: str) -> Outcome:
    """The kernel over three steps and the package's single step, three times."""
    data = Data(dtype, 9)
    batch, length, heads, dim = 1, 3, 2, 32
    r, k, v, a, b = (data.normal(batch, length, heads, dim, scale=0.3) for _ in range(5))
    w = data.uniform(batch, length, heads, dim, low=0.8)
    state = data.normal(batch, heads, dim, dim, scale=0.3)
    got = m.wkv7_kernel(r, w, k, v, a, b, state)
    ys = []
    last = state.astype(mx.float32)
    for t in range(length):
        step = [x[:, t].astype(mx.float32) for x in (r, w, k, v, a, b)]
        y, last = m._wkv7_step_ops(*step, last)
        ys.append(y)
    want = mx.stack(ys, axis=1).reshape(got[0].shape)
    return Outcome(got, [want.astype(data.dtype), last.astype(data.dtype)])


@kernel_cases("mlx_vlm.models.kimi_k3.language", "attnres_mix", dtypes("bfloat16", blocks=3))
@kernel_cases(
    "mlx_lm.models.kimi_k3",
    "attnres_mix",
    {
        **dtypes("float32", "bfloat16", blocks=3),
        "float32-one": {"dtype": "float32", "blocks": 1},
    },
)
def attention_residual(m: ModuleType, dtype: str, blocks: int) -> Outcome:
    """Mixing of a stream's earlier blocks."""
    data = Data(dtype, 10)
    width = 96
    earlier = m.ResidualBlocks(1e-5)
    for _ in range(blocks):
        earlier.append(data.normal(1, 2, width))
    partial_sum = data.normal(1, 2, width)
    weights = data.normal(width, scale=0.1, dtype=mx.float32)
    got = m._attn_res_mix(earlier, partial_sum, weights, 1e-5)
    want = m._attn_res_mix(earlier, partial_sum, weights, 1e-5, use_kernel=False)
    return Outcome([got], [want])


@kernel_cases(
    "mlx_lm.models.deepseek_v41",
    "deepseek_v41_sinkhorn",
    {"4-streams": {"streams": 4, "iters": 3}, "2-streams": {"streams": 2, "iters": 1}},
)
def sinkhorn(m: ModuleType, streams: int, iters: int) -> Outcome:
    comb = Data(seed=11).uniform(2, 5, streams, streams, low=0.05)
    eps = mx.array([1e-6], dtype=mx.float32)
    got = m._sinkhorn(comb, iters=iters, eps=eps)
    want = comb / (mx.sum(comb, axis=-2, keepdims=True) + eps)
    for _ in range(iters - 1):
        want = want / (mx.sum(want, axis=-1, keepdims=True) + eps)
        want = want / (mx.sum(want, axis=-2, keepdims=True) + eps)
    return Outcome([got], [want])
