"""Sums and dot products of rows in double-float.

A threadgroup takes a row: each of its threads adds up every 256th element, and a tree of 8 levels
their sums, in a fixed order. Few long rows are divided among several threadgroups, whose sums a
second launch adds up. MLX operations compute them in float64, which only the CPU has.
"""

from __future__ import annotations

import functools

import mlx.core as mx

from xlstm_kernels.differentiation import Arrays, Operation, on_backend
from xlstm_kernels.double_float.metal import DOUBLE
from xlstm_kernels.kernel import Kernel, Launch

THREADS = 256
#: Rows are divided while a launch has fewer threadgroups than this ...
THREADGROUPS = 512
#: ... and each threadgroup has at least so many elements.
SHORTEST_PART = 4096


def doubled(high: mx.array, low: mx.array) -> mx.array:
    """The float64 array of a pair, on the CPU."""
    return high.astype(mx.float64) + low.astype(mx.float64)


def halved(numbers: mx.array) -> Arrays:
    """The pair of a float64 array: an infinite number has no second part."""
    high = numbers.astype(mx.float32)
    low = (numbers - high.astype(mx.float64)).astype(mx.float32)
    return high, mx.where(mx.isfinite(high), low, mx.zeros_like(low))


@functools.cache
def row_sum(backend: str, factors: int = 1) -> Operation:
    """The operation (high, low of each factor, (R, C)) -> (high, low), (R,), on one backend.

    It sums one factor, or the products of two.
    """

    def launch(*arrays: mx.array) -> Arrays:
        return _reduced(_SUM if factors == 1 else _DOT, arrays, backend)

    def native(*arrays: mx.array) -> Arrays:
        with mx.stream(mx.cpu):
            terms = functools.reduce(mx.multiply, map(doubled, arrays[::2], arrays[1::2]))
            return halved(mx.sum(terms, axis=1))

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        pulled = mx.broadcast_to(mx.expand_dims(cotangents[0], axis=1), primals[0].shape)
        if factors == 1:
            return pulled, pulled
        in_a, in_b = pulled * primals[2], pulled * primals[0]
        return in_a, in_a, in_b, in_b

    operator = "DoubleFloat.sum" if factors == 1 else "DoubleFloat.vecdot"
    return on_backend(backend, launch, native, gradient, operator=operator)


def _reduced(kernel: Kernel, arrays: Arrays, backend: str) -> Arrays:
    rows, columns = arrays[0].shape
    parts = _parts(rows, columns)
    sums = kernel(*arrays, parts=parts, backend=backend)
    if parts > 1:
        sums = _SUM(*sums, parts=1, backend=backend)
    return tuple(part.reshape(rows) for part in sums)


def _parts(rows: int, columns: int) -> int:
    """The threadgroups of a row: a function of the shape, as the order of a sum depends on it."""
    return max(1, min(THREADGROUPS // max(rows, 1), columns // SHORTEST_PART))


def _launch(high: mx.array, *_others: mx.array, parts: int) -> Launch:
    rows = high.shape[0]
    return Launch(
        grid=(rows * THREADS, parts, 1),
        threadgroup=(THREADS, 1, 1),
        output_shapes=((rows, parts), (rows, parts)),
        output_dtypes=(mx.float32, mx.float32),
    )


def _kernel(name: str, operands: tuple[str, ...]) -> Kernel:
    values = [f"float2({o}_high[at], {o}_low[at])" for o in operands]
    term = values[0] if len(values) == 1 else f"xlstm_double_multiply({', '.join(values)})"
    return Kernel(
        name=name,
        inputs=tuple(f"{operand}_{part}" for operand in operands for part in ("high", "low")),
        outputs=("high", "low"),
        launch=_launch,
        header=DOUBLE,
        body=f"""
    // Inputs: (rows, columns), contiguous; high, low: (rows, parts).
    threadgroup float2 partial[{THREADS}];
    const uint columns = a_high_shape[1];
    const uint row = threadgroup_position_in_grid.x;
    const uint part = threadgroup_position_in_grid.y;
    const uint parts = threadgroups_per_grid.y;
    const uint thread_index = thread_position_in_threadgroup.x;
    float2 sum = float2(0.0f, 0.0f);
    const uint first = part * {THREADS} + thread_index;
    for (uint column = first; column < columns; column += parts * {THREADS}) {{
        const int64_t at = static_cast<int64_t>(row) * columns + column;
        sum = xlstm_double_add(sum, {term});
    }}
    partial[thread_index] = sum;
    for (uint width = {THREADS // 2}; width > 0; width /= 2) {{
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (thread_index < width) {{
            partial[thread_index] =
                xlstm_double_add(partial[thread_index], partial[thread_index + width]);
        }}
    }}
    if (thread_index == 0) {{
        const int64_t at = static_cast<int64_t>(row) * parts + part;
        high[at] = partial[0].x;
        low[at] = partial[0].y;
    }}
    """,
    )


_SUM = _kernel("xlstm_double_sum", ("a",))
_DOT = _kernel("xlstm_double_dot", ("a", "b"))
