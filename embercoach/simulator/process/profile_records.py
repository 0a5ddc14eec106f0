"""Counts of a profiled run, read from the runtime by the process that runs kernels.

Like that process's program, it takes the standard library alone.
"""

from __future__ import annotations

from ctypes import CDLL, POINTER, Structure, byref, c_int64, c_uint32, c_uint64
from typing import Any

#: The numbers of a site in an answer, in order; `pc` counts from the start of the kernel's object.
SITE = (
    *("pc", "place", "width", "access", "issued", "lanes"),
    *("sectors", "lines64", "lines128", "bank_cycles", "contention", "first"),
)
_KINDS = {"place": c_int64, "width": c_uint32, "access": c_uint32}


class SiteRecord(Structure):
    """The runtime's ``ember_site``."""

    _fields_ = [(name, _KINDS.get(name, c_uint64)) for name in SITE]


class BlockRecord(Structure):
    """The runtime's ``ember_block``."""

    _fields_ = [("issued", c_uint64), ("lanes", c_uint64)]


def read(library: CDLL, base: int, buffers: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of the last run: `sites`, `blocks` that ran, `buffers`, `simdgroups`."""
    site_at, blocks_at = library.ember_profile_site, library.ember_profile_blocks
    site_at.restype, site_at.argtypes = POINTER(SiteRecord), [c_uint32]
    blocks_at.restype, blocks_at.argtypes = POINTER(BlockRecord), [POINTER(c_uint64)]
    buffer_at = library.ember_profile_buffer
    buffer_at.restype, buffer_at.argtypes = c_uint64, [c_uint32, POINTER(c_uint64)]
    sites: list[list[int]] = []
    while site := site_at(len(sites)):
        record = site.contents
        record.pc -= base
        sites.append([getattr(record, name) for name in SITE])
    count = c_uint64()
    records = blocks_at(byref(count))
    counted = ((i, records[i].issued, records[i].lanes) for i in range(count.value))
    moved, simdgroups, bytes_of = [], 0, (c_uint64 * 4)()
    for buffer in buffers:
        simdgroups = buffer_at(buffer["slot"], bytes_of)
        moved.append(list(bytes_of))
    return {
        "sites": sites,
        "blocks": [numbers for numbers in counted if numbers[1]],
        "buffers": moved,
        "simdgroups": simdgroups,
    }
