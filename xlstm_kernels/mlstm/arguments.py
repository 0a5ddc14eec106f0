"""Checks and defaults of the arguments that all forms of the mLSTM take."""

from __future__ import annotations

from typing import Any, NamedTuple

import mlx.core as mx

from xlstm_kernels.arguments import FLOATING, Accept, require_floating, require_shape


class States(NamedTuple):
    """The state of the mLSTM, float32: c (B, NH, DK, DV), n (B, NH, DK), m (B, NH, 1).

    c and n are scaled by exp(-m). Only together do they mean something.
    """

    c: mx.array
    n: mx.array
    m: mx.array

    def stored(self, dtype: mx.Dtype) -> States:
        """The state in `dtype`: m is rounded, and c and n are scaled by what that has changed."""
        scale = rounding_scale(self.m, dtype)
        c, n = mx.expand_dims(scale, axis=3) * self.c, scale * self.n
        return States(c.astype(dtype), n.astype(dtype), self.m.astype(dtype))


def rounding_scale(m: mx.array, dtype: mx.Dtype) -> mx.array:
    """Return exp(m - m rounded to `dtype`), (B, NH, 1) float32."""
    lost = m - m.astype(dtype).astype(mx.float32)
    return mx.exp(mx.where(mx.isfinite(lost), lost, mx.zeros_like(lost)))


def require_sequence(
    operator: str,
    q: Any,
    k: Any,
    v: Any,
    i: Any,
    f: Any,
    axes: tuple[str, ...] = ("B", "NH", "S"),
    accept: Accept = require_floating,
) -> None:
    """Accept q, k (*axes, DK), v (*axes, DV) and gates (*axes), arrays or tensors, that fit.

    Raise a TypeError for a dtype other than float32, float16 and bfloat16, and if q, k and v differ
    in it, a ValueError for shapes that do not fit.
    """
    for name, array in (("q", q), ("k", k), ("v", v), ("i", i), ("f", f)):
        accept(operator, name, array)
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"{operator}: q, k and v must have one dtype, got {q.dtype}, {k.dtype}, {v.dtype}"
        )
    names, leading = ", ".join(axes), tuple(q.shape[:-1])
    if q.ndim != len(axes) + 1:
        raise ValueError(f"{operator}: q must be ({names}, DK), got {tuple(q.shape)}")
    require_shape(operator, "k", k, tuple(q.shape), "that of q")
    if v.ndim != q.ndim or v.shape[:-1] != leading:
        raise ValueError(
            f"{operator}: v must be ({names}, DV) = {(*leading, 'DV')}, got {tuple(v.shape)}"
        )
    for name, array in (("i", i), ("f", f)):
        shape = tuple(array.shape)
        if len(shape) == 3 and (shape[0], *shape[:0:-1]) == leading != shape:
            raise ValueError(
                f"{operator}: {name} must have shape {leading}, ({names}); got {shape}: "
                "heads and steps are the other way round in it, or in q, k and v, which must be "
                f"({names}, D)"
            )
        require_shape(operator, name, array, leading, f"({names})")
    if not q.shape[-1] or not v.shape[-1]:
        raise ValueError(f"{operator}: q, k and v need a last axis that is not empty")


def initial_states(
    operator: str,
    q: mx.array,
    v: mx.array,
    given: tuple[mx.array | None, mx.array | None, mx.array | None],
) -> States | None:
    """The states that a call begins with, float32, None for the zero state: see `given_states`."""
    states = given_states(operator, q, v, given)
    return None if states is None else States(*(state.astype(mx.float32) for state in states))


def given_states(
    operator: str, q: Any, v: Any, given: tuple[Any, ...], accept: Accept = require_floating
) -> tuple[Any, Any, Any] | None:
    """Return c (B, NH, DK, DV), n (B, NH, DK) and m (B, NH, 1), arrays or tensors, or None.

    `given` are all of them, or none; m may be (B, NH). q and v are as in `require_sequence`, or
    without their axis of time. Raise a TypeError for a dtype other than float32, float16 and
    bfloat16, a ValueError if one is missing, or does not fit.
    """
    missing = [name for name, array in zip("cnm", given, strict=True) if array is None]
    if len(missing) == len(given):
        return None
    if missing:
        raise ValueError(
            f"{operator}: the initial states c, n and m come together, missing "
            f"{' and '.join(missing)}: c and n are scaled by exp(-m)"
        )
    c, n, m = given
    leading = tuple(q.shape[:2])
    for name, array in (("c", c), ("n", n), ("m", m)):
        accept(operator, f"the initial state {name}", array)
    require_shape(operator, "c", c, (*leading, q.shape[-1], v.shape[-1]), "(B, NH, DK, DV)")
    require_shape(operator, "n", n, (*leading, q.shape[-1]), "(B, NH, DK)")
    m = m[..., None] if m.shape == leading else m
    require_shape(operator, "m", m, (*leading, 1), "(B, NH, 1)")
    return c, n, m


def zero_states(q: mx.array, v: mx.array) -> States:
    """The state before the first step; q and v as in `initial_states`."""
    leading = q.shape[:2]
    return States(
        mx.zeros((*leading, q.shape[-1], v.shape[-1]), dtype=mx.float32),
        mx.zeros((*leading, q.shape[-1]), dtype=mx.float32),
        mx.zeros((*leading, 1), dtype=mx.float32),
    )


def require_state_dtype(
    operator: str, dtype: object, accepted: tuple[object, ...] = FLOATING
) -> None:
    """Accept float32, float16 and bfloat16 of MLX or, as `accepted`, PyTorch; else a TypeError."""
    if dtype not in accepted:
        raise TypeError(
            f"{operator}: dtype_state must be float32, float16 or bfloat16, got {dtype}"
        )
