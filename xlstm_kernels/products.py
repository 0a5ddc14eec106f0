"""Products of matrices: what their operands are rounded to.

MLX multiplies float32 matrices in TF32, 11 bits of mantissa, on GPUs whose matrix hardware has that
format (NVIDIA's, Apple's from the M5 on), unless the variable MLX_ENABLE_TF32 is 0. A float32
operand then goes as the sum of two numbers of 11 bits, which TF32 keeps whole: of four products of
such parts three matter. Numbers that were bfloat16 or float16 fit into one TF32 number as they are.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import Any

import mlx.core as mx

_HIGH_BITS = 0xFFFFE000  # sign, exponent and the 10 bits of mantissa that TF32 stores
_HALF_BIT = 0x1000
_FIRST_APPLE_GENERATION = 17  # the M5's


class Precision(Enum):
    """The values of `precision=`.

    Attributes:
        DEFAULT: bfloat16 inputs are multiplied as they are; weights and states are rounded to them.
        HIGH: all products are of float32.
    """

    DEFAULT = "default"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Products:
    """How the matrices of a call are multiplied."""

    dtype: mx.Dtype  # of operands and results
    in_parts: bool = False  # operands that are float32 by nature go as two parts each

    @property
    def widened(self) -> Products:
        """Products of the call's inputs that need a float32 result."""
        return self if self.dtype == mx.float32 else Products(mx.float32)

    def operand(self, array: mx.array) -> Operand:
        """`array`, ready to be multiplied once or several times."""
        array = array.astype(self.dtype)
        return Operand(*_parts(array)) if self.in_parts else Operand(array)


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix, or a batch of them, as the sum of one part or two."""

    high: mx.array
    low: mx.array | None = None

    @property
    def transposed(self) -> Operand:
        """Rows and columns exchanged, in place."""
        low = None if self.low is None else mx.swapaxes(self.low, -1, -2)
        return Operand(mx.swapaxes(self.high, -1, -2), low)

    def __matmul__(self, other: Operand) -> mx.array:
        """The product."""
        return self.times(other)

    def times(self, other: Operand, *, plus: mx.array | None = None) -> mx.array:
        """The product, added to `plus`."""
        if self.low is not None and other.low is not None:
            small = _product(self.low, other.high, plus)
            plus = _product(self.high, other.low, small)
        return _product(self.high, other.high, plus)


def chosen(dtype: mx.Dtype, precision: Precision, *, on_gpu: bool) -> Products:
    """The products for inputs q, k and v of `dtype`.

    float16 is never multiplied as it is: states may be greater than its greatest number. bfloat16
    is, if the caller didn't ask for more, where halves are fast.
    """
    if dtype == mx.bfloat16 and precision is Precision.DEFAULT and on_gpu:
        return Products(mx.bfloat16)
    return exact() if dtype == mx.float32 else Products(mx.float32)


def exact() -> Products:
    """Products to the digits of float32; the derivatives that MLX makes of them have TF32's."""
    return Products(mx.float32, in_parts=_rounds_to_tf32())


def _rounds_to_tf32() -> bool:
    if mx.default_device() != mx.gpu or os.environ.get("MLX_ENABLE_TF32", "1") == "0":
        return False
    if mx.cuda.is_available():
        return True
    architecture: Any = mx.device_info().get("architecture", "")
    generation = str(architecture).removeprefix("applegpu_g").rstrip("abcdefghijklmnopqrstuvwxyz")
    return not generation.isdigit() or int(generation) >= _FIRST_APPLE_GENERATION


def _parts(array: mx.array) -> tuple[mx.array, mx.array]:
    """The nearest TF32 number, whose slope is one, and what is missing; NaN if not finite."""
    constant = mx.stop_gradient(array)  # MLX has no derivative of bits
    bits = constant.view(mx.uint32) + mx.array(_HALF_BIT, dtype=mx.uint32)
    high = mx.bitwise_and(bits, mx.array(_HIGH_BITS, dtype=mx.uint32)).view(mx.float32)
    low = constant - high
    return array - low, low  # exact, as low is


def _product(a: mx.array, b: mx.array, plus: mx.array | None) -> mx.array:
    return a @ b if plus is None else mx.addmm(plus, a, b)
