"""Clean kernels as language and vision models have them."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Out, floats, gives, integers, kernel

_X = floats(3, 4, 16)
_Q, _K, _V = floats(2, 64), floats(37, 64, seed=1), floats(37, 64, seed=2)
_STATE, _STEPS = floats(4, 64), floats(5, 64, seed=3)
_GATE, _DELTA = np.abs(floats(5, seed=4)) % 1, floats(5, 4, seed=5)
_CODES, _SCALES, _BIASES = integers(0, 16, 6, 64), floats(6, 2), floats(6, 2, seed=6)
_VECTOR = floats(64, seed=7).astype(np.float16)
_IMAGE = floats(9, 7, 3, seed=8)
_TABLE, _ROWS = floats(12, 10), np.array([3, -1, 0, -12, 11, 5, 5, -2], dtype=np.int64)
_GROUPED = floats(2, 96, seed=9).astype(np.float16)
_LOGITS, _LABELS = floats(5, 70, seed=10), np.array([3, 69, 0, 31, 32], dtype=np.int32)
_WORDS = (_CODES.reshape(6, 8, 8) << (4 * np.arange(8))).sum(-1).astype(np.uint32)


def _rope(x: np.ndarray, offset: int) -> np.ndarray:
    half = x.shape[-1] // 2
    speed = 10000.0 ** (-np.arange(half) / half)
    angle = (np.arange(x.shape[1])[:, None] + offset) * speed
    a, b = x[..., :half], x[..., half:]
    c, s = np.cos(angle), np.sin(angle)
    return np.concatenate([a * c - b * s, a * s + b * c], axis=-1)


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q @ k.T / 8
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ v


def _delta_rule() -> tuple[np.ndarray, np.ndarray]:
    state, out = _STATE.copy(), []
    for gate, key, value in zip(_GATE, _STEPS, _DELTA, strict=True):
        state *= gate
        state += (value - state @ key)[:, None] * key * 0.01
        out.append(state @ key)
    return np.stack(out), state


def _upsampled(x: np.ndarray) -> np.ndarray:
    rows = (np.arange(18) + 0.5) / 2 - 0.5
    columns = (np.arange(14) + 0.5) / 2 - 0.5

    def corners(at: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        low = np.floor(at).astype(int)
        return low.clip(0, size - 1), (low + 1).clip(0, size - 1), at - low

    r0, r1, fr = corners(rows, 9)
    c0, c1, fc = corners(columns, 7)
    fr, fc = fr[:, None, None], fc[None, :, None]
    top = x[r0][:, c0] * (1 - fc) + x[r0][:, c1] * fc
    return top * (1 - fr) + (x[r1][:, c0] * (1 - fc) + x[r1][:, c1] * fc) * fr


def _group_norm(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float32)
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-3)


CLEAN = (
    kernel("rotary_embedding", ((8, 4, 3), (8, 2)))(
        T="float32", x=_X, offset=np.int32(17), y=gives(_rope(_X, 17))
    )("""
        inline float2 rotate(float2 v, float angle) {
          float c = metal::precise::cos(angle), s = metal::precise::sin(angle);
          return float2(v.x * c - v.y * s, v.x * s + v.y * c);
        }
        // body
        uint3 g = thread_position_in_grid;
        uint pairs = threads_per_grid.x, steps = threads_per_grid.y;
        uint at = (g.z * steps + g.y) * 2 * pairs + g.x;
        float speed = metal::pow(10000.0f, -float(g.x) / float(pairs));
        float2 r = rotate(float2(x[at], x[at + pairs]), float(g.y + uint(offset)) * speed);
        y[at] = static_cast<T>(r.x);
        y[at + pairs] = static_cast<T>(r.y);
    """),
    kernel("attention_of_one_token", ((128, 2), 128))(
        D=64,
        queries=_Q,
        keys=_K,
        values=_V,
        scale=np.float32(0.125),
        y=gives(_attention(_Q, _K, _V)),
    )("""
        constexpr int SIMDS = 4;
        constexpr int PER_LANE = D / 32;
        threadgroup float outs[SIMDS * D], tops[SIMDS], sums[SIMDS];
        const uint head = threadgroup_position_in_grid.y;
        const int n = keys_shape[0];
        thread float qv[PER_LANE], acc[PER_LANE];
        for (int j = 0; j < PER_LANE; ++j) {
          qv[j] = scale * queries[head * D + lane * PER_LANE + j];
          acc[j] = 0;
        }
        float top = -1e30f, sum = 0;
        for (int t = sg; t < n; t += SIMDS) {
          float score = 0;
          for (int j = 0; j < PER_LANE; ++j) score += qv[j] * keys[t * D + lane * PER_LANE + j];
          score = simd_sum(score);
          float above = max(top, score);
          float keep = fast::exp(top - above), w = fast::exp(score - above);
          top = above;
          sum = sum * keep + w;
          for (int j = 0; j < PER_LANE; ++j)
            acc[j] = acc[j] * keep + w * values[t * D + lane * PER_LANE + j];
        }
        if (lane == 0) {
          tops[sg] = top;
          sums[sg] = sum;
        }
        for (int j = 0; j < PER_LANE; ++j) outs[sg * D + lane * PER_LANE + j] = acc[j];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < D) {
          float all = -1e30f, total = 0, out = 0;
          for (int s = 0; s < SIMDS; ++s) all = max(all, tops[s]);
          for (int s = 0; s < SIMDS; ++s) {
            float w = fast::exp(tops[s] - all);
            total += w * sums[s];
            out += w * outs[s * D + lid];
          }
          y[head * D + lid] = out / total;
        }
    """),
    kernel("gated_delta_rule", ((32, 4), (32, 4)), close=1e-4, expected=_delta_rule())(
        T="float32",
        DK=64,
        state_in=_STATE,
        k=_STEPS,
        v=_DELTA,
        gate=_GATE,
        steps=np.int32(5),
        y=Out(5, 4),
        state_out=Out(4, 64),
    )("""
        constexpr int n = DK / 32;
        auto row = thread_position_in_grid.y;
        auto lane = thread_index_in_simdgroup;
        float state[n];
        for (int i = 0; i < n; ++i) state[i] = float(state_in[row * DK + n * lane + i]);
        auto k_ = k;
        for (int t = 0; t < steps; ++t) {
          float memory = 0.0f;
          for (int i = 0; i < n; ++i) {
            auto s = n * lane + i;
            state[i] *= gate[t];
            memory += state[i] * k_[s];
          }
          memory = simd_sum(memory);
          float delta = (v[t * 4 + row] - memory) * 0.01f, out = 0.0f;
          for (int i = 0; i < n; ++i) {
            state[i] += k_[n * lane + i] * delta;
            out += state[i] * k_[n * lane + i];
          }
          out = simd_sum(out);
          if (lane == 0) y[t * 4 + row] = static_cast<T>(out);
          k_ += DK;
        }
        for (int i = 0; i < n; ++i) state_out[row * DK + n * lane + i] = static_cast<T>(state[i]);
    """),
    kernel("four_bit_matrix_times_vector", ((32, 6), (32, 2)))(
        codes=_WORDS,
        scales=_SCALES,
        biases=_BIASES,
        x=_VECTOR,
        y=gives(
            (_CODES * np.repeat(_SCALES, 32, 1) + np.repeat(_BIASES, 32, 1))
            @ _VECTOR.astype(np.float32)
        ),
    )("""
        template <int BITS>
        struct Unpack {
          static constexpr constant uint kMask = (1u << BITS) - 1;
          static inline float get(uint word, uint k) {
            return float((word >> (BITS * k)) & kMask);
          }
        };
        // body
        uint row = thread_position_in_grid.y, words = codes_shape[1];
        float acc = 0;
        for (uint w = lane; w < words; w += 32) {
          uint32_t word = codes[row * words + w];
          float scale = scales[row * 2 + w / 4], bias = biases[row * 2 + w / 4];
          const device half4* v = (const device half4*)(x + 8 * w);
          float part = 0, whole = 0;
          #pragma clang loop unroll(full)
          for (uint k = 0; k < 8; ++k) {
            float e = float(v[k / 4][k % 4]);
            part = fma(Unpack<4>::get(word, k), e, part);
            whole += e;
          }
          acc += scale * part + bias * whole;
        }
        acc = simd_sum(acc);
        if (lane == 0) y[row] = acc;
    """),
    kernel("bilinear_upsampling", ((14, 18), (8, 8)))(x=_IMAGE, y=gives(_upsampled(_IMAGE)))("""
        uint3 g = thread_position_in_grid;
        int H = x_shape[0], W = x_shape[1], C = x_shape[2];
        float r = (float(g.y) + 0.5f) * 0.5f - 0.5f, c = (float(g.x) + 0.5f) * 0.5f - 0.5f;
        int r0 = int(floor(r)), c0 = int(floor(c));
        float fr = r - r0, fc = c - c0;
        int r1 = clamp(r0 + 1, 0, H - 1), c1 = clamp(c0 + 1, 0, W - 1);
        r0 = clamp(r0, 0, H - 1);
        c0 = clamp(c0, 0, W - 1);
        for (int k = 0; k < C; ++k) {
          float top = mix(x[(r0 * W + c0) * C + k], x[(r0 * W + c1) * C + k], fc);
          float low = mix(x[(r1 * W + c0) * C + k], x[(r1 * W + c1) * C + k], fc);
          y[(g.y * 2 * W + g.x) * C + k] = mix(top, low, fr);
        }
    """),
    kernel("gather_with_negative_rows", ((10, 8), (10, 4)), close=0, contiguous=False)(
        rows=_ROWS, table=Array(_TABLE.T.copy(), view=lambda a: a.T), y=gives(_TABLE[_ROWS])
    )("""
        uint3 g = thread_position_in_grid;
        int64_t row = rows[g.y];
        if (row < 0) row += table_shape[0];
        y[g.y * 10 + g.x] = table[row * table_strides[0] + g.x * table_strides[1]];
    """),
    kernel("normalisation_by_welford", ((96, 2), 96), close=0.002)(
        x=_GROUPED, y=gives(_group_norm(_GROUPED), "float16")
    )("""
        threadgroup float3 parts[3];
        uint row = thread_position_in_grid.y;
        const float v = float(x[row * 96 + lid]);
        float mean = simd_sum(v) / 32, m2 = simd_sum((v - mean) * (v - mean));
        if (simd_is_first()) parts[simdgroup_index_in_threadgroup] = float3(mean, m2, 32);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float3 all = parts[0];
        for (uint k = 1; k < 3; ++k) {
          float3 p = parts[k];
          float n = all.z + p.z, d = p.x - all.x;
          all.xy = float2(all.x + d * p.z / n, all.y + p.y + d * d * all.z * p.z / n);
          all.z = n;
        }
        y[row * 96 + lid] = half((v - all.x) * metal::precise::rsqrt(all.y / all.z + 1e-3f));
    """),
    kernel("cross_entropy_of_rows", (320, 64))(
        x=_LOGITS,
        labels=_LABELS,
        loss=gives(np.log(np.exp(_LOGITS).sum(1)) - _LOGITS[np.arange(5), _LABELS]),
    )("""
        threadgroup float shared[2];
        const uint row = threadgroup_position_in_grid.x;
        const device float* in = x + row * 70;
        float m = -INFINITY;
        for (uint c = lid; c < 70; c += 64) m = fmax(m, in[c]);
        m = simd_max(m);
        if (lid % 32 == 0) shared[lid / 32] = m;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        m = fmax(shared[0], shared[1]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float s = 0;
        for (uint c = lid; c < 70; c += 64) s += exp(in[c] - m);
        s = simd_sum(s);
        if (lid % 32 == 0) shared[lid / 32] = s;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == 0) loss[row] = log(shared[0] + shared[1]) + m - in[labels[row]];
    """),
)
