"""Accesses across rows of an array, and the same kernels along its rows."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats

_GRID = floats(256, 128)
_PIXELS = floats(4, 256, 64, seed=1)
_PLANES = _PIXELS.transpose(0, 2, 1).copy()
_IMAGE = floats(66, 66, seed=2)


def _patches() -> np.ndarray:
    return np.stack([_IMAGE[i : i + 64, j : j + 64] for i in range(3) for j in range(3)])


FAULTS = (
    Case(
        "exponentials_by_columns_of_a_2d_index",
        """
        const device float (*m)[128] = (const device float (*)[128])x;
        uint r = thread_position_in_grid.x, c = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 8; k++) {
          sum += fast::exp(m[r][c * 8 + k]);  // <- uncoalesced-access
        }
        y[c * 256 + r] = sum;
        """,
        {"x": Array(_GRID)},
        {"y": Out((16, 256))},
        (256, 16, 1),
        (64, 4, 1),
        expected=lambda: (np.exp(_GRID).reshape(256, 16, 8).sum(2).T,),
        rtol=1e-3,
    ),
    Case(
        "channels_last_to_channels_first",
        """
        uint c = thread_position_in_grid.x, p = thread_position_in_grid.y;
        uint n = thread_position_in_grid.z;
        float v = x[(n * 256 + p) * 64 + c];
        y[(n * 64 + c) * 256 + p] = v > 0 ? v : 0.1f * v;  // <- uncoalesced-access
        """,
        {"x": Array(_PIXELS)},
        {"y": Out((4, 64, 256))},
        (64, 256, 4),
        (64, 4, 1),
        expected=lambda: (np.where(_PLANES > 0, _PLANES, 0.1 * _PLANES),),
    ),
    Case(
        "patches_side_by_side",
        """
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        for (uint i = 0; i < 3; i++) {
          for (uint j = 0; j < 3; j++) {
            float v = x[(r + i) * 66 + c + j];
            y[(r * 64 + c) * 9 + i * 3 + j] = v;  // <- uncoalesced-access
          }
        }
        """,
        {"x": Array(_IMAGE)},
        {"y": Out((64, 64, 9))},
        (64, 64, 1),
        (64, 4, 1),
        expected=lambda: (_patches().transpose(1, 2, 0),),
    ),
)

CLEAN = (
    Case(
        "exponentials_by_rows_of_a_2d_index",
        """
        const device float (*m)[256] = (const device float (*)[256])x;
        uint r = thread_position_in_grid.x, c = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 8; k++) sum += fast::exp(m[c * 8 + k][r]);
        y[c * 256 + r] = sum;
        """,
        {"x": Array(_GRID.T.copy())},
        {"y": Out((16, 256))},
        (256, 16, 1),
        (64, 4, 1),
        expected=lambda: (np.exp(_GRID).reshape(256, 16, 8).sum(2).T,),
        rtol=1e-3,
    ),
    Case(
        "channels_first_through_a_tile",
        """
        threadgroup float tile[32][33];
        uint2 group = threadgroup_position_in_grid.xy;
        uint n = threadgroup_position_in_grid.z;
        uint2 lid = thread_position_in_threadgroup.xy;
        for (uint p = lid.y; p < 32; p += 8) {
          tile[p][lid.x] = x[(n * 256 + group.y * 32 + p) * 64 + group.x * 32 + lid.x];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint c = lid.y; c < 32; c += 8) {
          float v = tile[lid.x][c];
          y[(n * 64 + group.x * 32 + c) * 256 + group.y * 32 + lid.x] = v > 0 ? v : 0.1f * v;
        }
        """,
        {"x": Array(_PIXELS)},
        {"y": Out((4, 64, 256))},
        (64, 64, 4),
        (32, 8, 1),
        expected=lambda: (np.where(_PLANES > 0, _PLANES, 0.1 * _PLANES),),
    ),
    Case(
        "patches_in_planes",
        """
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        for (uint i = 0; i < 3; i++) {
          for (uint j = 0; j < 3; j++) {
            y[((i * 3 + j) * 64 + r) * 64 + c] = x[(r + i) * 66 + c + j];
          }
        }
        """,
        {"x": Array(_IMAGE)},
        {"y": Out((9, 64, 64))},
        (64, 64, 1),
        (64, 4, 1),
        expected=lambda: (_patches(),),
    ),
)
