"""Scans of pages of codes: a key is a sum of numbers that tables of the query give for its codes.

A kernel keeps the tables of a query in threadgroup memory where they fit, and reads a page with 32
lanes, a code each. MLX operations gather from the tables.
"""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Launch
from xlstm_kernels.search.pages import Pages
from xlstm_kernels.search.scan import (
    SEGMENTS,
    page_ends,
    page_kernel,
    page_launch,
    page_slots,
    select,
)
from xlstm_kernels.search.selection import top_k

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
    """Find the k codes with the smallest keys in the lists of each query, as `scan` does.

    A key is the bias of its list (Q, nprobe), the norm of its code, and a number from each of the
    tables (m, Q, 256). Pages hold codes (P, m, 32), uint8. Keys and ids (Q, k) are infinity and -1
    where there are fewer.
    """
    probes, ends = page_ends(probes, pages)
    if backend == executors.NATIVE:
        slots, probe = page_slots(probes, ends, pages, limit)
        bias = mx.expand_dims(mx.take_along_axis(biases, probe, axis=1), axis=2)
        keys = pages.norms[slots] + bias
        for part in range(tables.shape[0]):
            codes = pages.vectors[:, part][slots].reshape(slots.shape[0], -1)
            keys = keys + mx.take_along_axis(tables[part], codes, axis=1).reshape(keys.shape)
        return select(keys, slots, pages, k)
    keys, ids = _KERNEL(
        *(probes, ends, pages.ids, pages.first, mx.array(limit, dtype=mx.int32)),
        *(tables, biases, pages.vectors, pages.norms),
        backend=backend,
        k=k,
    )
    keys, ids = top_k(keys, k, ids=ids, backend=backend)
    return keys, ids


# --- Metal -------------------------------------------------------------------------------------


def _launch(probes: mx.array, *others: mx.array, k: int) -> Launch:
    m = others[4].shape[0]
    return page_launch(probes.shape[0], k, SEGMENTS, ("M", m), ("SHARED", m <= _MOST_SHARED))


_KERNEL = page_kernel(
    "xlstm_ivf_pq_scan",
    ("tables", "biases", "codes", "norms"),
    _launch,
    """
    // tables: (M, count, 256); biases: (count, lists); codes: (pages, M, 32), uint8; norms:
    // (pages, 32).
    threadgroup float shared[SHARED ? M * 256 : 1];
    const int64_t count = probes_shape[0];
    if (SHARED) {
        for (uint i = thread_index_in_threadgroup; i < M * 256; i += SEGMENTS * 32) {
            shared[i] = tables[(i / 256 * count + row) * 256 + i % 256];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }""",
    """
            float sum = 0.0f;
            for (uint part = 0; part < M; ++part) {
                const uint code = codes[(page * M + part) * 32 + lane];
                sum += SHARED ? shared[SHARED ? part * 256 + code : 0]
                              : tables[(part * count + row) * 256 + code];
            }
            const float key = sum + (norms[page * 32 + lane] + biases[row * lists + probe]);""",
)
