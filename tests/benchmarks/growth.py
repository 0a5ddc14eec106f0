"""Cost of hostile shapes of input as they grow: ``python -m tests.benchmarks.growth``.

Each shape is checked at several sizes by a process of its own. What is printed is processor time
and memory of the whole process, and the exponent by which the time, less that of the start,
grows between the two largest sizes. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import metal_growth, python_growth

SIZES = (10_000, 50_000, 100_000)
#: Bars at the largest size: seconds, megabytes, and the exponent of growth.
SECONDS, MEGABYTES, EXPONENT = 2.0, 500.0, 1.2
#: Less time than this, beside the start, is too little to take an exponent of.
LEAST = 0.3
#: Seconds after which a process is ended.
LIMIT = 30


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process took."""

    seconds: float
    megabytes: float
    code: int


def check(path: Path) -> Cost:
    """Check a file in a process that ends after some seconds."""
    command = (sys.executable, "-m", "embercoach", "check", "--no-cache", "--isolated", str(path))
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 1))
        output = os.open(os.devnull, os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execv(command[0], command)
    _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, code)


def row(name: str, costs: list[Cost], sizes: tuple[int, ...], start: float) -> str:
    """A line of the table."""
    last, before = costs[-1], costs[-2]
    exponent = 0.0
    if last.seconds - start > LEAST:
        ratio = (last.seconds - start) / max(before.seconds - start, 0.02)
        exponent = math.log(ratio) / math.log(sizes[-1] / sizes[-2])
    ended = any(cost.code not in (0, 1, 2) for cost in costs)
    above = last.seconds > SECONDS or last.megabytes > MEGABYTES or exponent > EXPONENT
    times = "".join(f"{cost.seconds:>8.2f}" for cost in costs)
    verdict = "ended" if ended else "above" if above else "below"
    return f"{name:<44}{times}{last.megabytes:>8.0f}{exponent:>6.2f}{last.code:>5}  {verdict}\n"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", help="only shapes whose names hold one of these")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes, two or more")
    options = parser.parse_args()
    sizes = tuple(options.sizes)
    shapes = {**python_growth.SHAPES, **metal_growth.SHAPES}
    header = "".join(f"{size // 1000:>6}KB" for size in sizes)
    sys.stdout.write(f"{'shape':<44}{header}{'MB':>8}{'exp':>6}{'exit':>5}\n")
    with tempfile.TemporaryDirectory(prefix="embercoach-growth-") as folder:
        empty = Path(folder) / "empty.py"
        empty.write_text("import mlx.core as mx\n")
        start = min(check(empty).seconds for _ in range(3))
        for name, build in shapes.items():
            if options.words and not any(word in name for word in options.words):
                continue
            costs = []
            for size in sizes:
                file, text = build(size)
                path = Path(folder) / file
                path.write_text(text)
                costs.append(check(path))
            sys.stdout.write(row(name, costs, sizes, start))
            sys.stdout.flush()
    sys.stdout.write(f"bars: {SECONDS} s, {MEGABYTES:.0f} MB, exponent {EXPONENT}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
