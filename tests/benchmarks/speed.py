"""Speed as ratios taken in one run, on mlx-lm's tree: ``python -m tests.benchmarks.speed``.

Each pair of commands runs in turn, A B A B, and what is printed is the median of the ratios of CPU
and wall time. Rivals that are not installed are left out and named; nothing here is a test.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.accuracy.corpus import package_root

PACKAGE = ("mlx-lm", "0.32.2", "wheel")
#: What EmberCoach has to parse at the very least.
BARE_PARSE = """
import sys
from pathlib import Path
import libcst
for path in sorted(Path(sys.argv[1]).rglob("*.py")):
    data = path.read_bytes()
    if b"mlx" in data or b"metal_kernel" in data:
        libcst.parse_module(data)
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one whole process, its children included."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Pair:
    """A command of ours against a rival's, both run in the tree."""

    title: str
    bar: str
    ours: tuple[str, ...]
    rival: tuple[str, ...]
    rounds: int


def run(command: tuple[str, ...], tree: Path) -> Cost:
    """Run a command in a folder; findings are no failure."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, cwd=tree, capture_output=True, check=False)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr.decode()[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, used)


def pairs(rounds: int) -> list[Pair]:
    """What is compared, with the bar that each ratio is held to."""
    check = (sys.executable, "-m", "embercoach", "check", ".")
    cold = (*check, "--no-cache")
    return [
        Pair(
            "cold, one process / bare libcst.parse_module",
            "at most 1.4",
            (*cold, "--jobs", "1"),
            (sys.executable, "-c", BARE_PARSE, "."),
            rounds,
        ),
        Pair("warm / ruff check", "at most 3", check, ("ruff", "check", "."), rounds),
        Pair(
            "warm / ruff check --no-cache",
            "at most 3",
            check,
            ("ruff", "check", "--no-cache", "."),
            rounds,
        ),
        Pair("cold / flake8", "at most 1", cold, ("flake8", "."), 3),
        Pair("cold / Fixit", "at most 0.1", cold, ("fixit", "lint", "."), 1),
        Pair("warm / Fixit", "at most 0.1", check, ("fixit", "lint", "."), 1),
    ]


def compare(pair: Pair, tree: Path) -> str:
    """A row of the table: median ratios and the medians they come from."""
    run(pair.ours, tree)  # warms the cache, the file system's too
    costs = [(run(pair.ours, tree), run(pair.rival, tree)) for _ in range(pair.rounds)]
    wall = statistics.median(ours.wall / rival.wall for ours, rival in costs)
    cpu = statistics.median(ours.cpu / rival.cpu for ours, rival in costs)
    ours = statistics.median(cost.wall for cost, _ in costs)
    rival = statistics.median(cost.wall for _, cost in costs)
    return f"{pair.title:<46}{pair.bar:<13}{wall:>8.2f}{cpu:>8.2f}{ours:>10.3f}{rival:>10.3f}"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs (default 5)")
    options = parser.parse_args()
    header = f"{'ours / theirs':<46}{'bar':<13}{'wall':>8}{'cpu':>8}{'ours s':>10}{'theirs s':>10}"
    sys.stdout.write(header + "\n")
    with tempfile.TemporaryDirectory(prefix="embercoach-speed-") as folder:
        tree = Path(folder) / "mlx-lm"
        shutil.copytree(package_root(*PACKAGE), tree)
        for pair in pairs(options.rounds):
            if shutil.which(pair.rival[0]) is None:
                sys.stdout.write(f"{pair.title:<46}left out: {pair.rival[0]} is not installed\n")
                continue
            sys.stdout.write(compare(pair, tree) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
