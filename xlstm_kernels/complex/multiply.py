"""Products of complex numbers (real, imaginary) of halves, floats and double-floats.

MLX has complex64 alone. Here the last axis of an array is a pair: bfloat16 and float16 take half of
complex64's memory, and a `DoubleFloat` has twice its digits.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import mlx.core as mx
import numpy as np

from xlstm_kernels.arguments import require_floating
from xlstm_kernels.differentiation import Arrays, Operation, on_backend
from xlstm_kernels.double_float.array import DoubleFloat
from xlstm_kernels.double_float.metal import DOUBLE
from xlstm_kernels.double_float.reductions import doubled, halved
from xlstm_kernels.executors import StreamLike, on_stream, resolve
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import PACKS

Numbers = TypeVar("Numbers", mx.array, DoubleFloat)

_OPERATOR = "complex_multiply"
_PACK_BYTES = 16


@on_stream
def complex_multiply(
    a: Numbers,
    b: Numbers,
    *,
    conjugate: bool = False,
    backend: str | None = None,
    stream: StreamLike = None,
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
        backend: "metal", "cuda", "native" (MLX operations; `mx.vmap` needs it), or None to choose.

    Returns:
        (..., 2), of the kind and dtype of the factors.

    Raises:
        TypeError: for a dtype that is not listed, or two dtypes.
        ValueError: for a last axis that is not of length 2, shapes that do not broadcast, and an
            unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    shape = _common_shape(a, b)
    resolved = resolve(backend)
    parts = (mx.broadcast_to(part, shape) for part in (*_parts(a), *_parts(b)))
    double = isinstance(a, DoubleFloat)
    joined: Any = DoubleFloat if double else mx.array
    product: Numbers = joined(*_operation(resolved, bool(conjugate), double)(*parts))
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


def _parts(numbers: mx.array | DoubleFloat) -> Arrays:
    return (numbers.high, numbers.low) if isinstance(numbers, DoubleFloat) else (numbers,)


def _common_shape(a: object, b: object) -> tuple[int, ...]:
    if isinstance(a, DoubleFloat) != isinstance(b, DoubleFloat):
        raise TypeError(f"{_OPERATOR}: a and b must both be DoubleFloat, or neither")
    arrays = []
    for name, factor in (("a", a), ("b", b)):
        array: Any = factor.high if isinstance(factor, DoubleFloat) else factor
        require_floating(_OPERATOR, name, array)
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


@functools.cache
def _operation(backend: str, conjugate: bool, double: bool) -> Operation:
    """The differentiable operation of arrays of one shape and dtype on one backend.

    It takes a and b, or with `double` high and low of a and of b, and gives their product alike.
    """
    kernel = _DOUBLE_KERNEL if double else _KERNEL

    def launch(*arrays: mx.array) -> Arrays:
        flat = (array.reshape(-1) for array in arrays)
        products = kernel(*flat, backend=backend, conjugate=conjugate)
        return tuple(product.reshape(arrays[0].shape) for product in products)

    def native(*arrays: mx.array) -> Arrays:
        if double:
            with mx.stream(mx.cpu):
                a, b = doubled(*arrays[:2]), doubled(*arrays[2:])
                return halved(complex_multiply_reference(a, b, conjugate))
        a, b = (array.astype(mx.float32) for array in arrays)
        return (complex_multiply_reference(a, b, conjugate).astype(arrays[0].dtype),)

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        """Of y = a b: y* conj(b), y* conj(a). Of y = a conj(b): y* b, a conj(y*)."""
        (a, b), pulled = primals[:: len(cotangents)], cotangents[0]
        conjugated = _operation(backend, True, False)
        (in_a,) = _operation(backend, not conjugate, False)(pulled, b)
        (in_b,) = conjugated(a, pulled) if conjugate else conjugated(pulled, a)
        return (in_a, in_a, in_b, in_b) if double else (in_a, in_b)

    return on_backend(backend, launch, native, gradient, operator=_OPERATOR)


def _launch(outputs: int, a: mx.array, *_others: mx.array, conjugate: bool) -> Launch:
    pack = _PACK_BYTES // a.dtype.size if outputs == 1 else 2
    return Launch.of_elements(a, pack, outputs=outputs, CONJUGATE=conjugate)


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
