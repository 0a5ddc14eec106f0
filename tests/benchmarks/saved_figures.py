"""What benchmarks save: figures in JSON files, and tables of them in the documentation's pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from itertools import takewhile
from pathlib import Path
from typing import Any

import mlx.core as mx

VERSION = 1


def origin() -> dict[str, str]:
    """The device that figures are of, MLX's version, and the day as YYYY-MM-DD."""
    return {
        "device": str(mx.device_info().get("device_name", mx.default_device())),
        "mlx": mx.__version__,
        "date": datetime.now(tz=timezone.utc).date().isoformat(),
    }


def write(path: Path, figures: Mapping[str, object]) -> None:
    """Write figures, with the version of their form."""
    document = {"version": VERSION, **figures}
    path.write_text(f"{json.dumps(document, indent=1)}\n", encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """Read figures that `write` wrote; ValueError for another version."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if document.pop("version", None) != VERSION:
        raise ValueError(f"{path} must have version {VERSION}")
    return document


def filled(text: str, mark: str, table: Callable[[str], Iterable[str]]) -> str:
    """The text of a page with today's table below each mark, up to the next blank line.

    Args:
        text: the page's.
        mark: begins the line before a table.
        table: the lines of a table by its name, which follows the mark.
    """
    lines = iter(text.splitlines())
    written = []
    for line in lines:
        written.append(line)
        if line.startswith(mark):
            list(takewhile(str.strip, lines))  # the last table
            written += [*table(marked(line, mark)), ""]
    return "\n".join(written).rstrip("\n") + "\n"


def marked(line: str, mark: str) -> str:
    """The name that follows a mark."""
    return line.removeprefix(mark).removesuffix(" -->")
