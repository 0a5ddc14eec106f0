"""Sizes of threadgroups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import mlx.core as mx

from tests.benchmarks.advice.piece import Piece, kernel, of_kernel
from xlstm_kernels.kernel import Launch


def _launch(x: mx.array, *, threads: int, rounds: int = 0) -> Launch:
    template = (("ROUNDS", rounds),) if rounds else ()
    return Launch((x.size, 1, 1), (threads, 1, 1), (x.shape,), (x.dtype,), template)


SCALE = kernel("advice_scale", "x", "y", _launch)("""
    const uint i = thread_position_in_grid.x;
    if (i < static_cast<uint>(x_shape[0])) y[i] = 2.0f * x[i];
    """)

ARITHMETIC = kernel("advice_arithmetic", "x", "y", _launch)("""
    const uint i = thread_position_in_grid.x;
    if (i < static_cast<uint>(x_shape[0])) {
        float value = x[i];
        for (uint round = 0; round < ROUNDS; ++round) value = metal::fma(value, 0.999f, 0.001f);
        y[i] = value;
    }
    """)


def _numbers(large: bool, size: int) -> Sequence[mx.array]:
    return [mx.random.normal((size if large else 2**12,))]


def pieces(large: bool) -> Iterator[Piece]:
    yield Piece(
        "size of an elementwise threadgroup",
        "256 threads, or 32, for elementwise kernels",
        partial(_numbers, large, 2**27),
        tuple(
            of_kernel(f"{threads} threads", SCALE, threads=threads)
            for threads in (256, 32, 64, 128, 512, 1024)
        ),
    )
    yield Piece(
        "multiples of 32, memory-bound",
        "threadgroups are multiples of 32 threads",
        partial(_numbers, large, 2**27),
        tuple(
            of_kernel(f"{threads} threads", SCALE, threads=threads)
            for threads in (256, 250, 48, 33, 16, 8)
        ),
    )
    rounds = 1024 if large else 16
    yield Piece(
        "multiples of 32, arithmetic-bound",
        "threadgroups are multiples of 32 threads",
        partial(_numbers, large, 2**24),
        tuple(
            of_kernel(f"{threads} threads", ARITHMETIC, threads=threads, rounds=rounds)
            for threads in (256, 250, 64, 48, 33, 16, 8)
        ),
    )
