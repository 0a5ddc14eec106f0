"""Products of complex numbers (real, imaginary) of halves, floats and double-floats.

MLX has complex64 alone. Here the last axis of an array is a pair: bfloat16 and float16 take half of
complex64's memory, and a `DoubleFloat` has twice its digits.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeVar

import mlx.core as mx
import numpy as np

from xlstm_kernels import executors
from xlstm_kernels.arguments import require_floating
from xlstm_kernels.differentiation import Arrays, Operation, on_backend
from xlstm_kernels.double_float.array import DoubleFloat
from xlstm_kernels.double_float.metal import DOUBLE
from xlstm_kernels.double_float.reductions import doubled, halved
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import PACKS

if TYPE_CHECKING:
    from collections.abc import Callable

Numbers = TypeVar("Numbers", mx.array, DoubleFloat)

_OPERATOR = "complex_multiply"
_THREADGROUP = 256
_PACK_BYTES = 16


def complex_multiply(
    a: Numbers, b: Numbers, *, conjugate: bool = False, backend: str | None = None
) -> Numbers:
    """Multiply complex numbers, whose real and imaginary parts are the last axis.

    Parts of float16 and bfloat16 are multiplied in float32 and rounded once. Those of a
    `DoubleFloat` keep its digits: the error is 1e-13 of the product of the absolute values.
    Differentiable any number of times in both factors; the gradient in a factor has its real and
    imaginary parts, that of a DoubleFloat float32's digits.

    Args:
        a: (..., 2), an array of float32, float16 or bfloat16, or a DoubleFloat.
        b: of the same kind and dtype; its shape broadcasts with that of a.
        conjugate: multiply with the conjugate of b.
        backend: `"metal"`, `"cuda"`, `"native"` (MLX operations), or None for kernels where they
            can run. Inside `mx.vmap` it must be `"native"`.

    Returns:
        (..., 2), of the kind and dtype of the factors.

    Raises:
        TypeError: for a dtype that is not listed, or two dtypes.
        ValueError: for a last axis that is not of length 2, shapes that do not broadcast, and an
            unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    shape = _common_shape(a, b)
    resolved = executors.resolve(backend)
    if isinstance(a, DoubleFloat):
        assert isinstance(b, DoubleFloat)
        double = _double_multiply(resolved, bool(conjugate))
        parts = (mx.broadcast_to(part, shape) for part in (a.high, a.low, b.high, b.low))
        return DoubleFloat(*double(*parts))
    multiply = _complex_multiply(resolved, bool(conjugate))
    product: Numbers = multiply(*(mx.broadcast_to(factor, shape) for factor in (a, b)))
    return product


def complex_multiply_reference(a: mx.array, b: mx.array, conjugate: bool) -> mx.array:
    """`complex_multiply` of arrays of one shape and dtype, in MLX operations of that dtype."""
    real, imaginary = a[..., 0], a[..., 1]
    other_real, other_imaginary = b[..., 0], b[..., 1]
    if conjugate:
        other_imaginary = mx.negative(other_imaginary)
    product = [
        real * other_real - imaginary * other_imaginary,
        real * other_imaginary + imaginary * other_real,
    ]
    return mx.stack(product, axis=-1)


def _common_shape(a: object, b: object) -> tuple[int, ...]:
    if isinstance(a, DoubleFloat) != isinstance(b, DoubleFloat):
        raise TypeError(f"{_OPERATOR}: a and b must both be DoubleFloat, or neither")
    arrays = []
    for name, factor in (("a", a), ("b", b)):
        array = factor.high if isinstance(factor, DoubleFloat) else factor
        require_floating(_OPERATOR, name, array)
        assert isinstance(array, mx.array)
        if not array.ndim or array.shape[-1] != 2:
            raise ValueError(
                f"{_OPERATOR}: {name} must be (..., 2), real and imaginary parts, got {array.shape}"
            )
        arrays.append(array)
    first, second = arrays
    if first.dtype != second.dtype:
        raise TypeError(
            f"{_OPERATOR}: a and b must have one dtype, got {first.dtype} and {second.dtype}"
        )
    try:
        return np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        raise ValueError(
            f"{_OPERATOR}: shapes {first.shape} and {second.shape} do not broadcast"
        ) from None


def _gradients(multiply: Callable[[bool], Operation], conjugate: bool) -> Callable[..., Arrays]:
    """Of y = a b: y* conj(b), y* conj(a). Of y = a conj(b): y* b, a conj(y*)."""

    def gradients(a: mx.array, b: mx.array, cotangent: mx.array) -> Arrays:
        in_a = multiply(not conjugate)(cotangent, b)
        in_b = multiply(True)(a, cotangent) if conjugate else multiply(True)(cotangent, a)
        return in_a, in_b

    return gradients


