"""Figures of a run: their form in JSON, and as a table of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.benchmarks import saved_figures

FORWARD, TRAINING = "forward", "forward and backward"
OURS, EAGER, COMPILED, FAST, TRITON, TORCH = (
    "ours",
    "ours, eager",
    "compiled",
    "mx.fast",
    "Triton",
    "torch",
)


@dataclass(frozen=True, slots=True)
class Figure:
    """Times of one operator at one size.

    Attributes:
        group: the name that `--group` takes.
        operator: the operator, with its options.
        shape: as the operator's group names it (docs/performance.md).
        dtype: of the inputs; states are float32.
        work: the passes that are timed.
        milliseconds: of a call, by contestant; None where one failed or was not measured.
        moved_bytes: bytes that have to be read and written; None where arithmetic is the limit.
        peak_bytes: memory of one call by contestant, outputs included, inputs not.
    """

    group: str
    operator: str
    shape: tuple[int, ...]
    dtype: str
    work: str
    milliseconds: dict[str, float | None]
    moved_bytes: int | None = None
    peak_bytes: dict[str, int] = field(default_factory=dict)

    def ratio(self, other: str) -> float | None:
        """How many times longer the other one takes than ours."""
        ours, theirs = self.milliseconds.get(OURS), self.milliseconds.get(other)
        return theirs / ours if ours and theirs else None

    def bandwidth(self) -> float | None:
        """GB/s of ours."""
        ours = self.milliseconds.get(OURS)
        return self.moved_bytes / ours / 1e6 if ours and self.moved_bytes else None


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one run on one device.

    Attributes:
        device: its name.
        mlx: MLX's version.
        date: the day, as YYYY-MM-DD.
        backend: the one whose kernels ran.
        copy_bandwidth: GB/s of a copy, read and write, by dtype.
        figures: in the order they were measured.
    """

    device: str
    mlx: str
    date: str
    backend: str
    copy_bandwidth: dict[str, float]
    figures: tuple[Figure, ...]

    def write(self, path: Path) -> None:
        saved_figures.write(path, asdict(self))


def read(path: Path) -> Report:
    """Read a report that `Report.write` wrote; ValueError for another version."""
    document = saved_figures.read(path)
    return Report(**{**document, "figures": tuple(map(figure, document["figures"]))})


def figure(record: dict[str, object]) -> Figure:
    """Return the figure of a JSON object."""
    return Figure(**{**record, "shape": tuple(record["shape"])})


def lines(report: Report) -> Iterator[str]:
    """A line for each figure: times in ms, ratios to ours, shares of the copy."""
    yield f"{report.device}, MLX {report.mlx}, backend {report.backend}, {report.date}"
    for dtype, bandwidth in report.copy_bandwidth.items():
        yield f"copy, {dtype}: {bandwidth:.0f} GB/s"
    group = None
    for row in report.figures:
        if row.group != group:
            group = row.group
            yield f"\n{group}"
        yield line(row, report.copy_bandwidth.get(row.dtype))


def line(row: Figure, copy: float | None) -> str:
    """One figure: ours in ms and its bandwidth, then the others and how much longer they take."""
    name = f"{row.operator} {'x'.join(map(str, row.shape))} {row.dtype}, {row.work}"
    ours = row.milliseconds.get(OURS)
    parts = ["ours failed" if ours is None else f"ours {ours:.4g} ms"]
    bandwidth = row.bandwidth()
    if bandwidth:
        share = f", {bandwidth / copy:.2f} of copy" if copy else ""
        parts.append(f"{bandwidth:.0f} GB/s{share}")
    for other, time in row.milliseconds.items():
        if other != OURS:
            ratio = row.ratio(other)
            shown = "failed" if time is None else f"{time:.4g} ms"
            parts.append(f"{other} {shown}" + (f" ({ratio:.2f}x)" if ratio else ""))
    if row.peak_bytes:
        peaks = ", ".join(f"{name} {size / 1e6:.3g}" for name, size in row.peak_bytes.items())
        parts.append(f"peak MB: {peaks}")
    return f"{name:68} {'; '.join(parts)}"
