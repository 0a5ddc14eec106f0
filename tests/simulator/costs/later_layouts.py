"""Accesses across rows of an array, and the same kernels along its rows."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, kernel

_GRID = floats(256, 128)
_PIXELS = floats(4, 256, 64, seed=1)
_PLANES = _PIXELS.transpose(0, 2, 1).copy()
_IMAGE = floats(66, 66, seed=2)


def _patches() -> np.ndarray:
    return np.stack([_IMAGE[i : i + 64, j : j + 64] for i in range(3) for j in range(3)])


FAULTS = (
    kernel("exponentials_by_columns_of_a_2d_index", ((256, 16), (64, 4)))(
        x=_GRID, y=gives(np.exp(_GRID).reshape(256, 16, 8).sum(2).T)
    )("""
        const device float (*m)[128] = (const device float (*)[128])x;
        uint r = thread_position_in_grid.x, c = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 8; k++) sum += fast::exp(m[r][c * 8 + k]);  // <- uncoalesced-access
        y[c * 256 + r] = sum;
    """),
    kernel("channels_last_to_channels_first", ((64, 256, 4), (64, 4)))(
        x=_PIXELS, y=gives(np.where(_PLANES > 0, _PLANES, 0.1 * _PLANES))
    )("""
        uint c = thread_position_in_grid.x, p = thread_position_in_grid.y;
        uint n = thread_position_in_grid.z;
        float v = x[(n * 256 + p) * 64 + c];
        y[(n * 64 + c) * 256 + p] = v > 0 ? v : 0.1f * v;  // <- uncoalesced-access
    """),
    kernel("patches_side_by_side", ((64, 64), (64, 4)))(
        x=_IMAGE, y=gives(_patches().transpose(1, 2, 0))
    )("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        for (uint i = 0; i < 3; i++) {
          for (uint j = 0; j < 3; j++) {
            float v = x[(r + i) * 66 + c + j];
            y[(r * 64 + c) * 9 + i * 3 + j] = v;  // <- uncoalesced-access
          }
        }
    """),
)

CLEAN = (
    kernel("exponentials_by_rows_of_a_2d_index", ((256, 16), (64, 4)))(
        x=_GRID.T.copy(), y=gives(np.exp(_GRID).reshape(256, 16, 8).sum(2).T)
    )("""
        const device float (*m)[256] = (const device float (*)[256])x;
        uint r = thread_position_in_grid.x, c = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 8; k++) sum += fast::exp(m[c * 8 + k][r]);
        y[c * 256 + r] = sum;
    """),
    kernel("channels_first_through_a_tile", ((64, 64, 4), (32, 8)))(
        x=_PIXELS, y=gives(np.where(_PLANES > 0, _PLANES, 0.1 * _PLANES))
    )("""
        threadgroup float tile[32][33];
        uint2 group = threadgroup_position_in_grid.xy;
        uint n = threadgroup_position_in_grid.z;
        uint2 lid = thread_position_in_threadgroup.xy;
        for (uint p = lid.y; p < 32; p += 8)
          tile[p][lid.x] = x[(n * 256 + group.y * 32 + p) * 64 + group.x * 32 + lid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint c = lid.y; c < 32; c += 8) {
          float v = tile[lid.x][c];
          y[(n * 64 + group.x * 32 + c) * 256 + group.y * 32 + lid.x] = v > 0 ? v : 0.1f * v;
        }
    """),
    kernel("patches_in_planes", ((64, 64), (64, 4)))(x=_IMAGE, y=gives(_patches()))("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        for (uint i = 0; i < 3; i++) {
          for (uint j = 0; j < 3; j++) y[((i * 3 + j) * 64 + r) * 64 + c] = x[(r + i) * 66 + c + j];
        }
    """),
)
