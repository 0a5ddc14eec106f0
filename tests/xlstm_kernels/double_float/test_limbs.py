"""The guides' "limb" kernel squares bit patterns: its digits, and those of a DoubleFloat.

The kernel adds up the products of the 16-bit halves of each float's bits. These are the exponent
and mantissa, not the digits of a number, so no radix turns the sum into one of squares.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from embercoach.simulator import activate
from xlstm_kernels import DoubleFloat, default_backend

LIMBS = """
    uint limbs[8] = {0u};
    for (uint i = 0; i < uint(data_shape[0]); i++) {
        const uint bits = as_type<uint>(data[i]);
        const ulong square = ulong(bits) * ulong(bits);
        ulong carry = 0;
        for (uint l = 0; l < 8; l++) {
            const ulong digit = l < 4 ? (square >> (16 * l)) & 0xFFFFul : 0ul;
            const ulong sum = ulong(limbs[l]) + digit + carry;
            limbs[l] = uint(sum & 0xFFFFul);
            carry = sum >> 16;
        }
    }
    float result = 0.0f;
    float radix = 1.0f;
    for (uint l = 0; l < 5; l++) {
        result += float(limbs[l]) * radix;
        radix *= 65536.0f;
    }
    total[0] = result;
"""

#: The guides' lines. `lo * lo` is an int, and the carries are left out, as in the guides.
VERBATIM = """
    uint limbs[8u] = {0u};
    const uint data_size = data_shape[0];
    for (uint i = 0; i < data_size; i++) {
        uint bits = as_type<uint>(data[i]);
        ushort lo = bits & 0xFFFFu;
        ushort hi = (bits >> 16) & 0xFFFFu;

        limbs[0] += uint(lo * lo) & 0xFFFFu;
        limbs[1] += (uint(lo * lo) >> 16) + uint(lo * hi);
    }
    float result = 0.0f;
    float radix = 1.0f;
    for (uint l = 0; l < 8u; l++) {
        result += float(limbs[l]) * radix;
        radix *= 65536.0f;
    }
    total[0] = result;
"""


def float64(numbers: DoubleFloat) -> np.ndarray:
    return np.array(numbers.to_float64())


def limb_square(numbers: np.ndarray, source: str = LIMBS) -> float:
    """The guides' kernel, by default with the carry propagation that they leave out."""
    with activate():
        kernel = mx.fast.metal_kernel(
            name="guides_limbs", input_names=["data"], output_names=["total"], source=source
        )
        (total,) = kernel(
            inputs=[mx.array(numbers.astype(np.float32))],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            output_shapes=[(1,)],
            output_dtypes=[mx.float32],
        )
        return total.item()


def test_limbs_square_the_bits_of_the_numbers():
    v = np.array([3.0, 4.0])
    bits = [int(b) for b in v.astype(np.float32).view(np.uint32)]
    assert bits == [0x40400000, 0x40800000]
    assert limb_square(v) == pytest.approx(sum(b * b for b in bits), rel=1e-6)
    assert limb_square(v) == pytest.approx(2.335e18, rel=1e-3)  # the sum of squares is 25


def test_a_double_float_squares_the_numbers(simulator):
    v = DoubleFloat.from_numpy(np.array([3.0, 4.0]))
    with default_backend("metal"):
        assert float64(v.dot(v)) == 25
        tenth = DoubleFloat.from_numpy(np.array([0.1, 0.2]))
        assert float64(tenth.dot(tenth)) == pytest.approx(0.05, rel=1e-14)


def test_the_verbatim_lines_ignore_the_upper_half_of_the_bits():
    """`lo` is zero for 3 and 4, whose mantissas have few bits: so is every limb."""
    assert limb_square(np.array([3.0, 4.0]), VERBATIM) == 0  # the sum of squares is 25
    tenth = np.array([0.1])
    bits = int(tenth.astype(np.float32).view(np.uint32)[0])
    low, high = bits & 0xFFFF, bits >> 16
    # The square of the bits without that of their upper half, and half of the mixed products.
    assert limb_square(tenth, VERBATIM) == pytest.approx(low * low + 65536 * low * high, rel=1e-6)
    assert limb_square(tenth, VERBATIM) > 1e13  # the square is 0.01
