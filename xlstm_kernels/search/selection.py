"""The k smallest elements of each row, in order; equal ones by the lowest id."""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels.arguments import host_integer, require_kind, require_shape
from xlstm_kernels.executors import NATIVE, StreamLike, on_stream, resolve
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.search.metal import LANES, MOST, SELECT

_SIMDGROUPS = 4
_MOST_SEGMENTS = 32
_SIGN = 0x80000000
_NO_ID = 0x7FFFFFFF


@on_stream
def top_k(
    keys: mx.array,
    k: int,
    *,
    ids: mx.array | None = None,
    backend: str | None = None,
    stream: StreamLike = None,
) -> tuple[mx.array, mx.array]:
    """Select the `k` smallest elements of each row, in ascending order.

    Equal elements are ordered by their ids. NaN and positive infinity are never selected. Nothing
    is differentiable.

    Args:
        keys: (R, N), float32.
        k: from 1 to 1024; it may be greater than N.
        ids: (R, N), int32, at least 0, or negative for elements to ignore; None for 0 to N - 1.
        backend: `"metal"`, `"cuda"`, `"native"` (MLX operations), or None to choose.

    Returns:
        The elements (R, k), float32, and their ids (R, k), int32. Where a row has fewer, infinity
        and -1.

    Raises:
        TypeError: for another dtype.
        ValueError: for another shape or k, or an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    require_kind("top_k", "keys", keys, mx.float32, "a float32 array")
    if keys.ndim != 2 or keys.shape[1] > _NO_ID:
        raise ValueError(f"top_k: keys must have shape (R, N), N below 2^31, got {keys.shape}")
    if ids is not None:
        require_kind("top_k", "ids", ids, mx.int32, "an int32 array")
        require_shape("top_k", "ids", ids, keys.shape, "that of keys")
    k = host_integer("top_k", "k", k, least=1, most=MOST)
    if not keys.size:
        shape = (keys.shape[0], k)
        return mx.full(shape, math.inf), mx.full(shape, -1, dtype=mx.int32)
    resolved = resolve(backend)
    if resolved == NATIVE:
        return top_k_reference(keys, k, ids)
    return _launched(keys, k, ids, resolved)


def top_k_reference(
    keys: mx.array, k: int, ids: mx.array | None = None
) -> tuple[mx.array, mx.array]:
    """`top_k` in MLX operations.

    Without ids, the k smallest are in the k blocks of 32 columns whose smallest elements come
    first, equal ones in the order of blocks. Key and id are one integer of 64 bits, which
    MLX's partition orders.
    """
    rows, columns = keys.shape
    infinite = mx.array(math.inf, dtype=keys.dtype)
    keys = mx.where(mx.less(keys, infinite), keys, infinite)
    if ids is not None:
        keys = mx.where(mx.less(ids, mx.zeros_like(ids)), infinite, keys)
    elif columns > 2 * k * LANES:
        blocks = mx.pad(keys, [(0, 0), (0, -columns % LANES)], constant_values=infinite)
        blocks = blocks.reshape(rows, -1, LANES)
        least = mx.min(blocks, axis=2)
        numbers = mx.broadcast_to(mx.arange(least.shape[1], dtype=mx.int32), least.shape)
        order = mx.argpartition(sortable(least, numbers), k - 1, axis=1)[:, :k]
        chosen = mx.expand_dims(order, axis=2)
        keys = mx.take_along_axis(blocks, chosen, axis=1).reshape(rows, -1)
        lanes = mx.arange(LANES, dtype=mx.int32)
        ids = (chosen.astype(mx.int32) * mx.array(LANES, dtype=mx.int32) + lanes).reshape(rows, -1)
    else:
        ids = mx.broadcast_to(mx.arange(columns, dtype=mx.int32), keys.shape)
    missing = [(0, 0), (0, max(k - keys.shape[1], 0))]
    keys = mx.pad(keys, missing, constant_values=mx.array(math.inf, dtype=keys.dtype))
    ordered = sortable(keys, mx.pad(ids, missing, constant_values=mx.array(-1, dtype=ids.dtype)))
    if ordered.shape[1] > k:
        ordered = mx.partition(ordered, k - 1, axis=1)[:, :k]
    return _separated(mx.sort(ordered, axis=1))


def sortable(keys: mx.array, ids: mx.array) -> mx.array:
    """Integers of the same order as (key, id): the bits of a float, its sign bit exchanged."""
    zero = mx.array(0, dtype=keys.dtype)
    bits = mx.where(keys == zero, zero, keys).view(mx.uint32)
    sign = mx.array(_SIGN, dtype=mx.uint32)
    flipped = mx.where(bits >= sign, mx.bitwise_invert(bits), mx.bitwise_or(bits, sign))
    half = mx.array(32, dtype=mx.uint64)
    high = mx.left_shift(flipped.astype(mx.uint64), half)
    return mx.bitwise_or(high, ids.view(mx.uint32).astype(mx.uint64))


def _separated(ordered: mx.array) -> tuple[mx.array, mx.array]:
    half = mx.array(32, dtype=mx.uint64)
    flipped = mx.right_shift(ordered, half).astype(mx.uint32)
    sign = mx.array(_SIGN, dtype=mx.uint32)
    bits = mx.where(flipped >= sign, mx.bitwise_xor(flipped, sign), mx.bitwise_invert(flipped))
    keys = bits.view(mx.float32)
    ids = ordered.astype(mx.uint32).view(mx.int32)
    finite = mx.less(keys, mx.array(math.inf, dtype=keys.dtype))
    return keys, mx.where(finite, ids, mx.full(ids.shape, -1, dtype=ids.dtype))


# --- Metal -------------------------------------------------------------------------------------


def _launched(
    keys: mx.array, k: int, ids: mx.array | None, backend: str
) -> tuple[mx.array, mx.array]:
    """One launch; for long rows another one, for the best of their segments."""
    many = max(1, min(_MOST_SEGMENTS, keys.shape[1] // (8 * LANES * math.ceil(k / LANES))))
    numbered = ids is not None
    if ids is None:
        ids = mx.zeros((1, 1), dtype=mx.int32)
    for segments in (many, 1) if many > 1 else (1,):
        keys, ids = _KERNEL(keys, ids, backend=backend, segments=segments, k=k, numbered=numbered)
        numbered = True
    return keys[:, :k], ids[:, :k]


def _launch(keys: mx.array, _ids: mx.array, *, segments: int, k: int, numbered: bool) -> Launch:
    rows, last = math.ceil(k / LANES), (k - 1) % LANES
    shape = (keys.shape[0], segments * rows * LANES)
    simdgroups = min(segments, _SIMDGROUPS)
    return Launch(
        grid=(math.ceil(segments / simdgroups) * simdgroups * LANES, 1, keys.shape[0]),
        threadgroup=(simdgroups * LANES, 1, 1),
        output_shapes=(shape, shape),
        output_dtypes=(mx.float32, mx.int32),
        template=(("SEGMENTS", segments), ("ROWS", rows), ("LAST", last), ("NUMBERED", numbered)),
    )


_KERNEL = Kernel(
    name="xlstm_top_k",
    inputs=("keys", "ids"),
    outputs=("best", "best_ids"),
    launch=_launch,
    header=SELECT,
    body="""
    // keys: (rows, columns), ids: the same, or (1, 1); best, best_ids:
    // (rows, SEGMENTS * ROWS * 32); all contiguous.
    // A SIMD group selects from every SEGMENTS-th block of 32 columns.
    const uint columns = keys_shape[1];
    const uint lane = thread_index_in_simdgroup;
    const uint segment = threadgroup_position_in_grid.x * simdgroups_per_threadgroup
        + simdgroup_index_in_threadgroup;
    const int64_t row = threadgroup_position_in_grid.z;
    if (segment < SEGMENTS) {
        xlstm_smallest<ROWS> smallest;
        smallest.clear();
        for (uint start = segment * 32; start < columns; start += SEGMENTS * 32) {
            const uint column = start + lane;
            const int64_t at = row * columns + column;
            const bool present = column < columns;
            const float key = present ? keys[at] : INFINITY;
            int id = column;
            if (NUMBERED) {
                id = present ? ids[at] : -1;
            }
            smallest.add(key, id, lane, LAST);
        }
        const int64_t first = (row * SEGMENTS + segment) * (ROWS * 32);
        smallest.store(best + first, best_ids + first, lane);
    }
    """,
)
