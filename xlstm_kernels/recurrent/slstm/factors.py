"""Everything in the sLSTM's gradient that doesn't go backward, for all steps at once.

The gradients in a state and in the gates are sums of those in the state after it, times factors
that depend on nothing but the values; see `gradient`.
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels.activation.soft_cap import tanh_slope
from xlstm_kernels.double_float import pairs

_OF_MEMORY = ("add_h", "add_l", "add_e")
_HANDED_ON = ("kept", "past")


class Factors(NamedTuple):
    """Factors of a step, (B, T, N, D) each, where f* stands for log sigmoid(f) + m_{t-1}."""

    add_y: mx.array  # the step's own gradient in y
    add_h: mx.array  # likewise, of its c, n and m
    add_l: mx.array
    add_e: mx.array
    opened: mx.array  # of Y_t in H_t
    output: mx.array  # of Y_t in do_t
    value: mx.array  # of H_t in dz_t
    share: mx.array  # of L_t in di_t
    moved: mx.array  # of H_t in di_t
    kept: mx.array  # of H_t in H_{t-1}, and of L_t in L_{t-1}
    lost: mx.array  # of H_t in L_{t-1}
    past: mx.array  # 1 where m_t is f*, whose E goes on; 0 where it is i_t, which gets E
    forgetting: mx.array  # of what f* gets in df_t
    alone: mx.array  # of H_t in df_t, where there was no n
    limited: mx.array  # of H_t in E_{t-1}, where there was no n


def factors_of(
    gates: tuple[pairs.Pair, pairs.Pair, mx.array, mx.array],
    before: mx.array,
    after: mx.array,
    cotangents: mx.array,
    mask: mx.array | None,
) -> Factors:
    """Return the factors of all steps.

    Gates are i and f as pairs, z and o, (B, T, N, D) each; `before` and `after` are y, c, n and m
    around each step, (4, B, T, N, D), the cotangents those of `after`, the mask (B, T) booleans or
    None.
    """
    admit, forget, candidate, output = gates
    _, old_c, old_n, old_m = before
    _, c, n, m = after
    zero, one = mx.zeros_like(n), mx.ones_like(n)
    fresh, empty = old_n == zero, n == zero
    decayed = _decayed_by(forget, pairs.pair(old_m))
    past = mx.where(mx.logical_or(fresh, pairs.less(decayed, admit)), zero, one)
    limited = mx.logical_and(fresh, pairs.less(pairs.pair(m), decayed))
    kept, admitted = _kept_and_admitted(decayed, admit, pairs.pair(m), fresh)

    size = mx.where(empty, one, n)
    h, old_h = c / size, old_c / mx.where(fresh, one, old_n)
    share = mx.where(empty, zero, admitted / size)
    # Where there was no n before or is none now, H and L mean gradients in c and n there.
    kept = kept * mx.where(fresh, one, mx.where(empty, zero, old_n)) / size
    value = mx.tanh(candidate)
    moved = share * mx.where(fresh, value - h, kept * (value - old_h))
    lost = mx.where(fresh, mx.where(empty, zero, mx.negative(kept * h)), mx.negative(moved))
    by_kept = mx.where(fresh, old_c * kept, zero)
    by_limit = mx.where(limited, by_kept, zero)
    forgetting = mx.sigmoid(mx.negative(forget.high))
    opened = mx.where(empty, zero, mx.sigmoid(output))
    add_h, add_l, add_e = slopes_of(after, *cotangents[1:])
    factors = Factors(
        add_y=cotangents[0],
        add_h=add_h,
        add_l=add_l,
        add_e=add_e,
        opened=opened,
        output=opened * h * mx.sigmoid(mx.negative(output)),
        value=share * tanh_slope(candidate),
        share=share,
        moved=moved + by_limit,
        kept=kept,
        lost=lost,
        past=past,
        forgetting=mx.where(fresh, zero, forgetting),
        alone=(by_kept - by_limit) * forgetting,
        limited=mx.negative(by_limit),
    )
    if mask is None:
        return factors
    # A masked step hands everything on.
    live, masked = mx.expand_dims(mask, (2, 3)), dict.fromkeys(_HANDED_ON, one)
    return factors._replace(
        **{
            name: mx.where(live, factor, masked.get(name, zero))
            for name, factor in factors._asdict().items()
            if name not in _OF_MEMORY
        }
    )


def slopes_of(
    states: mx.array, by_c: mx.array, by_n: mx.array, by_m: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """H, L and E of gradients in c, n and m; `states` are y, c, n and m."""
    _, c, n, _ = states
    empty = n == mx.zeros_like(n)
    through = c * by_c + n * by_n
    return mx.where(empty, by_c, n * by_c), mx.where(empty, by_n, through), by_m - through


def gradients_of(states: mx.array, slopes: mx.array) -> mx.array:
    """The gradients in y, c, n and m, (4, ...), of Y, H, L and E; `states` are y, c, n and m."""
    _, c, n, _ = states
    by_y, by_h, by_l, by_m = slopes
    empty = n == mx.zeros_like(n)
    size = mx.where(empty, mx.ones_like(n), n)
    by_n = mx.where(empty, by_l, (by_l - by_h * c / size) / size)
    return mx.stack([by_y, by_h / size, by_n, by_m + mx.where(empty, c * by_h, by_l)])


def open_gates(
    gate_input: mx.array, fed_back: mx.array, bias: mx.array
) -> tuple[pairs.Pair, pairs.Pair, mx.array, mx.array]:
    """The gates i and f as pairs, z and o, of arrays whose gates come first, (4, ...)."""
    arriving = pairs.two_sum(gate_input.astype(mx.float32), bias)
    exponents = pairs.add(pairs.Pair(arriving.high[:2], arriving.low[:2]), pairs.pair(fed_back[:2]))
    candidate, output = arriving.high[2:] + fed_back[2:]
    admit, forget = map(pairs.Pair, *exponents)
    return admit, forget, candidate, output


def _decayed_by(forget: pairs.Pair, m: pairs.Pair) -> pairs.Pair:
    """The exponent log sigmoid(f) + m, where low moves the logarithm along its slope."""
    log = pairs.log_sigmoid(forget.high)
    slope = mx.sigmoid(mx.negative(forget.high))
    return pairs.add(m, pairs.Pair(log.high, log.low + forget.low * slope))


def _kept_and_admitted(
    decayed: pairs.Pair, admit: pairs.Pair, m: pairs.Pair, fresh: mx.array
) -> tuple[mx.array, mx.array]:
    """The factors f' and i', where `fresh` says that n was zero."""
    # Above zero only where m ignores the past, since it is nothing; it must not become something.
    decay = pairs.difference(decayed, m)
    decay = mx.where(fresh, mx.minimum(decay, mx.zeros_like(decay)), decay)
    return mx.exp(decay), mx.exp(pairs.difference(admit, m))
