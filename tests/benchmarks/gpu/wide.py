"""DoubleFloat's operators, and the same in float64 on the CPU and in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx

from xlstm_kernels import DoubleFloat, default_backend
from xlstm_kernels.double_float.reductions import doubled

_OURS: dict[str, Callable[..., DoubleFloat]] = {
    "exp": lambda a: a.exp(),
    "multiply": lambda a, b: a * b,
    "sum": lambda a: a.sum(axis=1),
    "vecdot": lambda a, b: a.vecdot(b),
    "matmul": lambda a, b: a @ b,
}
_PLAIN: dict[str, Callable[..., mx.array]] = {
    "exp": mx.exp,
    "multiply": mx.multiply,
    "sum": lambda a: mx.sum(a, axis=1),
    "vecdot": lambda a, b: mx.sum(a * b, axis=1),
    "matmul": mx.matmul,
}


def ours(name: str, *parts: mx.array, backend: str) -> Sequence[mx.array]:
    """Call the operator `name` of operands whose parts are high, low, high, low."""
    with default_backend(backend):
        pairs = zip(parts[::2], parts[1::2], strict=True)
        result = _OURS[name](*(DoubleFloat(*pair) for pair in pairs))
    return result.high, result.low


def float64(name: str, *parts: mx.array) -> mx.array:
    """The same in float64, from and to the same memory."""
    with mx.stream(mx.cpu):
        return _PLAIN[name](*map(doubled, parts[::2], parts[1::2]))


def float32(name: str, *parts: mx.array) -> mx.array:
    """The same of the high parts."""
    return _PLAIN[name](*parts[::2])
