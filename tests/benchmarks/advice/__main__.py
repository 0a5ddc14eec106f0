"""The advice of guides on kernels, measured: ``python -m tests.benchmarks.advice``.

On a GPU, the times of each variant, paired with the first one. With ``--backend native``, the
simulator's counts of the kernels, and times of streams on the CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx

from tests.benchmarks import saved_figures
from tests.benchmarks.advice.figures import Figure, Report, figure, line
from tests.benchmarks.advice.subjects import SUBJECTS
from tests.benchmarks.gpu.check import report
from tests.benchmarks.gpu.children import children
from xlstm_kernels import executors

#: A worker that compiles, or measures, for longer than this is stopped.
WORKER_SECONDS = 400


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 1 if a variant failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.advice", description=__doc__)
    parser.add_argument("--backend", choices=executors.names(), default=executors.resolve(None))
    parser.add_argument("--subject", choices=SUBJECTS, action="append", help="default all")
    parser.add_argument("--seconds", type=float, default=100.0, help="limit of the measurements")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    options = parser.parse_args(arguments)
    if options.backend == executors.NATIVE:
        mx.set_default_device(mx.cpu)
    # MLX's matrix product is compared with kernels in float32.
    os.environ["MLX_ENABLE_TF32"] = "0"
    subjects = options.subject or list(SUBJECTS)
    figures = asyncio.run(measure(options.backend, subjects, options.seconds))
    if options.json:
        origin = saved_figures.origin()
        Report(**origin, backend=options.backend, figures=tuple(figures)).write(options.json)
    return any(row.error for row in figures) or not figures


async def measure(backend: str, subjects: Sequence[str], seconds: float) -> list[Figure]:
    """Print and return the figures; no piece starts after `seconds` of measuring."""
    figures: list[Figure] = []
    async with children() as start:
        report(f"compiling {len(subjects)} subjects")
        workers = await asyncio.gather(
            *(
                start(name, sys.executable, "-m", "tests.benchmarks.advice.worker", backend, name)
                for name in subjects
            )
        )
        await asyncio.gather(*(worker.compiled(WORKER_SECONDS) for worker in workers))
        until = str(time.time() + seconds)
        for worker in workers:
            report(f"\n{worker.name}")
            await worker.send(until)
            piece = ""
            async for record in worker.records(WORKER_SECONDS):
                row = figure(record)
                if row.piece != piece:
                    report(f"{row.piece} ({row.claim})")
                    piece = row.piece
                figures.append(row)
                report(line(row))
    return figures


if __name__ == "__main__":
    sys.exit(main())
