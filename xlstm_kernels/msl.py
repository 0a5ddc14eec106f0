"""Pieces of Metal that several kernels join into their header."""

from __future__ import annotations

PACKS = """
    // COUNT neighbouring elements, a power of two. In memory they have any type, and a thread loads
    // or stores them together, up to 16 bytes by one instruction.
    template <typename T, uint COUNT>
    struct alignas(sizeof(T) * COUNT) xlstm_pack {
        T at[COUNT];
    };
    // A pack in registers: of elements of 16 bits each holds two, until they are asked for.
    template <typename T, uint COUNT, bool PAIRS = sizeof(T) == 2 && COUNT % 2 == 0>
    struct xlstm_words : xlstm_pack<T, COUNT> {
        inline T element(uint k) const { return this->at[k]; }
        inline void put(uint k, T value) { this->at[k] = value; }
    };
    template <typename T, uint COUNT>
    struct xlstm_words<T, COUNT, true> : xlstm_pack<uint, COUNT / 2> {
        inline T element(uint k) const {
            return as_type<T>(static_cast<ushort>(this->at[k / 2] >> (16 * (k % 2))));
        }
        inline void put(uint k, T value) {
            const uint shift = 16 * (k % 2);
            const uint others = this->at[k / 2] & ~(0xffffu << shift);
            this->at[k / 2] = others | static_cast<uint>(as_type<ushort>(value)) << shift;
        }
    };
    template <typename T, uint N, uint COUNT>
    struct xlstm_packs {
        xlstm_words<T, COUNT> at[N];
        inline float number(uint i, uint k) const {
            return static_cast<float>(at[i].element(k));
        }
    };
    // Views may begin anywhere, and so may their rows.
    template <uint COUNT, typename T>
    inline bool xlstm_aligned(const device T* pointer) {
        return reinterpret_cast<size_t>(pointer) % sizeof(xlstm_pack<T, COUNT>) == 0;
    }
    // N packs, `spacing` apart, of elements `step` apart, as they are in memory. Those from
    // `present` on are zero, and so are elements from `left` on. All are under way together, as
    // nothing between the loads waits.
    template <uint N, uint COUNT, typename T>
    inline xlstm_packs<T, N, COUNT> xlstm_read_packs(
        const device T* from, int64_t spacing, int64_t step, uint present, uint left = COUNT) {
        xlstm_packs<T, N, COUNT> packs = {};
        if (present == 0) {
            return packs;
        }
        const bool whole =
            step == 1 && spacing % COUNT == 0 && left >= COUNT && xlstm_aligned<COUNT>(from);
        if (whole && present >= N) {
            #pragma clang loop unroll(full)
            for (uint i = 0; i < N; ++i) {
                packs.at[i] =
                    *reinterpret_cast<const device xlstm_words<T, COUNT>*>(from + i * spacing);
            }
        } else if (whole) {
            #pragma clang loop unroll(full)
            for (uint i = 0; i < N; ++i) {
                if (i < present) {
                    packs.at[i] =
                        *reinterpret_cast<const device xlstm_words<T, COUNT>*>(from + i * spacing);
                }
            }
        } else {
            #pragma clang loop unroll(full)
            for (uint i = 0; i < N; ++i) {
                #pragma clang loop unroll(full)
                for (uint k = 0; k < COUNT; ++k) {
                    if (i < present && k < left) {
                        packs.at[i].put(k, from[i * spacing + k * step]);
                    }
                }
            }
        }
        return packs;
    }
    #ifdef __METAL_VERSION__
    // Of inputs of fewer than 8 elements. CUDA's pointers have no address space to tell them by.
    template <uint N, uint COUNT, typename T>
    inline xlstm_packs<T, N, COUNT> xlstm_read_packs(
        const constant T* from, int64_t spacing, int64_t step, uint present, uint left = COUNT) {
        xlstm_packs<T, N, COUNT> packs = {};
        for (uint i = 0; i < metal::min(present, N); ++i) {
            for (uint k = 0; k < metal::min(left, COUNT); ++k) {
                packs.at[i].put(k, from[i * spacing + k * step]);
            }
        }
        return packs;
    }
    #endif
    // The same as floats.
    template <uint N, uint COUNT, typename Pointer>
    inline xlstm_packs<float, N, COUNT> xlstm_load_packs(
        Pointer from, int64_t spacing, int64_t step, uint present, uint left = COUNT) {
        const auto packs = xlstm_read_packs<N, COUNT>(from, spacing, step, present, left);
        xlstm_packs<float, N, COUNT> floats;
        #pragma clang loop unroll(full)
        for (uint i = 0; i < N; ++i) {
            #pragma clang loop unroll(full)
            for (uint k = 0; k < COUNT; ++k) {
                floats.at[i].at[k] = packs.number(i, k);
            }
        }
        return floats;
    }
    template <uint COUNT, typename Pointer>
    inline xlstm_pack<float, COUNT> xlstm_load(Pointer from, int64_t step, uint left = COUNT) {
        return xlstm_load_packs<1, COUNT>(from, 0, step, left > 0, left).at[0];
    }
    // Elements from `left` on are not stored.
    template <typename T, uint COUNT>
    inline void xlstm_store(device T* to, xlstm_pack<float, COUNT> floats, uint left = COUNT) {
        xlstm_pack<T, COUNT> pack;
        #pragma clang loop unroll(full)
        for (uint k = 0; k < COUNT; ++k) {
            pack.at[k] = static_cast<T>(floats.at[k]);
        }
        if (left >= COUNT && xlstm_aligned<COUNT>(to)) {
            *reinterpret_cast<device xlstm_pack<T, COUNT>*>(to) = pack;
        } else {
            #pragma clang loop unroll(full)
            for (uint k = 0; k < COUNT; ++k) {
                if (k < left) {
                    to[k] = pack.at[k];
                }
            }
        }
    }
"""

