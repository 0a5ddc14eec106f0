"""Several sequences in one row: which sequence a step belongs to, and where the next one begins.

`seq_idx` (B, S) holds a number for each step that differs between neighbouring sequences, as in
Dao's causal-conv1d. `cu_seqlens`, as in FlashAttention and fla, holds the places where they begin.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import mlx.core as mx

from xlstm_kernels.arguments import require_kind, require_mask, require_shape

#: Where sequences begin: (N + 1,) integers.
Places: TypeAlias = mx.array | list[int] | tuple[int, ...]


def seq_idx_from_cu_seqlens(cu_seqlens: Places, steps: int) -> mx.array:
    """Number the sequences of one row by the places where they begin and end.

    Args:
        cu_seqlens: (N + 1,) integers that don't decrease: 0, then the end of each sequence. An end
            after the row counts as S.
        steps: S, the length of the row. Steps after the last end get the number N.

    Returns:
        (1, S), int32: 0 for the first sequence.

    Raises:
        TypeError: for numbers that are not integers.
        ValueError: for another shape, and for a list that does not begin with 0, or decreases.
    """
    ends = as_places("seq_idx_from_cu_seqlens", cu_seqlens, steps)
    ended = mx.zeros((steps + 1,), dtype=mx.int32).at[ends[1:]].add(mx.array(1, dtype=mx.int32))
    return mx.expand_dims(mx.cumsum(ended[:steps]), axis=0)


def as_places(operator: str, cu_seqlens: Places, steps: int) -> mx.array:
    """Return `cu_seqlens` (N + 1,) as int32 from 0 to `steps`: MLX checks no index.

    Errors are those of `seq_idx_from_cu_seqlens`.
    """
    array = mx.array(cu_seqlens)
    if not mx.issubdtype(array.dtype, mx.integer):
        raise TypeError(f"{operator}: cu_seqlens must hold integers, got {array.dtype}")
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{operator}: cu_seqlens must be (N + 1,), got {array.shape}")
    # Lengths in their place would be accepted in silence. An array is not evaluated for this.
    if not isinstance(cu_seqlens, mx.array) and [0, *sorted(cu_seqlens[1:])] != list(cu_seqlens):
        raise ValueError(
            f"{operator}: cu_seqlens must be 0 and the end of each sequence, got {cu_seqlens}"
        )
    bounds = (mx.array(bound, dtype=mx.int32) for bound in (0, steps))
    return mx.clip(array.astype(mx.int32), *bounds)


def require_seq_idx(operator: str, seq_idx: object, shape: tuple[int, int]) -> None:
    """Accept integers (B, S).

    Raise a TypeError for another dtype, a ValueError for another shape.
    """
    array = require_kind(operator, "seq_idx", seq_idx, mx.integer, "an array of integers")
    require_shape(operator, "seq_idx", array, shape, "(B, S)")


def reset_gates(
    operator: str, f: mx.array, seq_idx: mx.array | None, mask: mx.array | None
) -> mx.array:
    """Forget gates f (B, NH, S) of the mLSTM that reset its state where a sequence begins.

    The first step of a row, or the first that is not masked, goes on from the initial states. Other
    arguments and errors are those of `sequence_begins`; `seq_idx` is None for one sequence a row.
    """
    if seq_idx is None:
        return f
    begins = sequence_begins(operator, seq_idx, mask, (f.shape[0], f.shape[2]))
    return mx.where(mx.expand_dims(begins, axis=1), mx.array(-math.inf, dtype=f.dtype), f)


def sequence_begins(
    operator: str, seq_idx: mx.array, mask: mx.array | None, shape: tuple[int, int]
) -> mx.array:
    """Steps (B, S) that reset a state: the first of each sequence of a row but the first.

    Masked steps belong to no sequence: one of them resets nothing, the next one does. Raise a
    TypeError for a `seq_idx` (B, S) not of integers or a mask (B, S) not of booleans, a ValueError
    for another shape.
    """
    require_seq_idx(operator, seq_idx, shape)
    require_mask(operator, mask, shape, "(B, S)")
    batch, steps = shape
    if not steps:
        return mx.zeros(shape, dtype=mx.bool_)
    none = mx.full((batch, 1), -1, dtype=mx.int32)
    places = mx.broadcast_to(mx.arange(steps, dtype=mx.int32), (batch, steps))
    live = places if mask is None else mx.where(mask, places, none)
    # The place of the last step before each that is not masked.
    before = mx.concatenate([none, mx.cummax(live, axis=1)[:, :-1]], axis=1)
    numbers = mx.take_along_axis(seq_idx, mx.maximum(before, mx.zeros_like(before)), axis=1)
    begins = mx.logical_and(before != none, seq_idx != numbers)
    return begins if mask is None else mx.logical_and(begins, mask)
