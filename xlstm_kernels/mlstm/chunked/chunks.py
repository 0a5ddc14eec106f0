"""A sequence cut into chunks of L steps, and the weights of their steps.

With G and log i' of `gates.LogGates`, a step s weighs exp(log i'_s + G_L - G_s) in the state after
its chunk, the state before the chunk weighs exp(G_t) in what a step t reads, and an earlier step of
the chunk exp(log i'_s + G_t - G_s). All are at most one, and where G falls, some step weighs one.
So exp of a difference of two G needs no more digits than a float has, but exp(log i') does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels.double_float import pairs

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.chunked.gates import LogGates


def lane_pack(width: int) -> int:
    """Neighbouring elements that each of 32 lanes takes of a row, a power of two."""
    return 1 << (math.ceil(width / 32) - 1).bit_length()


def whole_pack(width: int, most: int, lanes: int = 32) -> int:
    """Neighbouring elements that a lane takes at once: a power of two that divides `width`."""
    return math.gcd(lane_pack(math.ceil(32 * width / lanes)), width, most)


def in_chunks(array: mx.array, length: int, *, fill: float = 0.0) -> mx.array:
    """(B, NH, S, ...) as (B, NH, NC, L, ...), the last chunk filled up.

    Args:
        array: the sequence, S at least 1.
        length: L.
        fill: what follows the last step.
    """
    missing = -array.shape[2] % length
    if missing:
        following = (*array.shape[:2], missing, *array.shape[3:])
        array = mx.concatenate([array, mx.full(following, fill, dtype=array.dtype)], axis=2)
    return mx.unflatten(array, 2, (-1, length))


def in_sequence(chunks: mx.array, steps: int) -> mx.array:
    """(B, NH, NC, L, ...) as (B, NH, S, ...)."""
    return mx.flatten(chunks, 2, 3)[:, :, :steps]


def weights_to_end(gates: LogGates) -> mx.array:
    """exp(log i'_s + G_L - G_s): (B, NH, NC, L)."""
    high = gates.prefix[..., -1:] - gates.prefix
    low = gates.prefix_rest[..., -1:] - gates.prefix_rest
    return _admitted(gates) * mx.exp(high + low)


def weights_from_start(gates: LogGates) -> mx.array:
    """exp(G_t): (B, NH, NC, L)."""
    return mx.exp(gates.prefix)


def weights_within(gates: LogGates, scale: mx.array) -> mx.array:
    """exp(log i'_s + G_t - G_s) times `scale` for s <= t, else zero: (B, NH, NC, L, L), t first."""
    high = mx.expand_dims(gates.prefix, axis=-1) - mx.expand_dims(gates.prefix, axis=-2)
    low = mx.expand_dims(gates.prefix_rest, axis=-1) - mx.expand_dims(gates.prefix_rest, axis=-2)
    # Of later steps the exponent would be positive, and might overflow; and a gate may be NaN.
    decay = mx.exp(mx.tril(high + low))
    return mx.tril(decay * mx.expand_dims(_admitted(gates) * scale, axis=-2))


def _admitted(gates: LogGates) -> mx.array:
    return pairs.exp(pairs.Pair(gates.admitted, gates.admitted_rest))


#: MSL, with GROUPS packs a lane, of a chunk whose steps begin at `first`; LANES have a row.
COLUMN_EXPONENTS = """
    // Each lane has one pack of each LANES packs of columns, so that what is beyond the diagonal
    // costs nothing. What does not depend on the row goes into their exponents.
    const uint column = lane * PACK;
    const uint present = column < steps ? (steps - column + LANES * PACK - 1) / (LANES * PACK) : 0;
    const auto past =
        xlstm_load_packs<GROUPS, PACK>(prefix + first + column, LANES * PACK, 1, present);
    const auto past_rest =
        xlstm_load_packs<GROUPS, PACK>(prefix_rest + first + column, LANES * PACK, 1, present);
    const auto gate =
        xlstm_load_packs<GROUPS, PACK>(admitted + first + column, LANES * PACK, 1, present);
    const auto gate_rest =
        xlstm_load_packs<GROUPS, PACK>(admitted_rest + first + column, LANES * PACK, 1, present);
    float2 exponents[GROUPS * PACK];
    #pragma clang loop unroll(full)
    for (uint group = 0; group < GROUPS; ++group) {
        #pragma clang loop unroll(full)
        for (uint k = 0; k < PACK; ++k) {
            exponents[group * PACK + k] = xlstm_pair_sum(
                float2(gate.at[group].at[k], gate_rest.at[group].at[k]),
                float2(-past.at[group].at[k], -past_rest.at[group].at[k]));
        }
    }
"""
