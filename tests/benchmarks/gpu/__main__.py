"""The kernel pack on a GPU: its errors (``--check``), or its times.

Needs Python, NumPy and MLX, on NVIDIA GPUs the extra ``cuda``; ``--picture`` needs Matplotlib. On
a machine without a GPU, ``--backend native`` runs MLX's operations at small sizes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

import mlx.core as mx

from tests.benchmarks.gpu.cases import GROUPS
from tests.benchmarks.gpu.check import DTYPES, check, report
from tests.benchmarks.gpu.figures import read
from tests.benchmarks.gpu.measure import measure
from tests.benchmarks.gpu.picture import draw
from tests.benchmarks.gpu.programs import SIZES
from xlstm_kernels import executors

SIZE_OF_BACKEND = {"cuda": "large", "metal": "medium"}


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with float64 definitions")
    parser.add_argument("--backend", choices=executors.names(), default=executors.resolve(None))
    parser.add_argument("--dtype", choices=DTYPES, help="default float32 for --check, else two")
    parser.add_argument("--group", choices=GROUPS, action="append", help="one or more; default all")
    parser.add_argument("--size", choices=SIZES, help="of the timed calls; default by the backend")
    parser.add_argument(
        "--jobs",
        type=int,
        default=max(1, min(16, os.cpu_count() or 1)),
        help="processes that compile, or check, at once",
    )
    parser.add_argument("--seconds", type=float, default=100.0, help="limit of the measurements")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--from", type=Path, metavar="FILE", dest="source", help="read figures")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the figures as an SVG")
    options = parser.parse_args(arguments)
    groups = options.group or list(GROUPS)
    if options.check:
        return check(options.backend, options.dtype or "float32", groups, options.jobs) > 0
    if options.source:
        figures = read(options.source)
        failed = []
    else:
        if options.backend == executors.NATIVE:
            mx.set_default_device(mx.cpu)
        measuring = measure(
            options.backend,
            options.size or SIZE_OF_BACKEND.get(options.backend, "tiny"),
            [options.dtype] if options.dtype else ["bfloat16", "float32"],
            groups,
            options.jobs,
            options.seconds,
        )
        figures = asyncio.run(measuring)
        failed = [row for row in figures.figures if None in row.milliseconds.values()]
    if options.json:
        figures.write(options.json)
    if options.picture:
        draw(figures, options.picture)
    if failed:
        report(f"{len(failed)} figures have calls that failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
