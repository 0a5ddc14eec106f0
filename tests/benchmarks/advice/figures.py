"""Figures of pieces of advice, and their JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.benchmarks import saved_figures


@dataclass(frozen=True, slots=True)
class Figure:
    """Times, counts and findings of a variant.

    Attributes:
        piece: the name of the piece of advice.
        claim: the advice.
        variant: its name.
        milliseconds: of one call, warm, the median; None where it was not timed.
        ratio: to the first variant, the median of the rounds' ratios.
        different: elements of the outputs that are not those of the first variant.
        device_bytes: read and written, as the simulator counts; None where it did not run.
        accesses: to memory, threadgroup memory included.
        findings: their kinds.
        error: of a call that failed.
    """

    piece: str
    claim: str
    variant: str
    milliseconds: float | None = None
    ratio: float | None = None
    different: int | None = None
    device_bytes: int | None = None
    accesses: int | None = None
    findings: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one run on one device, in the order they were measured."""

    device: str
    mlx: str
    date: str
    backend: str
    figures: tuple[Figure, ...]

    def write(self, path: Path) -> None:
        saved_figures.write(path, asdict(self))


def figure(record: dict[str, object]) -> Figure:
    """Return the figure of a JSON object."""
    return Figure(**{**record, "findings": tuple(record["findings"])})


def read(path: Path) -> Report:
    """Read a report that `Report.write` wrote; ValueError for another version."""
    document = saved_figures.read(path)
    return Report(**{**document, "figures": tuple(map(figure, document["figures"]))})


def parts(row: Figure) -> Iterator[str]:
    """Each thing that was measured, as text."""
    if row.milliseconds is not None:
        yield f"{row.milliseconds:.4g} ms"
    if row.ratio is not None:
        yield f"{row.ratio:.3f}x"
    if row.device_bytes is not None:
        yield f"{row.device_bytes:,} device bytes"
    if row.accesses is not None:
        yield f"{row.accesses:,} accesses"
    if row.different:
        yield f"{row.different:,} elements differ"
    yield from row.findings
    if row.error:
        yield f"failed: {row.error}"


def line(row: Figure) -> str:
    """One row of the table that is printed."""
    return f"  {row.variant:46} {', '.join(parts(row))}"
