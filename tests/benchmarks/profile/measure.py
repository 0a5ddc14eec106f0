"""Times of the cases on an NVIDIA GPU: ``python -m tests.benchmarks.profile.measure``.

Cases are compiled in several processes at once, and then measured by one process after the other.
Cases without a time, because their process ended, get a process each at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks import saved_figures
from tests.benchmarks.gpu.check import report
from tests.benchmarks.gpu.children import Start, children
from tests.benchmarks.profile.cases import cases

#: A process that compiles, or measures, for longer than this is stopped.
WORKER_SECONDS = 200
JOBS = 8


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each case; return 1 if one has no time."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.profile.measure")
    parser.add_argument("--seconds", type=float, default=150.0, help="limit of all")
    parser.add_argument("--case", action="append", help="names that contain this; default all")
    parser.add_argument("--json", type=Path, metavar="FILE", required=True)
    options = parser.parse_args(arguments)
    names = [
        name
        for name in cases()
        if options.case is None or any(part in name for part in options.case)
    ]
    rows: dict[str, dict[str, object]] = {}
    asyncio.run(measure(names, time.time() + options.seconds, rows, options.json))
    failed = [name for name in names if rows.get(name, {}).get("microseconds") is None]
    report(f"{len(names) - len(failed)} of {len(names)} cases have a time; none: {failed}")
    return bool(failed)


async def measure(
    names: Sequence[str], until: float, rows: dict[str, dict[str, object]], path: Path
) -> None:
    """Fill `rows` and write them as they come; no case begins after `until`."""
    async with children() as start:
        parts = [part for part in (names[place::JOBS] for place in range(JOBS)) if part]
        await _run(start, parts, until, rows, path)
    async with children() as start:
        left = [[name] for name in names if name not in rows]
        if left and time.time() < until:
            report(f"again: {left}")
            await _run(start, left[: 2 * JOBS], until, rows, path)


async def _run(
    start: Start,
    parts: Sequence[Sequence[str]],
    until: float,
    rows: dict[str, dict[str, object]],
    path: Path,
) -> None:
    module = "tests.benchmarks.profile.worker"
    workers = await asyncio.gather(
        *(start(part[0], sys.executable, "-m", module, *part) for part in parts)
    )
    begin = time.time()
    await asyncio.gather(*(worker.compiled(WORKER_SECONDS) for worker in workers))
    report(f"compiled in {time.time() - begin:.0f} s")
    for worker in workers:
        await worker.send(str(until))
        async for row in worker.records(WORKER_SECONDS):
            rows[row["name"]] = row
            saved_figures.write(path, {**saved_figures.origin(), "times": list(rows.values())})
            report(line(row))


def line(row: dict[str, object]) -> str:
    """One row of the table that is printed."""
    if row["microseconds"] is None:
        return f"{row['name']:40} failed: {row['error']}"
    cold = "DRAM" if row["cold"] else "L2"
    return (
        f"{row['name']:40} {row['microseconds']:12.2f} us, spread {row['spread']:.3f},"
        f" {row['launches']} launches, {row['copies']} copies, {cold}"
    )


if __name__ == "__main__":
    sys.exit(main())
