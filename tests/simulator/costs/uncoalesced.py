"""Kernels whose threads of a simdgroup access device memory far apart."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats

_X = floats(128, 128)
_TALL = floats(1024, 128, seed=1)
_VECTOR = floats(128, seed=2)
_A = floats(64, 64, seed=3)
_B = floats(64, 64, seed=4)
_NARROW = floats(512, 64, seed=5)
_RECORDS = floats(8192, 8, seed=6)
_CHUNKS = floats(2048, 16, seed=7)
_KEYS = floats(256, 4, 64, seed=8)
_QUERY = floats(4, 64, seed=9)
_PIXELS = floats(1024, 32, seed=10)
_MIX = floats(32, 8, seed=11)
_SERIES = floats(1024, 64, seed=12)
_CHANNELS = floats(4, 64, 128, seed=13)


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def _smoothed() -> np.ndarray:
    state, states = np.zeros(1024, np.float32), []
    for t in range(64):
        state = 0.5 * state + _SERIES[:, t]
        states.append(state)
    return np.stack(states, 1)


FAULTS = (
    Case(
        "sum_of_a_row_by_each_thread",
        """
        uint r = thread_position_in_grid.x;
        float sum = 0;
        for (uint c = 0; c < 128; c++) {
          sum += x[r * 128 + c];  // <- uncoalesced-access
        }
        y[r] = sum;
        """,
        {"x": Array(_TALL)},
        {"y": Out((1024,))},
        (1024, 1, 1),
        (256, 1, 1),
        expected=lambda: (_TALL.sum(1),),
        rtol=1e-3,
        atol=1e-3,
    ),
    Case(
        "transpose_with_scattered_writes",
        """
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        float v = x[r * 128 + c];
        y[c * 128 + r] = v;  // <- uncoalesced-access
        """,
        {"x": Array(_X)},
        {"y": Out((128, 128))},
        (128, 128, 1),
        (128, 1, 1),
        expected=lambda: (_X.T,),
    ),
    Case(
        "transpose_with_scattered_reads",
        """
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        float v = x[c * 128 + r];  // <- uncoalesced-access
        y[r * 128 + c] = v;
        """,
        {"x": Array(_X)},
        {"y": Out((128, 128))},
        (128, 128, 1),
        (128, 1, 1),
        expected=lambda: (_X.T,),
    ),
    Case(
        "one_field_of_records",
        """
        uint i = thread_position_in_grid.x;
        float mass = records[i * 8 + 2];  // <- uncoalesced-access
        y[i] = 0.5f * mass;
        """,
        {"records": Array(_RECORDS)},
        {"y": Out((8192,))},
        (8192, 1, 1),
        (256, 1, 1),
        expected=lambda: (0.5 * _RECORDS[:, 2],),
    ),
    Case(
        "records_written_field_by_field",
        """
        uint i = thread_position_in_grid.x;
        for (uint f = 0; f < 8; f++) {
          y[i * 8 + f] = x[i] * f;  // <- uncoalesced-access
        }
        """,
        {"x": Array(_RECORDS.reshape(-1)[:8192])},
        {"y": Out((8192, 8))},
        (8192, 1, 1),
        (256, 1, 1),
        expected=lambda: (_RECORDS.reshape(-1)[:8192, None] * np.arange(8, dtype=np.float32),),
    ),
    Case(
        "matvec_with_a_row_a_thread",
        """
        uint r = thread_position_in_grid.x;
        float sum = 0;
        for (uint k = 0; k < 128; k++) {
          sum += w[r * 128 + k] * x[k];  // <- uncoalesced-access
        }
        y[r] = sum;
        """,
        {"w": Array(_TALL), "x": Array(_VECTOR)},
        {"y": Out((1024,))},
        (1024, 1, 1),
        (128, 1, 1),
        expected=lambda: (_TALL @ _VECTOR,),
        rtol=1e-3,
        atol=1e-3,
    ),
    Case(
        "matmul_with_swapped_axes",
        """
        uint row = thread_position_in_grid.x, col = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 64; k++) {
          sum += a[row * 64 + k] * b[k * 64 + col];  // <- uncoalesced-access
        }
        y[row * 64 + col] = sum;  // <- uncoalesced-access
        """,
        {"a": Array(_A), "b": Array(_B)},
        {"y": Out((64, 64))},
        (64, 64, 1),
        (32, 8, 1),
        expected=lambda: (_A @ _B,),
        rtol=1e-3,
        atol=1e-4,
    ),
    Case(
        "softmax_with_a_row_a_thread",
        """
        uint r = thread_position_in_grid.x;
        float best = -INFINITY, total = 0;
        for (uint c = 0; c < 64; c++) {
          best = max(best, x[r * 64 + c]);  // <- uncoalesced-access
        }
        for (uint c = 0; c < 64; c++) {
          total += fast::exp(x[r * 64 + c] - best);  // <- uncoalesced-access
        }
        for (uint c = 0; c < 64; c++) {
          y[r * 64 + c] = fast::exp(x[r * 64 + c] - best) / total;  // <- uncoalesced-access
        }
        """,
        {"x": Array(_NARROW)},
        {"y": Out((512, 64))},
        (512, 1, 1),
        (128, 1, 1),
        expected=lambda: (_softmax(_NARROW),),
        rtol=1e-4,
    ),
    Case(
        "chunk_of_elements_a_thread",
        """
        uint first = thread_position_in_grid.x * 16;
        for (uint k = 0; k < 16; k++) {
          y[first + k] = max(x[first + k], 0.0f);  // <- uncoalesced-access
        }
        """,
        {"x": Array(_CHUNKS)},
        {"y": Out((2048, 16))},
        (2048, 1, 1),
        (256, 1, 1),
        expected=lambda: (np.maximum(_CHUNKS, 0),),
    ),
    Case(
        "column_means_by_simdgroup",
        """
        uint lane = thread_index_in_simdgroup;
        uint c = thread_position_in_grid.y;
        float sum = 0;
        for (uint r = lane; r < 1024; r += 32) {
          sum += x[r * 128 + c];  // <- uncoalesced-access
        }
        sum = simd_sum(sum);
        if (lane == 0) y[c] = sum / 1024;
        """,
        {"x": Array(_TALL)},
        {"y": Out((128,))},
        (32, 128, 1),
        (32, 4, 1),
        expected=lambda: (_TALL.mean(0),),
        rtol=1e-3,
        atol=1e-4,
    ),
    Case(
        "attention_scores_with_a_key_a_thread",
        """
        uint t = thread_position_in_grid.x, h = thread_position_in_grid.y;
        float sum = 0;
        for (uint d = 0; d < 64; d++) {
          sum += q[h * 64 + d] * k[(t * 4 + h) * 64 + d];  // <- uncoalesced-access
        }
        y[h * 256 + t] = sum;
        """,
        {"q": Array(_QUERY), "k": Array(_KEYS)},
        {"y": Out((4, 256))},
        (256, 4, 1),
        (256, 1, 1),
        expected=lambda: (np.einsum("hd,thd->ht", _QUERY, _KEYS),),
        rtol=1e-3,
        atol=1e-3,
    ),
    Case(
        "pointwise_convolution_with_a_pixel_a_thread",
        """
        uint p = thread_position_in_grid.x, o = thread_position_in_grid.y;
        float sum = 0;
        for (uint c = 0; c < 32; c++) {
          sum += x[p * 32 + c] * w[c * 8 + o];  // <- uncoalesced-access
        }
        y[p * 8 + o] = sum;  // <- uncoalesced-access
        """,
        {"x": Array(_PIXELS), "w": Array(_MIX)},
        {"y": Out((1024, 8))},
        (1024, 8, 1),
        (256, 1, 1),
        expected=lambda: (_PIXELS @ _MIX,),
        rtol=1e-3,
        atol=1e-4,
    ),
    Case(
        "recurrence_of_channels_in_rows",
        """
        uint c = thread_position_in_grid.x;
        float state = 0;
        for (uint t = 0; t < 64; t++) {
          state = 0.5f * state + x[c * 64 + t];  // <- uncoalesced-access
          y[c * 64 + t] = state;  // <- uncoalesced-access
        }
        """,
        {"x": Array(_SERIES)},
        {"y": Out((1024, 64))},
        (1024, 1, 1),
        (128, 1, 1),
        expected=lambda: (_smoothed(),),
        rtol=1e-4,
        atol=1e-5,
    ),
    Case(
        "elementwise_with_swapped_axes",
        """
        uint r = thread_position_in_grid.x, c = thread_position_in_grid.y;
        y[r * 128 + c] = 2.0f * x[r * 128 + c] + 1.0f;  // <- uncoalesced-access
        """,
        {"x": Array(_X)},
        {"y": Out((128, 128))},
        (128, 128, 1),
        (32, 8, 1),
        expected=lambda: (2 * _X + 1,),
    ),
    Case(
        "keys_written_channel_by_channel",
        """
        uint d = thread_position_in_grid.x;
        uint t = thread_position_in_grid.y;
        uint h = thread_position_in_grid.z;
        float v = x[(h * 64 + t) * 128 + d];
        cache[(h * 128 + d) * 64 + t] = v;  // <- uncoalesced-access
        """,
        {"x": Array(_CHANNELS)},
        {"cache": Out((4, 128, 64))},
        (128, 64, 4),
        (128, 2, 1),
        expected=lambda: (_CHANNELS.transpose(0, 2, 1),),
    ),
)
