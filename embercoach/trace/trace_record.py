"""A traced program's evaluations, as they are passed from process to process."""

from __future__ import annotations

import json
import os
from collections.abc import (
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

#: The kinds of event. `eval` is an evaluation that waits, `async-eval` one that does not;
#: `item`, `tolist`, `truth`, `number`, `text` and `numpy` copy an array's values to Python or to
#: NumPy; `save` writes them to a file; `compile` is the first trace of a compiled function,
#: `retrace` another one;
#: `promotion` is an operation of a 16-bit and a 32-bit array, whose result has 32 bits.
Kind = Literal[
    "eval",
    "async-eval",
    "synchronize",
    "item",
    "tolist",
    "truth",
    "number",
    "text",
    "numpy",
    "save",
    "compile",
    "retrace",
    "promotion",
]
#: Kinds after which the program has waited for the device.
WAITING = frozenset(
    ("eval", "synchronize", "item", "tolist", "truth", "number", "text", "numpy", "save")
)


def without_locals(operation: str) -> str:
    """Name a function that is defined in another as `outer.inner`."""
    return operation.replace(".<locals>", "")


def label_of(kind: str, operation: str) -> str:
    """Return the name of events of a kind in reports for people."""
    operation = without_locals(operation)
    if kind == "promotion":
        return f"promotion by {operation}"
    return f"{operation} again" if kind == "retrace" else operation


class Site(Struct, frozen=True):
    """The events of one kind at one line.

    Attributes:
        path: of the file, as Python names it.
        line: from 1.
        function: its name there.
        kind: of the events.
        operation: as one writes it, such as `array.item`.
        count: of the events.
        seconds: in all of them.
        most_seconds: in the longest.
        bytes: of the arrays whose values were copied; of promotions, of the results.
        details: of retraces, the changes that caused them, and of promotions the dtypes, each
            once.
        first_seconds: in the first event, which often compiles kernels.
        operations: in the largest graph that was counted; 0 if none was.
        cache_bytes: by which the most that MLX's cache of freed memory held was raised in and
            after these events.
    """

    path: str
    line: int
    function: str
    kind: Kind
    operation: str
    count: int
    seconds: float
    most_seconds: float
    bytes: int = 0
    details: tuple[str, ...] = ()
    first_seconds: float = 0.0
    operations: int = 0
    cache_bytes: int = 0

    @property
    def label(self) -> str:
        """The operation as reports for people name it."""
        return label_of(self.kind, self.operation)


class Event(NamedTuple):
    """One event, for a timeline.

    Attributes:
        site: its index among the record's.
        begin: seconds since the program's start.
        seconds: in the event.
        thread: its identifier.
        active_bytes: of MLX's arrays after it.
        cache_bytes: of MLX's cache of freed memory after it.
    """

    site: int
    begin: float
    seconds: float
    thread: int
    active_bytes: int
    cache_bytes: int


class TraceRecord(Struct, frozen=True):
    """The events of a program.

    Attributes:
        sites: the longest waits first.
        seconds: from the first import of the program to its end.
        device: MLX's default device at the end.
        mlx: its version; empty if the program has not imported MLX.
        peak_bytes: most memory that MLX's arrays took.
        cache_bytes: of MLX's cache of freed memory at the end.
        events: in order of their ends, if they were asked for.
        events_left_out: how many came after the most that are kept.
        files: of the program's modules, without installed ones.
        reached: the lines that ran, by file; None if they are unknown.
    """

    sites: tuple[Site, ...]
    seconds: float
    device: str
    mlx: str
    peak_bytes: int
    cache_bytes: int = 0
    events: tuple[Event, ...] = ()
    events_left_out: int = 0
    files: tuple[str, ...] = ()
    reached: Mapping[str, tuple[int, ...]] | None = None

    @property
    def waited(self) -> float:
        """Seconds in events that wait."""
        return sum(site.seconds for site in self.sites if site.kind in WAITING)


def to_text(record: TraceRecord) -> str:
    """Return a record as text, for another process."""
    return json.dumps(to_builtins(record))


def from_text(text: str) -> TraceRecord:
    """Return the record of a text that `to_text` made."""
    return convert(json.loads(text), TraceRecord)


def write(record: TraceRecord, target: Path) -> None:
    """Write a record, whole or not at all."""
    draft = target.with_suffix(f".{os.getpid()}")
    draft.write_text(to_text(record), encoding="utf-8")
    draft.replace(target)


def read(path: Path) -> TraceRecord | None:
    """Return the record in a file; None if the program ended without writing it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    return from_text(text)


def merged(records: Sequence[TraceRecord]) -> TraceRecord:
    """Return one record of processes that ran the same program, such as those of a test run.

    Seconds, counts and bytes are sums, memory is that of the process with the most. Single events
    are left out: the processes have no common clock.

    Args:
        records: at least one.
    """
    sites: dict[tuple[str, int, str, str, str], Site] = {}
    for site in (site for record in records for site in record.sites):
        key = site.path, site.line, site.function, site.kind, site.operation
        sites[key] = _added(sites[key], site) if key in sites else site
    known = [record.reached for record in records if record.reached is not None]
    reached: dict[str, tuple[int, ...]] = {}
    for file in sorted({file for lines in known for file in lines}):
        reached[file] = tuple(sorted({n for lines in known for n in lines.get(file, ())}))
    return replace(
        records[0],
        sites=tuple(sorted(sites.values(), key=lambda one: (-one.seconds, one.path, one.line))),
        seconds=sum(record.seconds for record in records),
        peak_bytes=max(record.peak_bytes for record in records),
        cache_bytes=max(record.cache_bytes for record in records),
        events=(),
        events_left_out=sum(len(one.events) + one.events_left_out for one in records),
        files=tuple(sorted({file for record in records for file in record.files})),
        reached=reached if len(known) == len(records) else None,
    )


def _added(site: Site, other: Site) -> Site:
    return replace(
        site,
        count=site.count + other.count,
        seconds=site.seconds + other.seconds,
        most_seconds=max(site.most_seconds, other.most_seconds),
        bytes=site.bytes + other.bytes,
        details=tuple(dict.fromkeys((*site.details, *other.details))),
        first_seconds=max(site.first_seconds, other.first_seconds),
        operations=max(site.operations, other.operations),
        cache_bytes=max(site.cache_bytes, other.cache_bytes),
    )
