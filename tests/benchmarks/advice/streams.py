"""Streams of MLX: what overlaps, and what a dependency between streams costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial

import mlx.core as mx

from tests.benchmarks.advice.piece import Piece, Variant


@cache
def _stream(device: mx.DeviceType, number: int) -> mx.Stream:
    """A stream by its number; 0 is the default one."""
    return mx.new_stream(device) if number else mx.default_stream(device)


def _products(matrix: mx.array, count: int, stream: mx.Stream) -> mx.array:
    """A chain of products with one matrix, whose size limits the numbers."""
    result = matrix
    for _ in range(count):
        result = mx.matmul(result, matrix, stream=stream)
    return result


def _two_chains(
    first: mx.array,
    second: mx.array,
    *,
    devices: tuple[mx.DeviceType, mx.DeviceType],
    numbers: tuple[int, int],
    counts: tuple[int, int],
    between: bool = False,
    backend: str,
) -> Sequence[mx.array]:
    left, right = (_stream(d, n) for d, n in zip(devices, numbers, strict=True))
    outputs = [_products(first, counts[0], left)] if counts[0] else []
    if between:
        mx.eval(outputs)
    return outputs + ([_products(second, counts[1], right)] if counts[1] else [])


def _crossing(
    x: mx.array, *, numbers: Sequence[int], count: int, backend: str
) -> Sequence[mx.array]:
    device = mx.default_device().type
    for step in range(count):
        x = mx.add(x, x, stream=_stream(device, numbers[step % len(numbers)]))
        x = mx.multiply(x, mx.array(0.5), stream=_stream(device, numbers[step % len(numbers)]))
    return [x]


def _to_host(
    x: mx.array, *, devices: Sequence[mx.DeviceType], count: int, backend: str
) -> Sequence[mx.array]:
    for step in range(count):
        stream = _stream(devices[step % len(devices)], 0)
        x = mx.multiply(mx.add(x, x, stream=stream), mx.array(0.5), stream=stream)
    return [x]


def _bands(
    a: mx.array, v: mx.array, *, bands: int, streams: int, backend: str
) -> Sequence[mx.array]:
    """One step Aᵀ(A V) of a power iteration, in bands of rows of A."""
    device = mx.default_device().type
    parts = []
    for place, band in enumerate(mx.split(a, bands, axis=0)):
        stream = _stream(device, 1 + place % streams if streams > 1 else 0)
        product = mx.matmul(band, v, stream=stream)
        parts.append(mx.matmul(band.T, product, stream=stream))
    return [sum(parts[1:], parts[0])]


def _square(size: int, count: int = 2) -> Sequence[mx.array]:
    """Matrices whose powers neither grow nor vanish quickly."""
    return [mx.random.normal((size, size)) * size**-0.5 for _ in range(count)]


def _vector(size: int) -> Sequence[mx.array]:
    return [mx.random.normal((size,))]


def _banded(rows: int, columns: int, width: int) -> Sequence[mx.array]:
    scale = rows**-0.5
    return [mx.random.normal((rows, columns)) * scale, mx.random.normal((columns, width))]


def _chains(
    devices: tuple[mx.DeviceType, mx.DeviceType], counts: tuple[int, int]
) -> tuple[Variant, ...]:
    second = int(devices[0] == devices[1])
    call = partial(_two_chains, devices=devices)
    first, other = counts
    return (
        Variant(
            "one stream after the other, evaluated between",
            partial(call, numbers=(0, second), counts=counts, between=True),
        ),
        Variant("two streams, one evaluation", partial(call, numbers=(0, second), counts=counts)),
        Variant(
            "first chain alone", partial(call, numbers=(0, second), counts=(first, 0)), same=False
        ),
        Variant(
            "second chain alone", partial(call, numbers=(0, second), counts=(0, other)), same=False
        ),
    )


def pieces(large: bool) -> Iterator[Piece]:
    gpu = mx.default_device().type
    if large:
        yield Piece(
            "a CPU and a GPU stream",
            "independent work on separate queues (CPU and GPU) overlaps",
            lambda: [*_square(4096, 1), *_square(384, 1)],
            _chains((gpu, mx.DeviceType.cpu), (8, 2)),
            streams=True,
        )
        yield Piece(
            "dependencies between CPU and GPU",
            "rely on MLX's automatic cross-stream dependency handling",
            partial(_vector, 1024),
            (
                Variant("64 steps on the GPU", partial(_to_host, devices=(gpu,), count=64)),
                Variant(
                    "64 steps, CPU and GPU in turn",
                    partial(_to_host, devices=(gpu, mx.DeviceType.cpu), count=64),
                ),
            ),
            streams=True,
        )
    for name, size, count in (
        ("small", 256, 64) if large else ("small", 64, 64),
        ("large", 4096, 8) if large else ("large", 320, 2),
    ):
        yield Piece(
            f"two streams of one device, {name} work",
            "explicit streams overlap independent work",
            partial(_square, size),
            (
                Variant(
                    "one stream, one evaluation",
                    partial(_two_chains, devices=(gpu, gpu), numbers=(0, 0), counts=(count, count)),
                ),
                *_chains((gpu, gpu), (count, count)),
            ),
            streams=True,
        )
    yield Piece(
        "dependencies between streams of one device",
        "rely on MLX's automatic cross-stream dependency handling",
        partial(_vector, 1024),
        (
            Variant("128 steps on one stream", partial(_crossing, numbers=(0,), count=128)),
            Variant(
                "128 steps, two streams in turn", partial(_crossing, numbers=(0, 1), count=128)
            ),
        ),
        streams=True,
    )
    yield Piece(
        "bands of rows on several streams",
        "banding and multi-stream execution improve locality and overlap",
        partial(_banded, *((2**15, 4096, 64) if large else (1024, 256, 16))),
        (
            Variant("whole matrix", partial(_bands, bands=1, streams=1)),
            Variant("4 bands, one stream", partial(_bands, bands=4, streams=1)),
            Variant("4 bands, 4 streams", partial(_bands, bands=4, streams=4)),
        ),
        streams=True,
    )
