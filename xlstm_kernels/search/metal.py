"""WarpSelect in Metal: a SIMD group keeps the smallest pairs (key, id) in its registers.

Johnson, Douze, Jegou: Billion-scale similarity search with GPUs, 2017. A lane holds one pair of
each of ROWS rows; the rows one after the other are sorted. A bitonic network sorts 32 candidates
and merges them into the rows, only if one of them comes before the last pair kept.
"""

from __future__ import annotations

LANES = 32
MOST = 1024

SELECT = """
    constant int xlstm_no_id = 0x7fffffff;
    // Equal keys: the lower id first.
    inline bool xlstm_before(float key, int id, float other_key, int other_id) {
        return key < other_key || (key == other_key && id < other_id);
    }
    inline void xlstm_exchange(
        thread float& key, thread int& id, uint stride, bool keep_first) {
        const float other_key = simd_shuffle_xor(key, stride);
        const int other_id = simd_shuffle_xor(id, stride);
        if (xlstm_before(other_key, other_id, key, id) == keep_first) {
            key = other_key;
            id = other_id;
        }
    }
    // Sorts a bitonic sequence.
    inline void xlstm_merge(thread float& key, thread int& id, uint lane) {
        #pragma clang loop unroll(full)
        for (uint stride = 16; stride > 0; stride /= 2) {
            xlstm_exchange(key, id, stride, (lane & stride) == 0);
        }
    }
    inline void xlstm_sort(thread float& key, thread int& id, uint lane) {
        #pragma clang loop unroll(full)
        for (uint size = 2; size <= 32; size *= 2) {
            #pragma clang loop unroll(full)
            for (uint stride = size / 2; stride > 0; stride /= 2) {
                xlstm_exchange(key, id, stride, ((lane & stride) == 0) == ((lane & size) == 0));
            }
        }
    }
    template <uint ROWS>
    struct xlstm_smallest {
        float keys[ROWS];
        int ids[ROWS];
        inline void clear() {
            #pragma clang loop unroll(full)
            for (uint r = 0; r < ROWS; ++r) {
                keys[r] = INFINITY;
                ids[r] = xlstm_no_id;
            }
        }
        // One candidate of each lane; `last` is the lane of the last pair that is returned. NaN
        // and infinite keys are none.
        inline void add(float key, int id, uint lane, uint last) {
            const float worst_key = simd_shuffle(keys[ROWS - 1], last);
            const int worst_id = simd_shuffle(ids[ROWS - 1], last);
            const bool better =
                key < INFINITY && id >= 0 && xlstm_before(key, id, worst_key, worst_id);
            if (!simd_any(better)) {
                return;
            }
            key = better ? key : INFINITY;
            id = better ? id : xlstm_no_id;
            xlstm_sort(key, id, lane);
            #pragma clang loop unroll(full)
            for (uint r = 0; r < ROWS; ++r) {
                const float other_key = simd_shuffle(key, 31 - lane);
                const int other_id = simd_shuffle(id, 31 - lane);
                const bool first = xlstm_before(other_key, other_id, keys[r], ids[r]);
                key = first ? keys[r] : other_key;
                id = first ? ids[r] : other_id;
                keys[r] = first ? other_key : keys[r];
                ids[r] = first ? other_id : ids[r];
                xlstm_merge(keys[r], ids[r], lane);
                xlstm_merge(key, id, lane);
            }
        }
        inline void store(device float* to_keys, device int* to_ids, uint lane) const {
            #pragma clang loop unroll(full)
            for (uint r = 0; r < ROWS; ++r) {
                to_keys[r * 32 + lane] = keys[r];
                to_ids[r * 32 + lane] = keys[r] < INFINITY ? ids[r] : -1;
            }
        }
    };
"""
