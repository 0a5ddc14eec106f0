"""mlx_vlm's recurrences: gated delta rules that keep states, RWKV, Mamba, short convolution."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import mlx.core as mx

from .case import Data, Flaw, Outcome, dtypes, kernel_cases
from .lm_models import (
    MASK,
    VECTOR,
    gated_inputs,
    gated_outcome,
    masked_outcome,
)

GATED = "mlx_vlm.models.gated_delta"
QWEN = "mlx_vlm.models.qwen3_5.gated_delta"


@kernel_cases(
    GATED,
    "gated_delta_step{suffix}_states",
    {**dtypes("float32", "bfloat16", suffix=""), "vector": VECTOR},
)
def states(m: ModuleType, dtype: str, suffix: str) -> Outcome:
    return gated_outcome(m, *gated_inputs(dtype, 64, 8, vector=bool(suffix)), state_steps=2)


@kernel_cases(
    GATED,
    "gated_delta_step{suffix}_mask_states",
    {**dtypes("float32", suffix=""), "vector": VECTOR},
    flaws=[Flaw("same-value-write", 57, "y[dv_idx] = static_cast<InT>(0);")],
)
def masked_states(m: ModuleType, dtype: str, suffix: str) -> Outcome:
    return masked_outcome(m, *gated_inputs(dtype, 64, 8, vector=bool(suffix)), state_steps=3)


@kernel_cases(QWEN, "gated_delta_step_packed_btree", dtypes("float16"))
def packed(m: ModuleType, dtype: str) -> Outcome:
    return gated_outcome(m, *gated_inputs(dtype, 128, 8))


@kernel_cases(QWEN, "gated_delta_step", dtypes("float16"))
def one_token(m: ModuleType, dtype: str) -> Outcome:
    return gated_outcome(m, *gated_inputs(dtype, 128, 8, length=1))


@kernel_cases(QWEN, "qwen3_5_gated_delta_with_states", dtypes("float32", "bfloat16"))
@kernel_cases(
    QWEN,
    "qwen3_5_gated_delta_with_states_mask",
    {"masked": {"dtype": "float32", "mask": MASK}},
    flaws=[Flaw("same-value-write", 54, "y[dv_idx] = static_cast<InT>(0);")],
)
def with_states(m: ModuleType, dtype: str, mask: Sequence[Sequence[bool]] | None = None) -> Outcome:
    data = Data(dtype, 41)
    q, k, v, *_, state = gated_inputs(dtype, 64, 8)
    a, b = data.normal(2, 3, 2), data.normal(2, 3, 2)
    masked = None if mask is None else mx.array(mask)
    rest = (a, b, data.normal(2, dtype=mx.float32), data.normal(2, dtype=mx.float32), state, masked)
    got = m.gated_delta_update_with_states(q, k, v, *rest, state_steps=2)
    want = m.gated_delta_update_with_states(q, k, v, *rest, use_kernel=False, state_steps=2)
    return Outcome(got, want)


@kernel_cases(
    "mlx_vlm.models.kimi_k3.language", "k3_short_conv_step", dtypes("float32", "bfloat16")
)
def short_convolution(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 42)
    layer = m.ShortConv1d(40, 4)
    layer.conv.weight = data.normal(40, 4, 1)
    layer.eval()
    x, state = data.normal(2, 1, 40), data.normal(2, 3, 40)
    got = layer(x, state, None, None)
    # A mask that hides nothing keeps the layer off its kernel.
    return Outcome(got, layer(x, state, mx.ones((2, 1), dtype=mx.bool_), None))


def _mamba(dtype: str) -> dict[str, mx.array]:
    data = Data(dtype, 43)
    batch, length, heads, head_dim, groups, width = 1, 3, 4, 6, 2, 64
    return {
        "hidden_states": data.normal(batch, length, heads, head_dim),
        "A_log": data.uniform(heads, low=-1.0),
        "B": data.normal(batch, length, groups, width),
        "C": data.normal(batch, length, groups, width, scale=0.2),
        "D": data.normal(heads),
        "dt": data.normal(batch, length, heads),
        "dt_bias": data.normal(heads),
        "state": data.normal(batch, heads, head_dim, width),
    }


def _mamba_steps(x: dict[str, mx.array], limits: tuple[float, float]) -> tuple[mx.array, ...]:
    """The recurrence in float32, the state rounded to its type after each step."""
    dt = mx.clip(mx.logaddexp(x["dt"].astype(mx.float32) + x["dt_bias"], mx.array(0.0)), *limits)
    decay = mx.exp(-mx.exp(x["A_log"].astype(mx.float32)) * dt)
    b, c = (mx.repeat(x[name].astype(mx.float32), 2, axis=2) for name in "BC")
    hidden = x["hidden_states"].astype(mx.float32)
    state, ys = x["state"], []
    for t in range(hidden.shape[1]):
        added = (hidden[:, t] * dt[:, t, :, None])[..., None] * b[:, t, :, None, :]
        fresh = decay[:, t, :, None, None] * state.astype(mx.float32) + added
        ys.append((fresh * c[:, t, :, None, :]).sum(-1) + hidden[:, t] * x["D"][:, None])
        state = fresh.astype(x["state"].dtype)
    return mx.stack(ys, axis=1).astype(x["hidden_states"].dtype), state


NEMOTRON = "mlx_vlm.models.nemotron_h.speculative_verifier"
SIZES = "t3_h4_dh6_ds64_g2"


@kernel_cases(
    NEMOTRON,
    f"nemotron_h_target_verify_mamba_{SIZES}_{{short}}_{{short}}",
    dtypes("float32", "float16", "bfloat16"),
)
def verify_mamba(m: ModuleType, dtype: str) -> Outcome:
    x = _mamba(dtype)
    limits = (0.001, 100.0)
    *got, _ = m._mamba_update_exact(*x.values(), limits, None)
    return Outcome(got, _mamba_steps(x, limits))


@kernel_cases(
    NEMOTRON,
    f"nemotron_h_target_replay_mamba_{SIZES}_{{short}}_{{short}}",
    {"float32": {"dtype": "float32"}},
)
def replay_mamba(m: ModuleType, dtype: str) -> Outcome:
    x = _mamba(dtype)
    limits = (0.001, 100.0)
    want = _mamba_steps(x, limits)[1]
    x["dt"] = mx.clip(mx.logaddexp(x["dt"] + x["dt_bias"], mx.array(0.0)), *limits)
    return Outcome([m.replay_mamba_state(x, 3)], [want])
