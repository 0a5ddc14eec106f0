"""Functions of double-float arrays, element by element: kernels, MLX operations, gradients.

A result is differentiated as the real number that a pair is: its high part has the slope, its low
part has none. MLX operations compute in float64, which only the CPU has.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import mlx.core as mx

from xlstm_kernels.differentiation import Arrays, Operation, on_backend
from xlstm_kernels.double_float.metal import DOUBLE, ELEMENTARY, SMALLEST_NORMAL
from xlstm_kernels.double_float.reductions import doubled, halved
from xlstm_kernels.kernel import Kernel, Launch


def _exp(a: mx.array) -> mx.array:
    """The exponential function, of which `mx.exp` (0.32.4) has the digits of a float32."""
    return mx.power(mx.array(math.e, dtype=a.dtype), a)


def _log(a: mx.array) -> mx.array:
    """The logarithm, of a subnormal number as of zero."""
    subnormal = mx.abs(a) < mx.array(SMALLEST_NORMAL, dtype=a.dtype)
    return mx.log(mx.where(subnormal, mx.zeros_like(a), a))


_NATIVE: dict[str, Callable[..., mx.array]] = {
    "add": mx.add,
    "multiply": mx.multiply,
    "divide": mx.divide,
    "sqrt": mx.sqrt,
    "exp": _exp,
    "log": _log,
}

# The slope in each operand, of the high parts of the operands.
_SLOPES: dict[str, Callable[..., Arrays]] = {
    "add": lambda a, b: (mx.ones_like(a), mx.ones_like(b)),
    "multiply": lambda a, b: (b, a),
    "divide": lambda a, b: (mx.reciprocal(b), mx.negative(a / mx.square(b))),
    "sqrt": lambda a: (mx.rsqrt(a) * mx.array(0.5, dtype=a.dtype),),
    "exp": lambda a: (mx.exp(a),),
    "log": lambda a: (mx.reciprocal(a),),
}


@functools.cache
def elementwise(name: str, backend: str) -> Operation:
    """The operation (high, low of each operand, of one shape) -> (high, low) on one backend."""

    def launch(*arrays: mx.array) -> Arrays:
        shape = arrays[0].shape
        high, low = kernel(name)(*(a.reshape(-1) for a in arrays), backend=backend)
        return high.reshape(shape), low.reshape(shape)

    def native(*arrays: mx.array) -> Arrays:
        with mx.stream(mx.cpu):
            return halved(_NATIVE[name](*map(doubled, arrays[::2], arrays[1::2])))

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        slopes = _SLOPES[name](*primals[::2])
        return tuple(cotangents[0] * slope for slope in slopes for _ in range(2))

    return on_backend(backend, launch, native, gradient, operator=f"DoubleFloat {name}")


def _launch(high: mx.array, *_others: mx.array) -> Launch:
    return Launch.of_elements(high, 1, outputs=2)


@functools.cache
def kernel(name: str) -> Kernel:
    """The kernel of one function: contiguous operands of one shape."""
    operands = ("a", "b")[: 2 if name in {"add", "multiply", "divide"} else 1]
    values = ", ".join(f"float2({o}_high[at], {o}_low[at])" for o in operands)
    return Kernel(
        name=f"xlstm_double_{name}",
        inputs=tuple(f"{operand}_{part}" for operand in operands for part in ("high", "low")),
        outputs=("high", "low"),
        launch=_launch,
        header=DOUBLE + (ELEMENTARY if name in {"exp", "log"} else ""),
        body=f"""
    // All arrays: (count), contiguous.
    const Index at = static_cast<Index>(thread_position_in_grid.x);
    if (at < static_cast<Index>(a_high_shape[0])) {{
        const float2 result = xlstm_double_{name}({values});
        high[at] = result.x;
        low[at] = result.y;
    }}
    """,
    )
