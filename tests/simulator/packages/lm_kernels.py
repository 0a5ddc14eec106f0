"""mlx_lm.kernels: fused norms, rotations and routing, compared as the package's own tests do."""

from __future__ import annotations

from types import ModuleType

import mlx.core as mx
from mlx import nn

from .case import Data, Outcome, dtypes, kernel_cases

MODULE = "mlx_lm.kernels"
#: mlx-vlm carries the same texts; here with types and widths of their own.
COPY = "mlx_vlm.kernels"


def _qk(dtype: str, head_dim: int) -> tuple[mx.array, dict[str, float]]:
    sizes = {"n_heads": 4, "n_kv_heads": 2, "head_dim": head_dim, "eps": 1e-5, "query_scale": 4.9}
    return Data(dtype, 1).normal(2, 3, 2 * 6 * head_dim, scale=2.0), sizes


def _qk_reference(qkvg: mx.array, head_dim: int) -> tuple[mx.array, mx.array]:
    q, k = mx.split(qkvg[..., : 6 * head_dim], [4 * head_dim], axis=-1)
    q = mx.fast.rms_norm(q.reshape(2, 3, 4, head_dim), None, 1e-5).astype(mx.float32) * 4.9
    k = mx.fast.rms_norm(k.reshape(2, 3, 2, head_dim), None, 1e-5)
    return q.astype(qkvg.dtype), k


@kernel_cases(COPY, "qk_norm", {"narrow": {"dtype": "float16", "head_dim": 24}})
@kernel_cases(
    MODULE,
    "qk_norm",
    {
        **dtypes("float32", "float16", "bfloat16", head_dim=80),
        "narrow": {"dtype": "float32", "head_dim": 24},
    },
)
def qk_norm(m: ModuleType, dtype: str, head_dim: int) -> Outcome:
    qkvg, sizes = _qk(dtype, head_dim)
    return Outcome(m.qk_norm(qkvg, **sizes), _qk_reference(qkvg, head_dim))


@kernel_cases(COPY, "qk_norm_rope", {"offset": {"dtype": "float16", "offset": 7}})
@kernel_cases(
    MODULE,
    "qk_norm_rope",
    {
        "float32-offset": {"dtype": "float32", "offset": 7},
        "float32-offsets": {"dtype": "float32", "offset": (3, 11)},
        "bfloat16-offset": {"dtype": "bfloat16", "offset": 7},
        "bfloat16-offsets": {"dtype": "bfloat16", "offset": (3, 11)},
    },
)
def qk_norm_rope(m: ModuleType, dtype: str, offset: int | tuple[int, ...]) -> Outcome:
    qkvg, sizes = _qk(dtype, 80)
    at = offset if isinstance(offset, int) else mx.array(offset)
    got = m.qk_norm_rope(qkvg, **sizes, rope_base=10000.0, offset=at)

    def rotate(x: mx.array) -> mx.array:
        turned = mx.fast.rope(
            x.swapaxes(1, 2).astype(mx.float32),
            80,
            traditional=True,
            base=10000.0,
            scale=1.0,
            offset=at,
        )
        return turned.swapaxes(1, 2).astype(x.dtype)

    return Outcome(got, [rotate(x) for x in _qk_reference(qkvg, 80)])


@kernel_cases(COPY, "expert_routing", {"70-experts": {"experts": 70, "k": 2}})
@kernel_cases(
    MODULE,
    "expert_routing",
    {"40-experts": {"experts": 40, "k": 4}, "32-experts": {"experts": 32, "k": 1}},
)
def expert_routing(m: ModuleType, experts: int, k: int) -> Outcome:
    data = Data(seed=2)
    logits = data.normal(2, 3, experts, scale=2.0)
    bias = data.normal(experts, scale=0.1)
    got = m.expert_routing(logits, bias, top_k=k, multiplier=0.7, score_eps=1e-2, route_scale=2.5)
    scores = mx.sigmoid(logits * 0.7)
    chosen = mx.argsort(-(scores + bias), axis=-1)[..., :k]
    weights = mx.take_along_axis(scores, chosen, axis=-1)
    weights = weights / (weights.sum(-1, keepdims=True) + 1e-2) * 2.5
    return Outcome(got, [chosen, weights])


