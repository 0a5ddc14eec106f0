"""A traced program's evaluations, as they are passed from process to process."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path

#: The kinds of event. `eval` is an evaluation that waits, `async-eval` one that does not;
#: `item`, `tolist`, `truth`, `number`, `text` and `numpy` copy an array's values to Python or to
#: NumPy; `save` writes them to a file; `compile` is the first trace of a compiled function,
#: `retrace` another one.
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
        bytes: of the arrays whose values were copied.
        details: of retraces, the changes that caused them, each once.
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


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """The events of a program.

    Attributes:
        sites: the longest waits first.
        seconds: from the first import of the program to its end.
        device: MLX's default device at the end.
        mlx: its version; empty if the program has not imported MLX.
        peak_bytes: most memory that MLX's arrays took.
    """

    sites: tuple[Site, ...]
    seconds: float
    device: str
    mlx: str
    peak_bytes: int

    @property
    def waited(self) -> float:
        """Seconds in events that wait."""
        return sum(site.seconds for site in self.sites if site.kind in WAITING)


def write(record: TraceRecord, target: Path) -> None:
    """Write a record, whole or not at all."""
    draft = target.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(asdict(record)), encoding="utf-8")
    draft.replace(target)


def read(path: Path) -> TraceRecord | None:
    """The record in a file; None if the program ended without writing it."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return None
    sites = (Site(**{**site, "details": tuple(site["details"])}) for site in data.pop("sites"))
    return TraceRecord(sites=tuple(sites), **data)
