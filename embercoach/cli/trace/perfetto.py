"""A trace as a timeline, for ui.perfetto.dev and chrome://tracing.

The form is the Trace Event Format's: complete events (``X``), counters (``C``), metadata (``M``);
times are in microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.trace.trace_record import TraceRecord

_PROCESS = 1


def timeline(record: TraceRecord, program: str, places: list[str]) -> dict[str, Any]:
    """The document, as plain data.

    Args:
        record: with single events.
        program: how it is named.
        places: of each of the record's sites, as users read them.
    """
    return {
        "traceEvents": [
            {"name": "process_name", "ph": "M", "pid": _PROCESS, "args": {"name": program}},
            *_events(record, places),
        ],
        "displayTimeUnit": "ms",
        "otherData": {
            "device": record.device,
            "mlx": record.mlx,
            "events_left_out": record.events_left_out,
        },
    }


def _events(record: TraceRecord, places: list[str]) -> Iterator[dict[str, Any]]:
    for event in record.events:
        site = record.sites[event.site]
        begin, taken = event.begin * 1e6, event.seconds * 1e6
        yield {
            "name": f"{site.label} {places[event.site]}",
            "cat": site.kind,
            "ph": "X",
            "ts": begin,
            "dur": taken,
            "pid": _PROCESS,
            "tid": event.thread,
            "args": {"function": site.function},
        }
        yield {
            "name": "MLX memory (bytes)",
            "ph": "C",
            "ts": begin + taken,
            "pid": _PROCESS,
            "args": {"arrays": event.active_bytes, "cache": event.cache_bytes},
        }