@kernel_cases(COPY, "post_expert_norm_combine", {"wider": {"width": 1030}})
@kernel_cases(
    MODULE,
    "post_expert_norm_combine",
    {"wide": {"width": 1000}, "one-simdgroup-pair": {"width": 60}},
)
def post_expert_norm_combine(m: ModuleType, width: int) -> Outcome:
    data = Data(seed=3)
    experts = data.normal(1, 2, 3, width, scale=3.0)
    weights = data.uniform(1, 2, 3, low=0.1)
    norm_weight = data.uniform(width, low=0.5, high=1.5)
    got = m.post_expert_norm_combine(experts, weights, norm_weight=norm_weight, eps=1e-6)
    normed = mx.fast.rms_norm(norm_weight * experts, None, 1e-6)
    return Outcome([got], [(normed * weights[..., None]).sum(axis=-2)])


@kernel_cases(COPY, "rms_norm_sigmoid_gate", dtypes("float32"))
@kernel_cases(MODULE, "rms_norm_sigmoid_gate", dtypes("float32", "float16", "bfloat16"))
def rms_norm_sigmoid_gate(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 4)
    batch, length, heads, dim = 2, 3, 3, 80
    # Strided both, as the attention hands them over.
    x = data.normal(batch, length, heads, dim).transpose(0, 2, 1, 3)
    gate = data.normal(batch, length, 2 * heads * dim, scale=2.0)[..., heads * dim :]
    got = m.rms_norm_sigmoid_gate(x, gate, eps=1e-5)
    normed = mx.fast.rms_norm(x.astype(mx.float32), None, 1e-5).transpose(0, 2, 1, 3)
    want = normed.reshape(batch, length, heads * dim) * mx.sigmoid(gate.astype(mx.float32))
    return Outcome([got], [want.astype(x.dtype)])


def _norm_inputs(dtype: str, width: int) -> tuple[dict[str, mx.array], mx.array, nn.RMSNorm]:
    data = Data(dtype, 5)
    branch = data.normal(1, 2, width, scale=3.0)
    norm = nn.RMSNorm(width, eps=1e-5)
    norm.weight = data.uniform(width, low=0.5, high=1.5)
    rest = {
        "stream": data.normal(1, 2, width, scale=2.0, dtype=mx.float32),
        "alpha": data.uniform(width, low=0.5, high=1.5, dtype=mx.float32),
        "beta": data.uniform(width, dtype=mx.float32),
    }
    return {"branch": branch, **rest}, data.uniform(width, low=0.5, high=1.5), norm


@kernel_cases(COPY, "norm_add_norm", dtypes("float16", width=520))
@kernel_cases(
    MODULE,
    "norm_add_norm",
    {**dtypes("float32", "bfloat16", width=520), "narrow": {"dtype": "float32", "width": 30}},
)
def norm_add_norm(m: ModuleType, dtype: str, width: int) -> Outcome:
    x, weight, norm = _norm_inputs(dtype, width)
    got = m.norm_add_norm(**x, post_weight=weight, post_eps=1e-6, next_norm=norm)
    normed = mx.fast.rms_norm(weight * x["branch"], None, 1e-6)
    stream = x["alpha"] * x["stream"] + x["beta"] * normed
    return Outcome(got, [stream, norm(stream).astype(x["branch"].dtype)])


@kernel_cases(COPY, "norm_add", dtypes("float16"))
@kernel_cases(MODULE, "norm_add", dtypes("float32", "bfloat16"))
def norm_add(m: ModuleType, dtype: str) -> Outcome:
    x, _, _ = _norm_inputs(dtype, 520)
    got, none = m.norm_add_norm(**x, post_weight=None, post_eps=1e-6, next_norm=None)
    assert none is None
    normed = mx.fast.rms_norm(x["branch"], None, 1e-6)
    return Outcome([got], [x["alpha"] * x["stream"] + x["beta"] * normed])


@kernel_cases(COPY, "norm_add_norm_pre_norm", dtypes("float32"))
@kernel_cases(MODULE, "norm_add_norm_pre_norm", dtypes("float32", "float16", "bfloat16"))
def pre_norm(m: ModuleType, dtype: str) -> Outcome:
    x, weight, norm = _norm_inputs(dtype, 520)
    got = m.pre_norm(x["stream"], norm, dtype=weight.dtype)
    return Outcome([got], [norm(x["stream"]).astype(weight.dtype)])
