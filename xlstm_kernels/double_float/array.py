"""`DoubleFloat`: an array of numbers, each of them the sum of two float32."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, TypeAlias

import mlx.core as mx
import numpy as np
from numpy.typing import DTypeLike, NDArray

from xlstm_kernels import executors
from xlstm_kernels.arguments import require_floating
from xlstm_kernels.double_float import pairs
from xlstm_kernels.double_float.elementwise import elementwise
from xlstm_kernels.double_float.matrix_product import matrix_product
from xlstm_kernels.double_float.reductions import doubled, row_sum

Operand: TypeAlias = "DoubleFloat | mx.array | float"

_MOST_FACTORS = 64  # of a power by products, whose error grows with the exponent


@dataclass(frozen=True, eq=False, slots=True)
class DoubleFloat:
    """An array of numbers high + low, about 48 bits each; the arithmetic of float64 on a GPU.

    Operators broadcast, and take a DoubleFloat, an array of float32, float16 or bfloat16 (on the
    right side) or a number. The backend is that of `default_backend`. Numbers have the range of a
    float32; all digits hold from 2^-100 to 2^127, as the low part must be a normal number too.

    A gradient in `high` is that in the number; `low` gets the same one.

    Attributes:
        high: the numbers, rounded to float32.
        low: what the rounding left out, of the same shape; zero if `high` is not finite.

    Raises:
        TypeError: for parts that are not float32.
        ValueError: for parts of two shapes.
    """

    high: mx.array
    low: mx.array

    # NumPy then leaves `array + DoubleFloat` to this class.
    __array_ufunc__: ClassVar[None] = None

    def __post_init__(self) -> None:
        for name, part in (("high", self.high), ("low", self.low)):
            require_floating("DoubleFloat", name, part)
            if part.dtype != mx.float32:
                raise TypeError(f"DoubleFloat: {name} must be float32, got {part.dtype}")
        if self.high.shape != self.low.shape:
            raise ValueError(
                f"DoubleFloat: high and low must have one shape, got {self.high.shape} and "
                f"{self.low.shape}"
            )

    @classmethod
    def from_numpy(cls, numbers: NDArray[np.float64] | float) -> DoubleFloat:
        """Split float64 numbers, to a relative error of 2^-48; beyond float32 they are infinite."""
        wide = np.asarray(numbers, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            high = wide.astype(np.float32)
            low = np.where(np.isfinite(high), wide - high, 0.0).astype(np.float32)
        return cls(mx.array(high), mx.array(low))

    @classmethod
    def from_array(cls, array: mx.array) -> DoubleFloat:
        """The same numbers, of float32, float16 or bfloat16.

        Raises:
            TypeError: for another dtype.
        """
        require_floating("DoubleFloat.from_array", "array", array)
        return cls(*pairs.pair(array.astype(mx.float32)))

    def to_float64(self) -> mx.array:
        """The numbers, rounded to a float64 array of the CPU."""
        with mx.stream(mx.cpu):
            return doubled(self.high, self.low)

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> NDArray[np.float64]:
        if copy is False:
            raise ValueError("DoubleFloat: NumPy's float64 array is a copy, got copy=False")
        numbers: NDArray[np.float64] = self.to_float64().__array__()
        return numbers if dtype is None else numbers.astype(dtype)

    def item(self) -> float:
        """Return the number of an array of one element, as a Python float.

        Raises:
            ValueError: for another size.
        """
        if self.size != 1:
            raise ValueError(f"DoubleFloat.item: array must have one element, got {self.shape}")
        return float(self.__array__().item())

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.high.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.high.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.high.size

    @property
    def T(self) -> DoubleFloat:  # noqa: N802 (NumPy's name)
        """The array with its axes in reverse order."""
        return DoubleFloat(self.high.T, self.low.T)

    def reshape(self, *shape: int) -> DoubleFloat:
        """The same numbers in another shape, as `mx.array.reshape`; -1 is inferred."""
        return DoubleFloat(self.high.reshape(shape), self.low.reshape(shape))

    def __getitem__(self, index: object) -> DoubleFloat:
        """The same numbers as of `mx.array`; as there, an index beyond the end is undefined."""
        return DoubleFloat(self.high[index], self.low[index])

    def __iter__(self) -> Iterator[DoubleFloat]:
        return map(DoubleFloat, self.high, self.low)

    def __abs__(self) -> DoubleFloat:
        below = self.high < mx.zeros_like(self.high)
        return DoubleFloat(mx.abs(self.high), mx.where(below, mx.negative(self.low), self.low))

    def __add__(self, other: Operand) -> DoubleFloat:
        return _apply("add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Operand) -> DoubleFloat:
        return _apply("add", self, -_operand(other))

    def __rsub__(self, other: Operand) -> DoubleFloat:
        return _apply("add", other, -self)

    def __mul__(self, other: Operand) -> DoubleFloat:
        return _apply("multiply", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> DoubleFloat:
        return _apply("divide", self, other)

    def __rtruediv__(self, other: Operand) -> DoubleFloat:
        return _apply("divide", other, self)

    def __pow__(self, other: Operand) -> DoubleFloat:
        exponent = _operand(other)
        if not isinstance(other, (DoubleFloat, mx.array, np.ndarray)):
            number = float(other)
            if abs(number) <= _MOST_FACTORS and number.is_integer():
                return _whole_power(self, int(number))
        return _power(self, exponent)

    def __rpow__(self, other: Operand) -> DoubleFloat:
        return _power(_operand(other), self)

    def __neg__(self) -> DoubleFloat:
        return DoubleFloat(mx.negative(self.high), mx.negative(self.low))

    def __matmul__(self, other: DoubleFloat | mx.array) -> DoubleFloat:
        return self.matmul(other)

    def __lt__(self, other: Operand) -> mx.array:
        return pairs.less(self._pair, _operand(other)._pair)

    def __gt__(self, other: Operand) -> mx.array:
        return pairs.less(_operand(other)._pair, self._pair)

    def __le__(self, other: Operand) -> mx.array:
        return mx.logical_or(self < other, self == other)

    def __ge__(self, other: Operand) -> mx.array:
        return mx.logical_or(self > other, self == other)

    def __eq__(self, other: Operand) -> mx.array:  # type: ignore[override]
        given = _operand(other)
        return mx.logical_and(self.high == given.high, self.low == given.low)

    __hash__ = None  # type: ignore[assignment]  # as == gives an array

    def __ne__(self, other: Operand) -> mx.array:  # type: ignore[override]
        return mx.logical_not(self == other)

    def sqrt(self) -> DoubleFloat:
        """The square root: NaN below zero."""
        return _apply("sqrt", self)

    def exp(self) -> DoubleFloat:
        """The exponential function: infinite from 88.73 on, zero below -103.97."""
        return _apply("exp", self)

    def log(self) -> DoubleFloat:
        """The natural logarithm: NaN below zero, minus infinity at zero and subnormal numbers."""
        return _apply("log", self)

    def sum(
        self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
    ) -> DoubleFloat:
        """The sum over `axis`, several, or all; zero over none.

        Raises:
            ValueError: for an axis that the array lacks or that is named twice.
        """
        rows, shape = self._rows("sum", axis, keepdims=keepdims)
        return DoubleFloat(*row_sum(executors.resolve(None))(*rows)).reshape(*shape)

    def mean(
        self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
    ) -> DoubleFloat:
        """The mean over `axis`, several, or all; NaN of no elements. Errors are those of `sum`."""
        (high, _), _ = self._rows("mean", axis, keepdims=keepdims)
        return self.sum(axis, keepdims=keepdims) / high.shape[1]

    def max(
        self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
    ) -> DoubleFloat:
        """The maximum over `axis`, several, or all: NaN if one is NaN.

        The gradient is that of the first of equal elements. Errors are those of `sum`, and a
        ValueError for no elements.
        """
        (high, low), shape = self._rows("max", axis, keepdims=keepdims)
        if not high.shape[1]:
            raise ValueError(f"DoubleFloat.max: axis must have elements, got shape {self.shape}")
        constant = mx.stop_gradient(high)
        greatest = mx.max(constant, axis=1, keepdims=True)
        candidates = mx.logical_or(constant == greatest, mx.isnan(constant))
        lows = mx.where(candidates, mx.stop_gradient(low), mx.full(low.shape, -math.inf))
        place = mx.argmax(lows, axis=1, keepdims=True)
        found = (mx.take_along_axis(part, place, axis=1) for part in (high, low))
        return DoubleFloat(*found).reshape(*shape)

    def min(
        self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
    ) -> DoubleFloat:
        """The minimum, as `max`."""
        return -(-self).max(axis, keepdims=keepdims)

    def dot(self, other: DoubleFloat | mx.array) -> DoubleFloat:
        """The dot product of two vectors, a 0-d array.

        Raises:
            ValueError: for arrays that are not 1-d, or of two lengths.
        """
        given = _operand(other)
        if self.ndim != 1 or given.ndim != 1:
            raise ValueError(
                f"DoubleFloat.dot: both arrays must be 1-d, got {self.shape} and {given.shape}; "
                "use matmul or vecdot"
            )
        return self.vecdot(given)

    def vecdot(self, other: DoubleFloat | mx.array) -> DoubleFloat:
        """Dot products over the last axis, as `numpy.vecdot`: (..., K), (..., K) -> (...).

        Raises:
            ValueError: for a 0-d array, two lengths, or axes that do not broadcast.
        """
        given = _operand(other)
        if not (self.ndim and given.ndim) or self.shape[-1] != given.shape[-1]:
            raise ValueError(
                "DoubleFloat.vecdot: the last axes must have one length, got "
                f"{self.shape} and {given.shape}"
            )
        shape = _broadcast_shape(self.shape, given.shape)
        flat = (math.prod(shape[:-1]), shape[-1])
        parts = (part.reshape(flat) for part in _broadcast(shape, self, given))
        return DoubleFloat(*row_sum(executors.resolve(None), factors=2)(*parts)).reshape(
            *shape[:-1]
        )

    def matmul(self, other: DoubleFloat | mx.array) -> DoubleFloat:
        """The matrix product, as `numpy.matmul`: (..., M, K), (..., K, N) -> (..., M, N).

        A 1-d operand is a row on the left, a column on the right; its axis is not in the result.

        Raises:
            ValueError: for a 0-d operand, or shapes that do not fit.
        """
        given = _operand(other)
        if not (self.ndim and given.ndim):
            raise ValueError("DoubleFloat.matmul: operands must have an axis, got a 0-d array")
        left = self if self.ndim > 1 else self.reshape(1, -1)
        right = given if given.ndim > 1 else given.reshape(-1, 1)
        if left.shape[-1] != right.shape[-2]:
            raise ValueError(
                f"DoubleFloat.matmul: shapes {self.shape} and {given.shape} do not fit"
            )
        batch = _broadcast_shape(left.shape[:-2], right.shape[:-2])
        parts = [
            part.reshape(math.prod(batch), *operand.shape[-2:])
            for operand in (left, right)
            for part in _broadcast((*batch, *operand.shape[-2:]), operand)
        ]
        rows = (left.shape[-2],) if self.ndim > 1 else ()
        columns = (right.shape[-1],) if given.ndim > 1 else ()
        products = DoubleFloat(*matrix_product(executors.resolve(None))(*parts))
        return products.reshape(*batch, *rows, *columns)

    def _rows(
        self, operator: str, axis: int | Sequence[int] | None, *, keepdims: bool
    ) -> tuple[list[mx.array], list[int]]:
        """High and low parts (R, C), C elements for each of R results, and the results' shape."""
        axes = _axes(operator, self.ndim, axis)
        kept = [place for place in range(self.ndim) if place not in axes]
        lengths = [self.shape[place] for place in kept]
        count = math.prod(self.shape[place] for place in axes)
        rows = [
            part.transpose(*kept, *axes).reshape(math.prod(lengths), count)
            for part in (self.high, self.low)
        ]
        shape = [1 if p in axes else n for p, n in enumerate(self.shape)] if keepdims else lengths
        return rows, shape

    @property
    def _pair(self) -> pairs.Pair:
        return pairs.Pair(self.high, self.low)


