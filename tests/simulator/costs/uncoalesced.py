"""Kernels whose threads of a simdgroup access device memory far apart."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, kernel

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
    kernel("sum_of_a_row_by_each_thread", (1024, 256), close=1e-3)(
        x=_TALL, y=gives(_TALL.sum(1))
    )("""
        uint r = thread_position_in_grid.x;
        float sum = 0;
        for (uint c = 0; c < 128; c++) sum += x[r * 128 + c];  // <- uncoalesced-access
        y[r] = sum;
    """),
    kernel("transpose_with_scattered_writes", ((128, 128), 128))(x=_X, y=gives(_X.T))("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        float v = x[r * 128 + c];
        y[c * 128 + r] = v;  // <- uncoalesced-access
    """),
    kernel("transpose_with_scattered_reads", ((128, 128), 128))(x=_X, y=gives(_X.T))("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        float v = x[c * 128 + r];  // <- uncoalesced-access
        y[r * 128 + c] = v;
    """),
    kernel("one_field_of_records", (8192, 256))(records=_RECORDS, y=gives(0.5 * _RECORDS[:, 2]))("""
        float mass = records[i * 8 + 2];  // <- uncoalesced-access
        y[i] = 0.5f * mass;
    """),
    kernel("records_written_field_by_field", (8192, 256))(
        x=_RECORDS.reshape(-1)[:8192],
        y=gives(_RECORDS.reshape(-1)[:8192, None] * np.arange(8, dtype=np.float32)),
    )("""
        for (uint f = 0; f < 8; f++) y[i * 8 + f] = x[i] * f;  // <- uncoalesced-access
    """),
    kernel("matvec_with_a_row_a_thread", (1024, 128), close=1e-4)(
        w=_TALL, x=_VECTOR, y=gives(_TALL @ _VECTOR)
    )("""
        uint r = thread_position_in_grid.x;
        float sum = 0;
        for (uint k = 0; k < 128; k++) sum += w[r * 128 + k] * x[k];  // <- uncoalesced-access
        y[r] = sum;
    """),
    kernel("matmul_with_swapped_axes", ((64, 64), (32, 8)), close=1e-4)(
        a=_A, b=_B, y=gives(_A @ _B)
    )("""
        uint row = thread_position_in_grid.x, col = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 64; k++)
          sum += a[row * 64 + k] * b[k * 64 + col];  // <- uncoalesced-access
        y[row * 64 + col] = sum;  // <- uncoalesced-access
    """),
    kernel("softmax_with_a_row_a_thread", (512, 128))(x=_NARROW, y=gives(_softmax(_NARROW)))("""
        uint r = thread_position_in_grid.x;
        float best = -INFINITY, total = 0;
        for (uint c = 0; c < 64; c++) best = max(best, x[r * 64 + c]);  // <- uncoalesced-access
        for (uint c = 0; c < 64; c++)
          total += fast::exp(x[r * 64 + c] - best);  // <- uncoalesced-access
        for (uint c = 0; c < 64; c++)
          y[r * 64 + c] = fast::exp(x[r * 64 + c] - best) / total;  // <- uncoalesced-access
    """),
    kernel("chunk_of_elements_a_thread", (2048, 256))(
        x=_CHUNKS, y=gives(np.maximum(_CHUNKS, 0))
    )("""
        uint first = thread_position_in_grid.x * 16;
        for (uint k = 0; k < 16; k++)
          y[first + k] = max(x[first + k], 0.0f);  // <- uncoalesced-access
    """),
    kernel("column_means_by_simdgroup", ((32, 128), (32, 4)))(x=_TALL, y=gives(_TALL.mean(0)))("""
        uint c = thread_position_in_grid.y;
        float sum = 0;
        for (uint r = lane; r < 1024; r += 32) sum += x[r * 128 + c];  // <- uncoalesced-access
        sum = simd_sum(sum);
        if (lane == 0) y[c] = sum / 1024;
    """),
    kernel("attention_scores_with_a_key_a_thread", ((256, 4), 256), close=1e-4)(
        q=_QUERY, k=_KEYS, y=gives(np.einsum("hd,thd->ht", _QUERY, _KEYS))
    )("""
        uint t = thread_position_in_grid.x, h = thread_position_in_grid.y;
        float sum = 0;
        for (uint d = 0; d < 64; d++)
          sum += q[h * 64 + d] * k[(t * 4 + h) * 64 + d];  // <- uncoalesced-access
        y[h * 256 + t] = sum;
    """),
    kernel("pointwise_convolution_with_a_pixel_a_thread", ((1024, 8), 256), close=1e-4)(
        x=_PIXELS, w=_MIX, y=gives(_PIXELS @ _MIX)
    )("""
        uint p = thread_position_in_grid.x, o = thread_position_in_grid.y;
        float sum = 0;
        for (uint c = 0; c < 32; c++) sum += x[p * 32 + c] * w[c * 8 + o];  // <- uncoalesced-access
        y[p * 8 + o] = sum;  // <- uncoalesced-access
    """),
    kernel("recurrence_of_channels_in_rows", (1024, 128))(x=_SERIES, y=gives(_smoothed()))("""
        uint c = thread_position_in_grid.x;
        float state = 0;
        for (uint t = 0; t < 64; t++) {
          state = 0.5f * state + x[c * 64 + t];  // <- uncoalesced-access
          y[c * 64 + t] = state;  // <- uncoalesced-access
        }
    """),
    kernel("elementwise_with_swapped_axes", ((128, 128), (32, 8)))(x=_X, y=gives(2 * _X + 1))("""
        uint r = thread_position_in_grid.x, c = thread_position_in_grid.y;
        y[r * 128 + c] = 2.0f * x[r * 128 + c] + 1.0f;  // <- uncoalesced-access
    """),
    kernel("keys_written_channel_by_channel", ((128, 64, 4), (128, 2)))(
        x=_CHANNELS, cache=gives(_CHANNELS.transpose(0, 2, 1))
    )("""
        uint d = thread_position_in_grid.x;
        uint t = thread_position_in_grid.y;
        uint h = thread_position_in_grid.z;
        float v = x[(h * 64 + t) * 128 + d];
        cache[(h * 128 + d) * 64 + t] = v;  // <- uncoalesced-access
    """),
)
