"""A traced program's evaluations, as they are passed from process to process."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class Site:
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
        cache_bytes: by which MLX's cache of freed memory grew up to these events, each time
            since the event before it; negative if it became smaller.
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


@dataclass(frozen=True, slots=True)
class TraceRecord:
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
    """

    sites: tuple[Site, ...]
    seconds: float
    device: str
    mlx: str
    peak_bytes: int
    cache_bytes: int = 0
    events: tuple[Event, ...] = ()
    events_left_out: int = 0

    @property
    def waited(self) -> float:
        """Seconds in events that wait."""
        return sum(site.seconds for site in self.sites if site.kind in WAITING)


def write(record: TraceRecord, target: Path) -> None:
    """Write a record, whole or not at all."""
    draft = target.with_suffix(f".{os.getpid()}")
    data = {**asdict(replace(record, events=())), "events": record.events}
    draft.write_text(json.dumps(data), encoding="utf-8")
    draft.replace(target)


def read(path: Path) -> TraceRecord | None:
    """The record in a file; None if the program ended without writing it."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return None
    sites = (Site(**{**site, "details": tuple(site["details"])}) for site in data.pop("sites"))
    events = tuple(Event(*row) for row in data.pop("events"))
    return TraceRecord(sites=tuple(sites), events=events, **data)
