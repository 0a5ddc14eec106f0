"""Measure before.py and after.py in pairs of processes, and what a trace adds to each.

    python examples/train_and_sample/measure.py --size small --rounds 5 --json figures.json

Each round runs both in turn, without a trace and with one. Ratios are medians of the ratios of
rounds, so that a load that changes slowly cancels out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RUNS = tuple((name, traced) for traced in (False, True) for name in ("before", "after"))
Results = dict[tuple[str, bool], dict[str, Any]]


def run(name: str, size: str, *, traced: bool, folder: Path) -> dict[str, Any]:
    """The result of a program in a process."""
    file = folder / "result.json"
    command = [sys.executable]
    if traced:
        options = ["--output-format", "json", "-o", str(folder / f"{name}.json")]
        command += ["-m", "embercoach", "trace", *options, "--", "python"]
    command += [str(HERE / f"{name}.py"), "--size", size, "--json", str(file)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def medians(rounds: list[Results], ratio: Callable[[Results], float]) -> dict[str, float]:
    """The median, the least and the greatest of a ratio in the rounds."""
    ratios = [ratio(one) for one in rounds]
    return {"median": statistics.median(ratios), "least": min(ratios), "greatest": max(ratios)}


def figures(rounds: list[Results]) -> dict[str, Any]:
    """Speeds, ratios and differences of all rounds."""
    measured: dict[str, Any] = {"rounds": len(rounds)}
    for name in ("before", "after"):
        own = [one[name, False] for one in rounds]
        measured[name] = {
            key: statistics.median(result[key] for result in own)
            for key in ("step_seconds", "trained_per_second", "sampled_per_second")
        }
        measured[f"{name}_traced_by_plain_step"] = medians(
            rounds,
            lambda one, name=name: (
                one[name, True]["step_seconds"] / one[name, False]["step_seconds"]
            ),
        )
    for key in ("trained_per_second", "sampled_per_second"):
        measured[f"{key}_ratio"] = medians(
            rounds, lambda one, key=key: one["after", False][key] / one["before", False][key]
        )
    before, after = (rounds[0][name, False] for name in ("before", "after"))
    measured["loss"] = {"before": before["loss"], "after": after["loss"]}
    measured["loss_difference"] = abs(after["loss"] / before["loss"] - 1)
    measured["same_tokens"] = all(
        result["tokens"] == before["tokens"] for one in rounds for result in one.values()
    )
    measured["same_values_traced"] = all(
        one[name, True][key] == one[name, False][key]
        for one in rounds
        for name in ("before", "after")
        for key in ("loss", "tokens")
    )
    return measured


def main() -> None:
    """Print the figures, and write them as JSON."""
    parser = argparse.ArgumentParser(description="Measure before.py and after.py.")
    parser.add_argument("--size", choices=("small", "h200"), default="small")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rounds = [
            {
                (name, traced): run(name, options.size, traced=traced, folder=Path(folder))
                for name, traced in RUNS
            }
            # The first round compiles kernels, which stay on disk: it does not count.
            for _ in range(options.rounds + 1)
        ]
    text = json.dumps(figures(rounds[1:]), indent=2)
    print(text)
    if options.json:
        options.json.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
