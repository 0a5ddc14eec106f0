"""Scans of pages of codes: a key is a sum of numbers that tables of the query give for its codes.

A kernel keeps the tables of a query in threadgroup memory where they fit, and reads a page with 32
lanes, a code each. MLX operations gather from the tables.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.search.metal import LANES, SELECT
from xlstm_kernels.search.scan import SEGMENTS, page_ends, page_slots, select
from xlstm_kernels.search.selection import top_k

if TYPE_CHECKING:
    from xlstm_kernels.search.pages import Pages

CODEWORDS = 256
# 32 tables of 256 float32 fill the 32 KB of Metal.
_MOST_SHARED = 32


def scan_codes(
    tables: mx.array,
    biases: mx.array,
    probes: mx.array,
    pages: Pages,
    k: int,
    limit: int,
    backend: str,
) -> tuple[mx.array, mx.array]:
    """Find the codes with the smallest keys in the lists `probes` (Q, nprobe), int32.

    A key is the bias of its list, the norm of its code, and a number from each table.

    Args:
        tables: (m, Q, 256), float32.
        biases: (Q, nprobe), float32.
        probes: the nearest list first, or -1 for none.
        pages: the lists; `vectors` are codes (P, m, 32), uint8.
        k: how many codes of a query.
        limit: the most pages that are read for a query.
        backend: as `executors.resolve` returned it.

    Returns:
        Keys and ids (Q, k); infinity and -1 where there are fewer.
    """
    probes, ends = page_ends(probes, pages)
    if backend == executors.NATIVE:
        return scan_codes_reference(tables, biases, probes, ends, pages, k, limit)
    keys, ids = _KERNEL(
        tables,
        biases,
        probes,
        ends,
        pages.vectors,
        pages.norms,
        pages.ids,
        pages.first,
        mx.array(limit, dtype=mx.int32),
        backend=backend,
        k=k,
    )
    keys, ids = top_k(keys, k, ids=ids, backend=backend)
    return keys, ids


def scan_codes_reference(
    tables: mx.array,
    biases: mx.array,
    probes: mx.array,
    ends: mx.array,
    pages: Pages,
    k: int,
    limit: int,
) -> tuple[mx.array, mx.array]:
    """The kernel in MLX operations: keys and ids, (Q, k)."""
    slots, probe = page_slots(probes, ends, pages, limit)
    keys = pages.norms[slots] + mx.expand_dims(mx.take_along_axis(biases, probe, axis=1), axis=2)
    for part in range(tables.shape[0]):
        codes = pages.vectors[:, part][slots].reshape(slots.shape[0], -1)
        keys = keys + mx.take_along_axis(tables[part], codes, axis=1).reshape(keys.shape)
    return select(keys, slots, pages, k)


# --- Metal -------------------------------------------------------------------------------------


def _launch(tables: mx.array, *_others: mx.array, k: int) -> Launch:
    rows = math.ceil(k / LANES)
    m, count, _ = tables.shape
    shape = (count, SEGMENTS * rows * LANES)
    return Launch(
        grid=(SEGMENTS * LANES, count, 1),
        threadgroup=(SEGMENTS * LANES, 1, 1),
        output_shapes=(shape, shape),
        output_dtypes=(mx.float32, mx.int32),
        template=(
            ("SEGMENTS", SEGMENTS),
            ("M", m),
            ("SHARED", m <= _MOST_SHARED),
            ("ROWS", rows),
            ("LAST", (k - 1) % LANES),
        ),
    )


_KERNEL = Kernel(
    name="xlstm_ivf_pq_scan",
    inputs=("tables", "biases", "probes", "ends", "codes", "norms", "ids", "first", "limit"),
    outputs=("best", "best_ids"),
    launch=_launch,
    header=SELECT,
    body="""
    // tables: (M, count, 256); biases, probes, ends: (count, lists), ends the running sum of their
    // pages; codes: (pages, M, 32), uint8; norms, ids: (pages, 32); first: the first page of each
    // list; limit: 0-d; best, best_ids: (count, SEGMENTS * ROWS * 32). All contiguous.
    // Each of SEGMENTS SIMD groups reads every SEGMENTS-th page of a query.
    threadgroup float shared[SHARED ? M * 256 : 1];
    const uint lists = probes_shape[1];
    const int64_t count = probes_shape[0];
    const uint lane = thread_index_in_simdgroup;
    const int64_t row = threadgroup_position_in_grid.y;
    if (SHARED) {
        for (uint i = thread_index_in_threadgroup; i < M * 256; i += SEGMENTS * 32) {
            shared[i] = tables[(i / 256 * count + row) * 256 + i % 256];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    xlstm_smallest<ROWS> smallest;
    smallest.clear();
    int slot = simdgroup_index_in_threadgroup;
    int begin = 0;
    for (uint probe = 0; probe < lists; ++probe) {
        const int end = metal::min(static_cast<int>(ends[row * lists + probe]), limit);
        const int64_t start = first[probes[row * lists + probe]];
        const float bias = biases[row * lists + probe];
        for (; slot < end; slot += SEGMENTS) {
            const int64_t page = start + (slot - begin);
            float sum = 0.0f;
            for (uint part = 0; part < M; ++part) {
                const uint code = codes[(page * M + part) * 32 + lane];
                sum += SHARED ? shared[SHARED ? part * 256 + code : 0]
                              : tables[(part * count + row) * 256 + code];
            }
            const float fixed = norms[page * 32 + lane] + bias;
            smallest.add(sum + fixed, ids[page * 32 + lane], lane, LAST);
        }
        begin = end;
    }
    const int64_t to = (row * SEGMENTS + simdgroup_index_in_threadgroup) * (ROWS * 32);
    smallest.store(best + to, best_ids + to, lane);
    """,
)
