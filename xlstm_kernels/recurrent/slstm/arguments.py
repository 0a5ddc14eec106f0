"""Checks and defaults of the arguments of the sLSTM and its relatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from xlstm_kernels.arguments import Accept, non_negative, require_floating, require_shape

STATES = 4


@dataclass(frozen=True, slots=True)
class RecurrentGradient:
    """The treatment of the gradient in a y that R feeds back, before others are added."""

    clipval: float | None = None  # each element is brought into [-clipval, clipval], if at all
    cut: bool = False  # it is zero


EXACT = RecurrentGradient()


def recurrent_gradient(operator: str, clipval: float | None, cut: bool) -> RecurrentGradient:
    """Accept a limit, None or a number that is not negative, and a bool.

    Raise a TypeError for anything else, a ValueError for a limit that is negative or not finite.
    """
    if not isinstance(cut, bool):
        raise TypeError(
            f"{operator}: gradient_recurrent_cut must be a bool, got {type(cut).__name__}"
        )
    if clipval is None:
        return RecurrentGradient(cut=cut)
    return RecurrentGradient(non_negative(operator, "gradient_recurrent_clipval", clipval), cut)


def require_inputs(
    operator: str,
    Wx: Any,
    R: Any,
    b: Any,
    *,
    gates: str = "ifzo",
    recurrent: int = 4,
    biased: int = 4,
    accept: Accept = require_floating,
) -> None:
    """Accept Wx (B, T, G, N, D), R (G, N, D, D) and b (G, N, D), arrays or tensors, that fit.

    G is the number of `gates`, a letter each, for Wx, `recurrent` for R, and `biased` for b. Raise
    a TypeError for a dtype other than float32, float16 and bfloat16, a ValueError for other shapes.
    """
    for name, array in (("Wx", Wx), ("R", R), ("b", b)):
        accept(operator, name, array)
    if Wx.ndim != 5 or Wx.shape[2] != len(gates):
        raise ValueError(
            f"{operator}: Wx must be (B, T, {len(gates)}, N, D), in the order of gates "
            f"{', '.join(gates)}; got {tuple(Wx.shape)}"
        )
    heads, units = Wx.shape[3:]
    require_shape(operator, "R", R, (recurrent, heads, units, units), f"({recurrent}, N, D, D)")
    require_shape(operator, "b", b, (biased, heads, units), f"({biased}, N, D)")


def initial_states(
    operator: str, states: mx.array | None, shape: tuple[int, int, int], *, count: int = STATES
) -> mx.array:
    """The states that a call begins with, (count, B, N, D) float32; zeros for None.

    `states` are these or (count, B, 1, N, D), `shape` is (B, N, D). `count` is 4 of the sLSTM, 2 of
    the LSTM, 1 of the GRU and the Elman network. Raise a TypeError for a dtype other than float32,
    float16 and bfloat16, a ValueError for another shape.
    """
    batch, heads, units = shape
    plain, of_one_step = (count, batch, heads, units), (count, batch, 1, heads, units)
    if states is None:
        return mx.zeros(plain, dtype=mx.float32)
    require_floating(operator, "states", states)
    if states.shape not in (plain, of_one_step):
        raise ValueError(
            f"{operator}: states must be ({count}, B, 1, N, D) = {of_one_step} or "
            f"({count}, B, N, D) = {plain}, got {states.shape}"
        )
    return states.reshape(plain).astype(mx.float32)