LOG_SIGMOID = """
    // log(1 + y) for y in [0, 1], where log would lose the digits of a small y: Metal has no log1p.
    // What the rounding of 1 + y took away is given back to first order (Kahan).
    inline float xlstm_log1p(float y) {
        const float sum = 1.0f + y;
        return metal::precise::log(sum) + (y - (sum - 1.0f)) / sum;
    }
    // log(sigmoid(x)) = min(x, 0) - log(1 + exp(-|x|)): exact in both tails.
    inline float xlstm_log_sigmoid(float x) {
        return metal::min(x, 0.0f) - xlstm_log1p(metal::precise::exp(-metal::abs(x)));
    }
"""

SIGMOID = """
    // sigmoid(x) and its slope, sigmoid(x) (1 - sigmoid(x)): by exp(-|x|), so that the smaller one
    // of the two factors keeps its digits.
    inline float2 xlstm_sigmoid(float x) {
        const float decay = metal::precise::exp(-metal::abs(x));
        const float big = metal::fast::divide(1.0f, 1.0f + decay);
        const float small = decay * big;
        return float2(x < 0.0f ? small : big, small * big);
    }
"""

PAIRS = """
    // A number as the unevaluated sum x + y of two floats, |y| at most half of x's last bit: twice
    // the digits. The exponents of the gates are kept so, since an error in an exponent of 100 is
    // 100 times as big in what it scales. Of an infinite x, y is zero.
    inline float2 xlstm_pair(float a, float b) {
        const float sum = a + b;
        const float other = sum - a;
        const float error = (a - (sum - other)) + (b - other);
        return float2(sum, metal::isfinite(sum) ? error : 0.0f);
    }
    inline float2 xlstm_pair_add(float2 a, float b) {
        const float2 sum = xlstm_pair(a.x, b);
        return xlstm_pair(sum.x, sum.y + a.y);
    }
    inline float2 xlstm_pair_sum(float2 a, float2 b) {
        const float2 sum = xlstm_pair(a.x, b.x);
        return xlstm_pair(sum.x, sum.y + (a.y + b.y));
    }
    inline float xlstm_pair_difference(float2 a, float2 b) {
        const float2 sum = xlstm_pair(a.x, -b.x);
        return sum.x + (sum.y + (a.y - b.y));
    }
    // exp(a + b), to the digits of a float: the exponent is not rounded to one.
    inline float xlstm_pair_exp(float2 a, float2 b) {
        const float2 sum = xlstm_pair_sum(a, b);
        return metal::precise::exp(sum.x) * (1.0f + sum.y);
    }
    // The same in half the instructions where |a| is below 10^5, as sums of a chunk's gates are:
    // what rounding takes off is small, and two terms of its exp do.
    inline float xlstm_chunk_exp(float2 a, float2 b) {
        const float sum = a.x + b.x;
        const float other = sum - a.x;
        const float error = (a.x - (sum - other)) + (b.x - other) + (a.y + b.y);
        const float rest = metal::isfinite(sum) ? error : 0.0f;
        return metal::precise::exp(sum) * (1.0f + rest * (1.0f + 0.5f * rest));
    }
    inline bool xlstm_pair_less(float2 a, float2 b) {
        return a.x < b.x || (a.x == b.x && a.y < b.y);
    }
"""

MLSTM_GATES = """
    // Of the exponential gates of the mLSTM, with LOG_SIGMOID and PAIRS. In a step, m becomes the
    // greater one of two exponents: of the forget gate (log sigmoid(f) + m) and of the input gate.
    inline float2 xlstm_log_sigmoid_pair(float x) {
        return xlstm_pair(metal::min(x, 0.0f), -xlstm_log1p(metal::precise::exp(-metal::abs(x))));
    }
    inline float2 xlstm_pair_max(float2 a, float2 b) {
        return xlstm_pair_less(a, b) ? b : a;
    }
    // The factor exp(exponent - m). If m is minus infinity, nothing is kept and nothing admitted.
    inline float xlstm_gate(float2 exponent, float2 m) {
        return m.x == -INFINITY ? 0.0f : xlstm_pair_exp(exponent, float2(-m.x, -m.y));
    }
    // exp(-m), below which the normaliser does not get. Of the numbers that a GPU takes for zero it
    // gives the next one that is not, as zero divided by zero is not zero.
    inline float xlstm_floor(float2 m) {
        return metal::max(metal::precise::exp(-m.x) * (1.0f - m.y), 1.17549435e-38f);
    }
"""
