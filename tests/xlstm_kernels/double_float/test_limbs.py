"""The guides' "limb" kernel squares bit patterns: its digits, and those of a DoubleFloat.

The kernel adds up the products of the 16-bit halves of each float's bits. These are the exponent
and mantissa, not the digits of a number, so no radix turns the sum into one of squares.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from embercoach.simulator import activate
from tests.simulator.evaluation import launch

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


def limb_square(numbers: np.ndarray) -> float:
    """The guides' kernel, with the carry propagation that they leave out."""
    with activate():
        inputs = {"data": mx.array(numbers.astype(np.float32))}
        (total,) = launch(LIMBS, inputs, {"total": ((1,), mx.float32)})
        return total.item()


def test_limbs_square_the_bits_of_the_numbers():
    v = np.array([3.0, 4.0])
    bits = [int(b) for b in v.astype(np.float32).view(np.uint32)]
    assert bits == [0x40400000, 0x40800000]
    assert limb_square(v) == pytest.approx(sum(b * b for b in bits), rel=1e-6)
    assert limb_square(v) == pytest.approx(2.335e18, rel=1e-3)  # the sum of squares is 25
