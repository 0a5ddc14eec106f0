"""Threadgroup memory and registers as places of reused values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import mlx.core as mx

from tests.benchmarks.advice import division, threadgroups
from tests.benchmarks.advice.barriers import numbers
from tests.benchmarks.advice.matrix_products import (
    DIRECT,
    DOUBLE_BUFFER,
    ONE_BARRIER,
    REGISTERS,
    TILED,
    matrices,
)
from tests.benchmarks.advice.piece import Piece, Variant, kernel, of_kernel
from xlstm_kernels.kernel import Launch

STAGED_SCALE = kernel(
    "advice_staged_scale",
    "x",
    "y",
    lambda x: Launch((x.size, 1, 1), (256, 1, 1), (x.shape,), (x.dtype,)),
)("""
    threadgroup float tile[256];
    const uint i = thread_position_in_grid.x;
    const uint own = thread_position_in_threadgroup.x;
    tile[own] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = 2.0f * tile[own];
    """)


def _row_launch(x: mx.array, _k: mx.array) -> Launch:
    batch, channels, steps = x.shape
    whole = -(-steps // 256) * 256
    return Launch((whole, channels, batch), (256, 1, 1), (x.shape,), (x.dtype,))


STAGED_TAPS = kernel("advice_staged_taps", "x k", "y", _row_launch)("""
    threadgroup float tile[258];
    const int width = x_shape[2];
    const int t = thread_position_in_grid.x;
    const int c = thread_position_in_grid.y;
    const int own = thread_position_in_threadgroup.x;
    const int64_t at =
        (static_cast<int64_t>(thread_position_in_grid.z) * x_shape[1] + c) * width + t;
    tile[own + 1] = t < width ? x[at] : 0.0f;
    if (own == 0) tile[0] = t > 0 ? x[at - 1] : 0.0f;
    if (own == 255) tile[257] = t + 1 < width ? x[at + 1] : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < width) {
        y[at] = metal::fma(tile[own + 2], k[c * 3 + 2],
            metal::fma(tile[own + 1], k[c * 3 + 1], tile[own] * k[c * 3]));
    }
    """)


def _matmul(a: mx.array, b: mx.array, *, backend: str) -> Sequence[mx.array]:
    return [a @ b]


def pieces(large: bool) -> Iterator[Piece]:
    size = 4096 if large else 64
    yield Piece(
        "tile shapes of a matrix product",
        "16x16 threads; compare with 32x8 and 8x32",
        partial(matrices, size),
        tuple(
            of_kernel(f"{x} columns x {y} rows", TILED, columns=x, rows=y)
            for x, y in ((16, 16), (32, 8), (8, 32), (32, 32))
        ),
    )
    yield Piece(
        "staging of a matrix product",
        "stage tiles in threadgroup memory; minimize local variables",
        partial(matrices, size),
        (
            of_kernel("16x16 tiles in threadgroup memory", TILED, columns=16, rows=16),
            of_kernel("no staging", DIRECT),
            of_kernel("two tiles, one barrier a step", DOUBLE_BUFFER),
            of_kernel("one tile, one barrier a step", ONE_BARRIER, finding="threadgroup-race"),
            of_kernel("64x64 tiles, 16 sums a thread in registers", REGISTERS),
            Variant("mx.matmul, float32", _matmul),
        ),
    )
    yield Piece(
        "staging of neighbours, 3 taps",
        "stage tiles in threadgroup memory if the operator benefits from reuse",
        partial(division.tapped, large),
        (Variant("direct loads", division.CUBIC), of_kernel("tile of 258", STAGED_TAPS)),
    )
    yield Piece(
        "staging without reuse",
        "stage tiles in threadgroup memory if the operator benefits from reuse",
        partial(numbers, 2**27 if large else 2**12),
        (
            of_kernel("direct load", threadgroups.SCALE, threads=256),
            of_kernel("through threadgroup memory", STAGED_SCALE),
        ),
    )
