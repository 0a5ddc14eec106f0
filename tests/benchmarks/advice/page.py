"""The tables of `docs/kernel-advice.md`, from the figures in `docs/images`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.benchmarks import saved_figures
from tests.benchmarks.advice.figures import Figure, read

_DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = _DOCS / "kernel-advice.md"
#: By the device's name in the tables: figures of `--json`. A file that is absent has no columns.
SOURCES = {
    "H200": _DOCS / "images" / "advice-h200.json",
    "simulator": _DOCS / "images" / "advice-simulator.json",
}
#: Begins the line before a table; the name of the piece follows.
MARK = "<!-- advice: "

_COLUMNS: dict[str, Callable[[Figure], object]] = {
    "ms": lambda row: None if row.milliseconds is None else f"{row.milliseconds:.3g}",
    "ratio": lambda row: None if row.ratio is None else f"{row.ratio:.2f}",
    "elements that differ": lambda row: f"{row.different:,}" if row.different else None,
    "device bytes": lambda row: None if row.device_bytes is None else f"{row.device_bytes:,}",
    "accesses": lambda row: None if row.accesses is None else f"{row.accesses:,}",
    "findings": lambda row: ", ".join(f"`{kind}`" for kind in row.findings),
    "failed": lambda row: row.error,
}


def regenerate() -> None:
    """Write the tables."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """The text with the tables of today's figures."""
    rows = {name: read(path).figures for name, path in SOURCES.items() if path.exists()}
    return saved_figures.filled(text, MARK, lambda piece: _table(piece, rows))


def _table(piece: str, rows: Mapping[str, Sequence[Figure]]) -> Iterator[str]:
    """Columns without a number are left out; without figures there is no table."""
    found = {
        name: {row.variant: row for row in figures if row.piece == piece}
        for name, figures in rows.items()
    }
    variants = list(dict.fromkeys(name for of in found.values() for name in of))
    if not variants:
        return
    columns = {
        f"{_device(device, column)}{column}": [
            str(shown(of[name]) or "") if name in of else "" for name in variants
        ]
        for device, of in found.items()
        for column, shown in _COLUMNS.items()
    }
    columns = {"variant": variants, **{name: c for name, c in columns.items() if any(c)}}
    yield f"| {' | '.join(columns)} |"
    yield f"| --- |{' ---: |' * (len(columns) - 1)}"
    for cells in zip(*columns.values(), strict=True):
        yield f"| {' | '.join(cells)} |"


def _device(device: str, column: str) -> str:
    """Times of `--backend native` are those of streams on a CPU."""
    return "CPU, " if device == "simulator" and column in {"ms", "ratio"} else f"{device}, "