@functools.cache
def _complex_multiply(backend: str, conjugate: bool) -> Operation:
    """The differentiable operation (a, b), of one shape and dtype, -> product on one backend."""
    gradients = _gradients(functools.partial(_complex_multiply, backend), conjugate)

    def launch(a: mx.array, b: mx.array) -> mx.array:
        (product,) = _KERNEL(a.reshape(-1), b.reshape(-1), backend=backend, conjugate=conjugate)
        return product.reshape(a.shape)

    def native(a: mx.array, b: mx.array) -> mx.array:
        wide = (factor.astype(mx.float32) for factor in (a, b))
        return complex_multiply_reference(*wide, conjugate).astype(a.dtype)

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        return gradients(*primals, *cotangents)

    return on_backend(backend, launch, native, gradient, operator=_OPERATOR)


@functools.cache
def _double_multiply(backend: str, conjugate: bool) -> Operation:
    """The differentiable (high, low of a and of b, of one shape) -> (high, low) on one backend."""
    gradients = _gradients(functools.partial(_complex_multiply, backend), conjugate)

    def launch(*arrays: mx.array) -> Arrays:
        flat = (array.reshape(-1) for array in arrays)
        high, low = _DOUBLE_KERNEL(*flat, backend=backend, conjugate=conjugate)
        return high.reshape(arrays[0].shape), low.reshape(arrays[0].shape)

    def native(*arrays: mx.array) -> Arrays:
        with mx.stream(mx.cpu):
            a, b = doubled(*arrays[:2]), doubled(*arrays[2:])
            return halved(complex_multiply_reference(a, b, conjugate))

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        in_a, in_b = gradients(primals[0], primals[2], cotangents[0])
        return in_a, in_a, in_b, in_b

    return on_backend(backend, launch, native, gradient, operator=_OPERATOR)


def _launch(outputs: int, a: mx.array, *_others: mx.array, conjugate: bool) -> Launch:
    pack = _PACK_BYTES // a.dtype.size if outputs == 1 else 2
    return Launch(
        grid=(-(-a.size // pack), 1, 1),
        threadgroup=(_THREADGROUP, 1, 1),
        output_shapes=(a.shape,) * outputs,
        output_dtypes=(a.dtype,) * outputs,
        template=(
            ("T", a.dtype),
            ("Index", mx.uint32 if a.size < 2**31 else mx.int64),
            ("PACK", pack),
            ("CONJUGATE", conjugate),
        ),
    )


_KERNEL = Kernel(
    name="xlstm_complex_multiply",
    inputs=("a", "b"),
    outputs=("product",),
    launch=functools.partial(_launch, 1),
    header=PACKS,
    body="""
    // a, b, product: (count), real and imaginary parts in turn, contiguous.
    const Index count = static_cast<Index>(a_shape[0]);
    const Index first = static_cast<Index>(thread_position_in_grid.x) * PACK;
    if (first < count) {
        const uint left = static_cast<uint>(metal::min(count - first, static_cast<Index>(PACK)));
        const auto x = xlstm_load<PACK>(a + first, 1, left);
        const auto y = xlstm_load<PACK>(b + first, 1, left);
        xlstm_pack<float, PACK> products;
        #pragma clang loop unroll(full)
        for (uint k = 0; k < PACK; k += 2) {
            const float imaginary = CONJUGATE ? -y.at[k + 1] : y.at[k + 1];
            products.at[k] = x.at[k] * y.at[k] - x.at[k + 1] * imaginary;
            products.at[k + 1] = x.at[k] * imaginary + x.at[k + 1] * y.at[k];
        }
        xlstm_store(product + first, products, left);
    }
    """,
)

_DOUBLE_KERNEL = Kernel(
    name="xlstm_double_complex_multiply",
    inputs=("a_high", "a_low", "b_high", "b_low"),
    outputs=("high", "low"),
    launch=functools.partial(_launch, 2),
    header=DOUBLE,
    body="""
    // All arrays: (count), real and imaginary parts in turn, contiguous.
    const Index at = static_cast<Index>(thread_position_in_grid.x) * PACK;
    if (at < static_cast<Index>(a_high_shape[0])) {
        const float sign = CONJUGATE ? -1.0f : 1.0f;
        const float2 a_real = float2(a_high[at], a_low[at]);
        const float2 a_imaginary = float2(a_high[at + 1], a_low[at + 1]);
        const float2 b_real = float2(b_high[at], b_low[at]);
        const float2 b_imaginary = float2(sign * b_high[at + 1], sign * b_low[at + 1]);
        const float2 subtracted = xlstm_double_multiply(a_imaginary, b_imaginary);
        const float2 real = xlstm_double_add(
            xlstm_double_multiply(a_real, b_real), float2(-subtracted.x, -subtracted.y));
        const float2 imaginary = xlstm_double_add(
            xlstm_double_multiply(a_real, b_imaginary),
            xlstm_double_multiply(a_imaginary, b_real));
        high[at] = real.x;
        low[at] = real.y;
        high[at + 1] = imaginary.x;
        low[at + 1] = imaginary.y;
    }
    """,
)
