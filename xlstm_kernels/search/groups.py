"""Queries in groups, so that the memory of a search does not grow with their number."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.executors import StreamLike

_MOST_STREAMS = 16
_LEAST_QUERIES = 16


def searched_in_groups(
    queries: mx.array,
    most: int,
    backend: str,
    search: Callable[[mx.array], tuple[mx.array, mx.array]],
    stream: StreamLike,
) -> tuple[mx.array, mx.array]:
    """Search for groups of at most `most` queries (Q, D), Q at least 1, and join the results.

    MLX's operations use one core of a CPU. There the groups take turns on a stream for each core,
    unless the caller names a stream.
    """
    count = queries.shape[0]
    streams = _streams() if _on_cpu(backend, stream) else ()
    step = max(1, most)
    if streams:
        step = min(step, max(_LEAST_QUERIES, math.ceil(count / len(streams))))
    found = []
    for group, start in enumerate(range(0, count, step)):
        where: AbstractContextManager[object] = nullcontext()
        if streams:
            where = mx.stream(streams[group % len(streams)])
        with where:
            found.append(search(queries[start : start + step]))
    distances, ids = zip(*found, strict=True)
    return mx.concatenate(list(distances)), mx.concatenate(list(ids))


def _on_cpu(backend: str, stream: StreamLike) -> bool:
    """Return True for MLX operations on the CPU, on no stream that the caller names."""
    is_named = isinstance(stream, mx.Stream | mx.ThreadLocalStream)
    return backend == executors.NATIVE and mx.default_device() == mx.cpu and not is_named


@functools.cache
def _streams() -> tuple[mx.ThreadLocalStream, ...]:
    """One stream for each core; OMP_NUM_THREADS bounds them."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(limit) if limit.isdecimal() and int(limit) else os.cpu_count() or 1
    return tuple(mx.new_thread_local_stream(mx.cpu) for _ in range(min(cores, _MOST_STREAMS)))
