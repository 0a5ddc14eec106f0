"""mlx_lm.tuner.losses: divergences with a race on `shared`, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import mlx.core as mx

from .case import Data, Flaw, Outcome, kernel_cases

MODULE = "mlx_lm.tuner.losses"


def _logits(dtype: str, vocabulary: int) -> tuple[mx.array, mx.array]:
    data = Data(dtype, 12)
    return data.normal(2, vocabulary), data.normal(2, vocabulary)


def _kl(q: mx.array, p: mx.array) -> mx.array:
    q, p = (x.astype(mx.float32) for x in (q, p))
    log_q, log_p = (x - mx.logsumexp(x, axis=-1, keepdims=True) for x in (q, p))
    return mx.sum(mx.exp(log_p) * (log_p - log_q), axis=-1)


def _js(q: mx.array, p: mx.array) -> mx.array:
    q, p = (x.astype(mx.float32) for x in (q, p))
    log_q, log_p = (x - mx.logsumexp(x, axis=-1, keepdims=True) for x in (q, p))
    log_m = mx.logaddexp(log_q, log_p) - mx.log(mx.array(2.0))
    sides = [mx.sum(mx.exp(x) * (x - log_m), axis=-1) for x in (log_q, log_p)]
    return 0.5 * (sides[0] + sides[1])


def _gradient(loss: Callable[[mx.array, mx.array], mx.array], q: mx.array, p: mx.array) -> mx.array:
    cotangent = mx.array([0.5, -2.0], dtype=loss(q, p).dtype)
    return mx.vjp(loss, [q, p], [cotangent])[1][0]


def _race(line: int) -> list[Flaw]:
    """The sums are written while others may still read the maxima from the same place."""
    return [
        Flaw("threadgroup-race", line, "shared[simd_group_id * 2 + 0] = sum_exp_q;"),
        Flaw("threadgroup-race", line + 1, "shared[simd_group_id * 2 + 1] = sum_exp_p;"),
    ]


def _weak(line: int) -> Flaw:
    """A barrier between accesses to ``shared`` that orders no memory."""
    return Flaw("wrong-mem-flags", line, "threadgroup_barrier(mem_flags::mem_none);")


KL_FORWARD = [*_race(94), _weak(107), _weak(147)]
KL_BACKWARD = _race(95)
JS_FORWARD = [*_race(95), _weak(108)]
JS_BACKWARD = _race(96)

VARIANTS = {
    "float32": {"dtype": "float32", "vocabulary": 500},
    "float32-long": {"dtype": "float32", "vocabulary": 4100},
    "bfloat16": {"dtype": "bfloat16", "vocabulary": 500},
}


@kernel_cases(MODULE, "kl_forward", VARIANTS, flaws=KL_FORWARD)
def kl_div_loss(m: ModuleType, dtype: str, vocabulary: int) -> Outcome:
    q, p = _logits(dtype, vocabulary)
    return Outcome([m.kl_div_loss(q, p)], [_kl(q, p).astype(q.dtype)])


@kernel_cases(MODULE, "js_forward", VARIANTS, flaws=JS_FORWARD)
def js_div_loss(m: ModuleType, dtype: str, vocabulary: int) -> Outcome:
    q, p = _logits(dtype, vocabulary)
    return Outcome([m.js_div_loss(q, p)], [_js(q, p).astype(q.dtype)])


@kernel_cases(
    MODULE,
    "kl_forward kl_backward",
    {"float32": VARIANTS["float32"]},
    flaws=[*KL_FORWARD, *KL_BACKWARD],
)
def kl_div_loss_vjp(m: ModuleType, dtype: str, vocabulary: int) -> Outcome:
    q, p = _logits(dtype, vocabulary)
    return Outcome([_gradient(m.kl_div_loss, q, p)], [_gradient(_kl, q, p)])


@kernel_cases(
    MODULE,
    "js_forward js_backward",
    {"float32": VARIANTS["float32"]},
    flaws=[*JS_FORWARD, *JS_BACKWARD],
)
def js_div_loss_vjp(m: ModuleType, dtype: str, vocabulary: int) -> Outcome:
    q, p = _logits(dtype, vocabulary)
    return Outcome([_gradient(m.js_div_loss, q, p)], [_gradient(_js, q, p)])
