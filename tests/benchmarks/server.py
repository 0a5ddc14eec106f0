"""How long a keystroke takes in the language server: ``python -m tests.benchmarks.server``.

A client over standard input and output types a character at a time into a file of some 1,000 lines,
of mlx-lm or your own (``--file``), which stays as it is on disk, and waits for the diagnostics of
each version. What is printed is the median in milliseconds, beside a bare ``libcst.parse_module``
of the same text right after; the bar is 100 ms. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import libcst as cst

from tests.accuracy.corpus import package_root
from tests.server.editor import Editor

PACKAGE = ("mlx-lm", "0.32.2", "wheel")
FILE = "mlx_lm/models/muse_spark.py"
BAR = 100
WORD = "scale = weights"


def keystrokes(text: str, file: Path) -> list[float]:
    """Seconds from each keystroke to its diagnostics, after a first one that warms up."""
    editor = Editor(file.parent)
    editor.open(file.name, text)
    middle = text.index("\n\n\n", len(text) // 2)
    waits = []
    for count in range(len(WORD) + 1):
        typed = f"{text[:middle]}\n\n\n{WORD[:count]}{text[middle:]}"
        start = time.perf_counter()
        editor.change(file.name, typed)
        waits.append(time.perf_counter() - start)
    editor.stop()
    return waits[1:]


def bare(text: str) -> float:
    """Seconds of a parse."""
    start = time.perf_counter()
    cst.parse_module(text)
    return time.perf_counter() - start


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, help="the Python file to type into")
    options = parser.parse_args()
    file = options.file or package_root(*PACKAGE) / FILE
    text = file.read_text(encoding="utf-8")
    waits = keystrokes(text, file.resolve())
    parse = statistics.median(bare(text) for _ in range(9))
    middle = statistics.median(waits)
    sys.stdout.write(
        f"{file.name}: {text.count(chr(10))} lines, {len(text)} characters\n"
        f"a keystroke   median {middle * 1000:.0f} ms (bar: {BAR}), "
        f"worst {max(waits) * 1000:.0f} ms of {len(waits)}\n"
        f"a bare parse  median {parse * 1000:.0f} ms; ratio {middle / parse:.2f}\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
