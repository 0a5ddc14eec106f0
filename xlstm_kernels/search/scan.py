"""Scans of the pages that queries probe, for the candidates nearest to each.

A kernel reads a page with 32 lanes, a vector each, and selects in registers. MLX operations
multiply each query with its pages, and select from all keys. Both take the pages of a query in the
order of its lists, the nearest first, and at most a given number of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.search.metal import LANES, SELECT
from xlstm_kernels.search.metric import Metric
from xlstm_kernels.search.pages import Pages
from xlstm_kernels.search.selection import sortable, top_k, top_k_reference

_SIMDGROUPS = 4
SEGMENTS = 8


def scan(
    queries: mx.array,
    probes: mx.array,
    pages: Pages,
    k: int,
    limit: int,
    metric: Metric,
    backend: str,
) -> tuple[mx.array, mx.array]:
    """Find the k candidates of each of float32 queries (Q, D) in the lists `probes`.

    Probes (Q, nprobe) are int32, the nearest list first, or -1 for none. At most `limit` pages are
    read for a query. Return the ids and places of candidates, (Q, k), int32; ids are -1 where there
    are fewer.
    """
    probes, ends = page_ends(probes, pages)
    squared = metric is Metric.L2
    if backend == executors.NATIVE:
        slots, _ = page_slots(probes, ends, pages, limit)
        rows = mx.arange(queries.shape[0], dtype=mx.uint32).reshape(-1, 1)
        dots = mx.gather_mm(
            mx.expand_dims(mx.negative(queries + queries if squared else queries), axis=1),
            pages.vectors,
            lhs_indices=mx.broadcast_to(rows, slots.shape),
            rhs_indices=slots.astype(mx.uint32),
        ).reshape(*slots.shape, LANES)
        _, ids = select(pages.norms[slots] + dots, slots, pages, k)
    else:
        keys, ids = _KERNEL(
            *(probes, ends, pages.ids, pages.first, mx.array(limit, dtype=mx.int32)),
            *(queries, pages.vectors),
            backend=backend,
            k=k,
            squared=squared,
        )
        _, ids = top_k(keys, k, ids=ids, backend=backend)
    return ids, pages.places[mx.maximum(ids, mx.zeros_like(ids))]


def page_ends(probes: mx.array, pages: Pages) -> tuple[mx.array, mx.array]:
    """Lists that exist, (Q, nprobe), and the running sums of their pages."""
    # Where a query or a centroid is NaN, the probe is -1: an empty list.
    absent = mx.less(probes, mx.zeros_like(probes))
    probes = mx.maximum(probes, mx.zeros_like(probes))
    counts = pages.counts[probes]
    return probes, mx.cumsum(mx.where(absent, mx.zeros_like(counts), counts), axis=1)


def page_slots(
    probes: mx.array, ends: mx.array, pages: Pages, limit: int
) -> tuple[mx.array, mx.array]:
    """The pages of each query in the order of its lists, and their columns of `probes`.

    Both are (Q, limit), int32. After the last page of a query: the empty page.
    """
    count, nprobe = probes.shape
    rows = mx.arange(count, dtype=mx.int32).reshape(-1, 1)
    ended = mx.zeros((count, limit + 1), dtype=mx.int32)
    stops = mx.minimum(ends, mx.full(ends.shape, limit, dtype=ends.dtype))
    # How many lists end before a slot.
    probe = mx.cumsum(ended.at[rows, stops].add(mx.ones_like(stops)), axis=1)[:, :limit]
    present = probe < mx.array(nprobe, dtype=mx.int32)
    probe = mx.minimum(probe, mx.array(nprobe - 1, dtype=mx.int32))
    begins = mx.pad(ends[:, :-1], [(0, 0), (1, 0)])
    shift = mx.take_along_axis(pages.first[probes] - begins, probe, axis=1)
    slots = shift + mx.expand_dims(mx.arange(limit, dtype=mx.int32), axis=0)
    empty = mx.full(slots.shape, pages.ids.shape[0] - 1, dtype=slots.dtype)
    return mx.where(present, slots, empty), probe


def select(keys: mx.array, slots: mx.array, pages: Pages, k: int) -> tuple[mx.array, mx.array]:
    """The k smallest of keys (Q, limit, 32) of pages `slots`, and their ids, in order.

    They are in the k pages whose smallest keys come first. In a page ids ascend: of equal keys,
    the first one has the lowest id.
    """
    infinite = mx.array(math.inf, dtype=keys.dtype)
    keys = mx.where(mx.less(keys, infinite), keys, infinite)
    if slots.shape[1] > 2 * k:
        lane = mx.argmin(keys, axis=2).astype(mx.int32)
        first = pages.ids.flatten()[slots * mx.array(LANES, dtype=slots.dtype) + lane]
        order = mx.argpartition(sortable(mx.min(keys, axis=2), first), k - 1, axis=1)[:, :k]
        keys = mx.take_along_axis(keys, mx.expand_dims(order, axis=2), axis=1)
        slots = mx.take_along_axis(slots, order, axis=1)
    flat = (slots.shape[0], slots.shape[1] * LANES)
    return top_k_reference(keys.reshape(flat), k, pages.ids[slots].reshape(flat))


# --- Metal -------------------------------------------------------------------------------------


def page_kernel(
    name: str, inputs: tuple[str, ...], launch: Callable[..., Launch], before: str, key: str
) -> Kernel:
    """A kernel that selects from the pages of each query's lists.

    Args:
        name: of the kernel.
        inputs: those after probes, ends, ids, first and limit.
        launch: its rule.
        before: statements in front, for the query `row`.
        key: statements that make `key` of a lane's vector of a page, `probe` being its list's.
    """
    return Kernel(
        name=name,
        inputs=("probes", "ends", "ids", "first", "limit", *inputs),
        outputs=("best", "best_ids"),
        launch=launch,
        header=SELECT,
        body=f"""
    // probes, ends: (count, lists), ends the running sum of their pages; ids: (pages, 32); first:
    // the first page of each list; limit: 0-d; best, best_ids: (count, SEGMENTS * ROWS * 32). All
    // contiguous. Each of SEGMENTS SIMD groups reads every SEGMENTS-th page of a query.
    const uint lists = probes_shape[1];
    const uint lane = thread_index_in_simdgroup;
    const int segment = threadgroup_position_in_grid.x * simdgroups_per_threadgroup
        + simdgroup_index_in_threadgroup;
    const int64_t row = threadgroup_position_in_grid.y;
{before}
    xlstm_smallest<ROWS> smallest;
    smallest.clear();
    int slot = segment;
    int begin = 0;
    for (uint probe = 0; probe < lists; ++probe) {{
        const int end = metal::min(static_cast<int>(ends[row * lists + probe]), limit);
        const int64_t start = first[probes[row * lists + probe]];
        for (; slot < end; slot += SEGMENTS) {{
            const int64_t page = start + (slot - begin);
{key}
            smallest.add(key, ids[page * 32 + lane], lane, LAST);
        }}
        begin = end;
    }}
    const int64_t to = (row * SEGMENTS + segment) * (ROWS * 32);
    smallest.store(best + to, best_ids + to, lane);
    """,
    )


def page_launch(count: int, k: int, simdgroups: int, *template: tuple[str, int | bool]) -> Launch:
    """The launch of a `page_kernel` for `count` queries, with what else its text names."""
    rows = math.ceil(k / LANES)
    shape = (count, SEGMENTS * rows * LANES)
    return Launch(
        grid=(SEGMENTS * LANES, count, 1),
        threadgroup=(simdgroups * LANES, 1, 1),
        output_shapes=(shape, shape),
        output_dtypes=(mx.float32, mx.int32),
        template=(("SEGMENTS", SEGMENTS), ("ROWS", rows), ("LAST", (k - 1) % LANES), *template),
    )


def _launch(probes: mx.array, *_others: mx.array, k: int, squared: bool) -> Launch:
    return page_launch(probes.shape[0], k, _SIMDGROUPS, ("SQUARED", squared))


_KERNEL = page_kernel(
    "xlstm_ivf_scan",
    ("queries", "vectors"),
    _launch,
    """
    // queries: (count, dimension); vectors: (pages, dimension, 32).
    const uint dimension = queries_shape[1];""",
    """
            const int64_t from = page * dimension * 32 + lane;
            float key = 0.0f;
            for (uint d = 0; d < dimension; ++d) {
                const float x = vectors[from + d * 32];
                const float q = queries[row * dimension + d];
                const float difference = x - q;
                key = SQUARED ? metal::fma(difference, difference, key) : metal::fma(-x, q, key);
            }""",
)
