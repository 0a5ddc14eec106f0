"""Tiles of threadgroup memory whose rows begin in one bank, and padded ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.simulator.suite.case import Case, floats, gives, kernel

_ROWS = floats(8, 32, 64)
_HALVES = floats(8, 32, 64, seed=1).astype(np.float16)
_BLOCKS = floats(8, 64, 64, seed=2)
_VECTOR = floats(64, 8, seed=3)


def _pairs() -> np.ndarray:
    return np.einsum("bik,bjk->bij", _ROWS, np.roll(_ROWS, 1, 1)[:, :8])


def _norms() -> np.ndarray:
    whole = _HALVES.astype(np.float32)
    return np.stack([(np.abs(whole) ** p).sum(2) for p in (1, 2, 3, 4)], 1)


def _products() -> np.ndarray:
    return np.einsum("bik,kj->bji", _BLOCKS, _VECTOR)


def _padded(case: Case, name: str, *changes: tuple[str, str]) -> Case:
    source = case.source.replace("  // <- bank-conflict", "")
    for old, new in changes:
        source = source.replace(old, new)
    return replace(case, name=name, source=source)


FAULTS = (
    kernel("products_of_rows_with_stride_64", (8 * 256, 256), close=1e-4)(
        x=_ROWS, y=gives(_pairs())
    )("""
        threadgroup float tile[32][64];
        uint group = simdgroup_index_in_threadgroup;
        uint batch = threadgroup_position_in_grid.x;
        for (uint r = group; r < 32; r += 8) {
          tile[r][lane] = x[(batch * 32 + r) * 64 + lane];
          tile[r][lane + 32] = x[(batch * 32 + r) * 64 + lane + 32];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint other = (group + 31) % 32;
        float sum = 0;
        for (uint k = 0; k < 64; k++) sum += tile[lane][k] * tile[other][k];  // <- bank-conflict
        y[(batch * 32 + lane) * 8 + group] = sum;
    """),
    kernel("norms_of_rows_of_halves", (8 * 128, 128))(x=_HALVES, y=gives(_norms()))("""
        threadgroup half tile[32 * 64];
        uint group = simdgroup_index_in_threadgroup;
        uint batch = threadgroup_position_in_grid.x;
        for (uint r = group; r < 32; r += 4) {
          for (uint c = lane; c < 64; c += 32) tile[r * 64 + c] = x[(batch * 32 + r) * 64 + c];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = 0;
        for (uint k = 0; k < 64; k++) {
          float v = abs(float(tile[lane * 64 + k])), p = v;  // <- bank-conflict
          for (uint e = 0; e < group; e++) p *= v;
          sum += p;
        }
        y[(batch * 4 + group) * 32 + lane] = sum;
    """),
    kernel("vectors_of_a_block_by_rows", (8 * 512, 512), close=1e-4)(
        x=_BLOCKS, b=_VECTOR, y=gives(_products())
    )("""
        threadgroup float4 block[64 * 16];
        uint r = lid % 64, j = lid / 64;
        uint batch = threadgroup_position_in_grid.x;
        const device float4* from = (const device float4*)x + batch * 1024;
        for (uint k = lid; k < 1024; k += 512) block[k / 16 * 16 + k % 16] = from[k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = 0;
        for (uint k = 0; k < 16; k++) {
          float4 v = block[r * 16 + k];  // <- bank-conflict
          uint at = 32 * k + j;
          sum += dot(v, float4(b[at], b[at + 8], b[at + 16], b[at + 24]));
        }
        y[(batch * 8 + j) * 64 + r] = sum;
    """),
)

CLEAN = (
    _padded(FAULTS[0], "products_of_rows_with_stride_65", ("[32][64]", "[32][65]")),
    _padded(
        FAULTS[1],
        "norms_of_padded_rows_of_halves",
        ("tile[32 * 64]", "tile[32 * 66]"),
        ("tile[r * 64", "tile[r * 66"),
        ("tile[lane * 64", "tile[lane * 66"),
    ),
    _padded(
        FAULTS[2],
        "vectors_of_a_padded_block",
        ("block[64 * 16]", "block[64 * 17]"),
        ("k / 16 * 16", "k / 16 * 17"),
        ("block[r * 16", "block[r * 17"),
    ),
)