def _operand(value: object) -> DoubleFloat:
    if isinstance(value, DoubleFloat):
        return value
    if isinstance(value, mx.array):
        return DoubleFloat.from_array(value)
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return DoubleFloat.from_numpy(value)
    if not isinstance(value, bool) and isinstance(value, Real):
        return DoubleFloat.from_numpy(float(value))
    raise TypeError(
        "DoubleFloat: an operand must be a DoubleFloat, an mlx.core.array, a float64 array of "
        f"NumPy or a number, got {type(value).__name__}"
    )


def _apply(name: str, *values: object) -> DoubleFloat:
    operands = [_operand(value) for value in values]
    shape = _broadcast_shape(*(operand.shape for operand in operands))
    return DoubleFloat(*elementwise(name, executors.resolve(None))(*_broadcast(shape, *operands)))


def _whole_power(base: DoubleFloat, exponent: int) -> DoubleFloat:
    """The power by squares and products: one for the exponent 0, of NaN too."""
    if exponent < 0:
        return _whole_power(1.0 / base, -exponent)
    if exponent == 0:
        return DoubleFloat.from_array(mx.ones_like(base.high))
    root = base if exponent == 1 else _whole_power(base * base, exponent // 2)
    return root * base if exponent % 2 and exponent > 1 else root


def _power(base: DoubleFloat, exponent: DoubleFloat) -> DoubleFloat:
    """The power exp(y log |x|), with the sign of whole powers; of a float32 for special numbers."""
    shape = _broadcast_shape(base.shape, exponent.shape)
    x, y = (pairs.Pair(*_broadcast(shape, operand)) for operand in (base, exponent))
    one, nan = pairs.pair(mx.ones_like(x.high)), pairs.pair(mx.full(shape, math.nan))
    regular = mx.isfinite(x.high) & mx.isfinite(y.high) & (x.high != mx.zeros_like(x.high))
    special = mx.power(mx.where(regular, one.high, x.high), mx.where(regular, one.high, y.high))
    x, y = pairs.where(regular, x, one), pairs.where(regular, y, one)
    negative = x.high < mx.zeros_like(x.high)
    found = (abs(DoubleFloat(*x)).log() * DoubleFloat(*y)).exp()
    value = pairs.Pair(found.high, found.low)
    half = mx.array(0.5, dtype=y.high.dtype)
    whole, even = (
        (mx.floor(high) == high) & (mx.floor(low) == low)
        for high, low in (y, (y.high * half, y.low * half))
    )
    of_negative = pairs.where(even, value, pairs.where(whole, pairs.negative(value), nan))
    value = pairs.where(negative, of_negative, value)
    return DoubleFloat(*pairs.where(regular, value, pairs.pair(special)))


def _broadcast(shape: tuple[int, ...], *operands: DoubleFloat) -> list[mx.array]:
    """High and low part of each operand, in one shape."""
    parts = (part for operand in operands for part in (operand.high, operand.low))
    return [mx.broadcast_to(part, shape) for part in parts]


def _broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(map(str, shapes))
        raise ValueError(f"DoubleFloat: shapes {listed} do not broadcast") from None


def _axes(operator: str, ndim: int, axis: int | Sequence[int] | None) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(place + ndim if place < 0 else place for place in given)
    if any(not 0 <= place < ndim for place in axes) or len(set(axes)) < len(axes):
        raise ValueError(
            f"DoubleFloat.{operator}: axis must name axes of {ndim} once each, got {axis}"
        )
    return axes
