"""Calls of the sLSTM: 3 sequences, 2 heads.

Gradients follow the greater argument of a maximum, so a tie would have two of them: with these
steps and this seed, no two arguments are closer than 1e-5, in any dtype.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

import xlstm_kernels as pack
from tests.benchmarks.gpu.case import Case, Numbers, normal
from tests.xlstm_kernels.recurrent.slstm import gradient_oracle as slstm_gradient
from tests.xlstm_kernels.recurrent.slstm import oracle as slstm

_STEPS = 36


def slstm_cases() -> Iterator[Case]:
    mask = np.arange(_STEPS) % 7 != np.arange(3)[:, None]
    for units in (16, 64, 160):
        yield slstm_case(units, None)
        for options in ({}, {"clipval": 0.3}, {"cut": True}):
            yield slstm_case(units, mask, **options)
        yield packed_slstm_case(units)


def slstm_inputs(units: int, generator: np.random.Generator) -> list[Numbers]:
    wx, r, b, states = normal(
        (3, _STEPS, 4, 2, units), (4, 2, units, units), (4, 2, units), (4, 3, 2, units)
    )(generator)
    states[2] = np.abs(states[2]) + 0.5
    return [wx, r * units**-0.5, b, states]


def slstm_case(units: int, mask: NDArray[np.bool_] | None, **options: float | bool) -> Case:
    named = {f"gradient_recurrent_{option}": value for option, value in options.items()}

    def call(*arrays: mx.array, backend: str) -> Sequence[mx.array]:
        masked = None if mask is None else mx.array(mask)
        return pack.slstm(*arrays, mask=masked, backend=backend, **named)

    def values(*arrays: Numbers) -> list[Numbers]:
        result = slstm.slstm(*arrays, mask=mask)
        return [result.states, result.last[:, :, None]]

    def gradients(arrays: Sequence[Numbers], cotangents: Sequence[Numbers]) -> list[Numbers]:
        pulled = cotangents[0], cotangents[1][:, :, 0]
        return list(slstm_gradient.gradients(*arrays, pulled, mask=mask, **options))[:4]

    name = ", ".join([f"slstm D={units}", *["mask"] * (mask is not None), *options])
    return Case(name, call, partial(slstm_inputs, units), values, gradients, states=1)


def packed_slstm_case(units: int) -> Case:
    """Two sequences in each row, the second of which begins without states."""
    cut = 17

    def call(*arrays: mx.array, backend: str) -> Sequence[mx.array]:
        seq_idx = mx.array(np.tile(np.arange(_STEPS) >= cut, (3, 1)).astype(np.int32))
        return pack.slstm(*arrays, seq_idx=seq_idx, backend=backend)

    def values(wx: Numbers, *arrays: Numbers) -> list[Numbers]:
        *weights, _ = arrays
        before, after = slstm.slstm(wx[:, :cut], *arrays), slstm.slstm(wx[:, cut:], *weights)
        whole = np.concatenate([before.states, after.states], axis=2)
        return [whole, after.last[:, :, None]]

    def gradients(arrays: Sequence[Numbers], cotangents: Sequence[Numbers]) -> list[Numbers]:
        wx, *weights, states = arrays
        in_states, in_last = cotangents[0], cotangents[1][:, :, 0]
        pulls = (in_states[:, :, :cut], 0 * in_last), (in_states[:, :, cut:], in_last)
        before = slstm_gradient.gradients(wx[:, :cut], *weights, states, pulls[0])
        after = slstm_gradient.gradients(wx[:, cut:], *weights, 0 * states, pulls[1])
        in_wx = np.concatenate([before[0], after[0]], axis=1)
        return [in_wx, before[1] + after[1], before[2] + after[2], before[3]]

    name = f"slstm D={units}, packed"
    return Case(name, call, partial(slstm_inputs, units), values, gradients, states=1)
