"""Inverted lists as pages of 32 vectors, whose number is known without reading the lists.

A list has as many pages as its vectors need; the last one may have free places. All lists together
have at most N / 32 + nlist pages, so that arrays have shapes of the host, and offsets stay on the
device. The last page is empty. Kernels read pages in which the 32 vectors lie next to each other in
each dimension: a lane reads one vector. MLX operations read rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mlx.core as mx

from xlstm_kernels.search.metal import LANES


@dataclass(frozen=True, slots=True)
class Pages:
    """The vectors of all lists, or their codes."""

    vectors: mx.array  # (P, D, 32); zero in free places
    norms: mx.array  # (P, 32), float32, the term that no query changes; infinity in free places
    ids: mx.array  # (P, 32), int32, ascending in a list; -1 in free places
    first: mx.array  # (nlist), int32, the first page of each list
    counts: mx.array  # (nlist), int32, the pages of each list
    places: mx.array  # (N), int32, the place of each vector, 32 to a page
    interleaved: bool  # `vectors` is contiguous; else its pages are transposed rows

    def by_id(self) -> mx.array:
        """The vectors (N, D) in the order of their ids."""
        return self.at(self.places)

    def at(self, places: mx.array) -> mx.array:
        """The vectors (..., D) at places (...), which are below 32 P."""
        if not self.interleaved:
            return mx.swapaxes(self.vectors, 1, 2).reshape(-1, self.vectors.shape[1])[places]
        lane = mx.array(LANES, dtype=places.dtype)
        return self.vectors[places // lane, :, places % lane]


def page_bound(count: int, nlist: int) -> int:
    """The most pages that `count` vectors in `nlist` lists need."""
    return count // LANES + min(count, nlist)


def paged(
    vectors: mx.array, norms: mx.array, lists: mx.array, nlist: int, *, interleaved: bool
) -> Pages:
    """Sort vectors (N, D) and norms (N) by their lists (N), int32, and lay them out in pages."""
    count, dimension = vectors.shape
    lane = mx.array(LANES, dtype=mx.int32)
    sizes = mx.zeros((nlist,), dtype=mx.int32).at[lists].add(mx.ones((count,), dtype=mx.int32))
    counts = (sizes + lane - mx.ones_like(lane)) // lane
    first = mx.cumsum(counts) - counts
    begins = mx.cumsum(sizes) - sizes
    numbers = mx.arange(count, dtype=mx.int32)
    # A key of the list and the number: equal lists stay in the order of numbers in any sort.
    factor = mx.array(count, dtype=mx.int64)
    ordered = mx.sort(lists.astype(mx.int64) * factor + numbers.astype(mx.int64))
    order, sorted_lists = (ordered % factor).astype(mx.int32), (ordered // factor).astype(mx.int32)
    target = first[sorted_lists] * lane + numbers - begins[sorted_lists]
    pages = page_bound(count, nlist) + 1
    ids = mx.full((pages * LANES,), -1, dtype=mx.int32)
    ids[target] = order
    places = mx.zeros((count,), dtype=mx.int32)
    places[order] = target
    taken, absent = mx.maximum(ids, mx.zeros_like(ids)), mx.less(ids, mx.zeros_like(ids))
    rows = mx.take(vectors, taken, axis=0)
    rows = mx.where(mx.expand_dims(absent, axis=1), mx.zeros_like(rows), rows)
    whole = mx.swapaxes(rows.reshape(pages, LANES, dimension), 1, 2)
    whole = mx.contiguous(whole) if interleaved else whole
    norms = mx.where(absent, mx.array(math.inf, dtype=norms.dtype), norms[taken])
    shape = (pages, LANES)
    ids, norms = ids.reshape(shape), norms.reshape(shape)
    return Pages(whole, norms, ids, first, counts, places, interleaved)
