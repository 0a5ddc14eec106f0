"""Metal text that the kernels of `svd` and `eigh` share: rotations, and the order of their pairs.

A sweep rotates every pair of columns once. The pairs of a round have no column in common, so that
they are rotated at once, and the rounds are those of a tournament in which all play all (Brent and
Luk 1985; Golub and Van Loan, Matrix Computations, section 8.5.5).
"""

from __future__ import annotations

#: A power of two near the largest number of a matrix brings it near 1, where squares are normal.
ROTATIONS = """
    #include <metal_stdlib>
    // The power of two below `largest`, of which the reciprocal is a normal number too.
    inline float xlstm_power_of_two(float largest) {
        const float clamped = metal::clamp(largest, 1.2e-38f, 8.5e37f);
        return as_type<float>(as_type<uint>(clamped) & 0x7f800000u);
    }
    // The two of a pair in a round; a column `circle` exists where their number is even.
    inline uint2 xlstm_pair(uint round, uint pair, uint circle) {
        if (pair == 0) {
            return uint2(round, circle);
        }
        const uint first = (round + pair) % circle;
        const uint second = (round + circle - pair) % circle;
        return uint2(metal::min(first, second), metal::max(first, second));
    }
    // Sine, and tangent of half the angle, of the rotation that diagonalizes (xx, xy; xy, yy).
    inline float2 xlstm_rotation(float xx, float xy, float yy) {
        const float zeta = (yy - xx) / (2.0f * xy);
        const float size = metal::abs(zeta);
        // The square of a large number overflows, and makes no difference.
        const float root = size > 1e9f ? size : metal::precise::sqrt(1.0f + size * size);
        const float tangent = metal::copysign(1.0f / (size + root), zeta);
        const float cosine = 1.0f / metal::precise::sqrt(1.0f + tangent * tangent);
        const float sine = cosine * tangent;
        return float2(sine, sine / (1.0f + cosine));
    }
    // (x, y) rotated, as a correction of x and y: small angles lose no digits (Rutishauser 1966).
    inline float2 xlstm_rotated(float x, float y, float2 rotation) {
        return float2(
            x - rotation.x * (y + rotation.y * x), y + rotation.x * (x - rotation.y * y));
    }
    // Rotates the elements `at` of two rows of a symmetric matrix, and the same columns by `turn`.
    template <typename Row>
    inline void xlstm_rotate_block(
        Row upper, Row lower, uint2 at, float2 rotation, float2 turn, bool diagonal) {
        if (diagonal) {
            const float tangent = rotation.x / (1.0f - rotation.x * rotation.y);
            const float element = upper[at.y];
            upper[at.x] -= tangent * element;
            lower[at.y] += tangent * element;
            upper[at.y] = rotation.x == 0.0f ? element : 0.0f;
            lower[at.x] = upper[at.y];
            return;
        }
        const float2 left = xlstm_rotated(upper[at.x], lower[at.x], rotation);
        const float2 right = xlstm_rotated(upper[at.y], lower[at.y], rotation);
        const float2 up = xlstm_rotated(left.x, right.x, turn);
        const float2 down = xlstm_rotated(left.y, right.y, turn);
        upper[at.x] = up.x;
        upper[at.y] = up.y;
        lower[at.x] = down.x;
        lower[at.y] = down.y;
    }
    // The maximum of a number of each thread, given to each thread.
    inline float xlstm_group_max(
        float value, threadgroup float* partial, uint simdgroup, uint simdgroups, uint lane) {
        value = simd_max(value);
        // What an earlier maximum left has been read.
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lane == 0) {
            partial[simdgroup] = value;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        return simd_max(lane < simdgroups ? partial[lane] : partial[0]);
    }
"""
