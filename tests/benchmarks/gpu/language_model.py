"""Tokens per second of a model of xLSTM-7B's shape with random weights, and of transformers' one.

Needs mlx-lm. With torch, transformers, xlstm and mlstm_kernels, transformers' model is measured
after ours, each in a process of its own. Without a GPU, `--size tiny` runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks import saved_figures
from tests.benchmarks.gpu.check import report
from tests.benchmarks.gpu.phases import OURS, SIZES, THEIRS, Speed
from xlstm_kernels import executors

MODULES = {
    OURS: "tests.benchmarks.gpu.language_model_mlx",
    THEIRS: "tests.benchmarks.gpu.language_model_torch",
}
IMPORTS = ("torch", "transformers", "xlstm", "mlstm_kernels")
PACKAGES = ("mlx", *IMPORTS, "triton")
#: Ours starts no phase after this share of the seconds; transformers has the others.
SHARE = 0.6
#: A process is killed so long after its last phase should have started.
GRACE_SECONDS = 30.0
HEADER = "| work | batch x tokens | model | tokens/s | ratio | peak GB |"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The figures of one run on one device.

    Attributes:
        device: its name.
        date: the day, as YYYY-MM-DD.
        packages: versions of those that are installed.
        speeds: in the order they were measured.
    """

    device: str
    date: str
    packages: dict[str, str]
    speeds: tuple[Speed, ...]


def compare(size: str, seconds: float) -> Comparison:
    """Measure ours, then transformers' model where it is installed.

    Args:
        size: a name of `SIZES`.
        seconds: phases start before; those of transformers later if one of ours ends late.
    """
    begin = time.time()
    speeds = measure(OURS, size, begin + SHARE * seconds)
    missing = [name for name in IMPORTS if not find_spec(name)]
    if missing:
        report(f"{', '.join(missing)} not installed: transformers' model is not measured")
    else:
        late = time.time() + (1 - SHARE) * seconds  # a slow phase of ours costs theirs nothing
        speeds += measure(THEIRS, size, max(begin + seconds, late))
    origin = saved_figures.origin()
    return Comparison(origin["device"], origin["date"], versions(), tuple(speeds))


def measure(model: str, size: str, deadline: float) -> list[Speed]:
    """Print and return what a process measures of ours or theirs."""
    command = [sys.executable, "-m", MODULES[model], size, str(deadline)]
    speeds = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(deadline - time.time() + GRACE_SECONDS, process.kill)
        timer.start()
        try:
            for text in process.stdout or ():
                if text.startswith('{"'):
                    speeds.append(Speed(**json.loads(text)))
                report(line(speeds[-1]) if text.startswith('{"') else text.rstrip())
        finally:
            timer.cancel()
    if process.returncode:
        report(f"{model}: exit status {process.returncode}")
    return speeds


def versions() -> dict[str, str]:
    """The versions of the packages that are installed."""
    found = {one.name.replace("-", "_"): one.version for one in distributions()}
    return {name: found[name] for name in PACKAGES if name in found}


def line(speed: Speed) -> str:
    """One phase's figures."""
    call = f"{speed.work} {speed.batch} x {speed.tokens}"
    peak = "unknown" if speed.peak_gigabytes is None else f"{speed.peak_gigabytes:.3g} GB"
    return f"{speed.model}: {call}: {speed.tokens_per_second:.4g} tokens/s, peak {peak}"


def table(speeds: Sequence[Speed]) -> Iterator[str]:
    """A Markdown table; the ratio is to the fastest of transformers for the same work."""
    yield HEADER
    yield "| --- " * HEADER.count(" | ") + "| --- |"
    calls = dict.fromkeys((speed.work, speed.batch, speed.tokens) for speed in speeds)
    for call in sorted(calls, key=lambda call: (call[0] == "decode", *call)):
        rows = [speed for speed in speeds if (speed.work, speed.batch, speed.tokens) == call]
        theirs = [row.tokens_per_second for row in rows if row.model.startswith(THEIRS)]
        for row in rows:
            ratio = f"{row.tokens_per_second / max(theirs):.2f}" if theirs else ""
            peak = "" if row.peak_gigabytes is None else f"{row.peak_gigabytes:.3g}"
            name = f"{row.work} | {row.batch} x {row.tokens} | {row.model}"
            yield f"| {name} | {row.tokens_per_second:.4g} | {ratio} | {peak} |"


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; return the exit status: 1 without any figure."""
    default = "tiny" if executors.resolve(None) == executors.NATIVE else "7b"
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.gpu.language_model", description=__doc__
    )
    parser.add_argument("--size", choices=SIZES, default=default, help=f"default: {default}")
    parser.add_argument("--seconds", type=float, default=170.0, help="no phase starts later")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    options = parser.parse_args(arguments)
    comparison = compare(options.size, options.seconds)
    report(f"\n{comparison.device}, {comparison.date}, {comparison.packages}\n")
    for row in table(comparison.speeds):
        report(row)
    if options.json:
        saved_figures.write(options.json, asdict(comparison))
    return not comparison.speeds


if __name__ == "__main__":
    sys.exit(main())
