"""Predicted and measured times: ``python -m tests.benchmarks.profile.compare``.

Joins the times of `measure` and the counts of `profiles` in one file, which it also reads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embercoach.simulator.profile.counts import LaunchProfile
from embercoach.simulator.profile.gpus import GPUS, Gpu
from embercoach.simulator.profile.prediction import RESOURCES, predict
from tests.benchmarks.profile.case import held_out
from tests.benchmarks.profile.profiles import read

#: Figures that the documentation shows and a test keeps.
SAVED = Path(__file__).resolve().parents[3] / "docs" / "images" / "profile-h200.json"
#: Times of chains that differ by a larger part of their median judge no prediction.
MOST_SPREAD = 0.3
H200 = GPUS["H200"]
RANK_CORRELATION, MEDIAN_ERROR = 0.9, 0.4


@dataclass(frozen=True, slots=True)
class Measured:
    """A case with its time and counts.

    Attributes:
        name: of the case.
        group: of the case.
        microseconds: on the GPU.
        spread: of the measured times, in parts of their median.
        cold: whether the data came from device memory.
        profile: counts of the simulator.
        is_later: whether it was measured when the model and its constants were complete.
    """

    name: str
    group: str
    microseconds: float
    spread: float
    cold: bool
    profile: LaunchProfile
    is_later: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A case's measured and predicted time.

    Attributes:
        case: the measured case.
        predicted: microseconds.
        bound: the resource that takes longest, as predicted.
    """

    case: Measured
    predicted: float
    bound: str

    @property
    def error(self) -> float:
        """Of the predicted time, in parts of the measured one."""
        return abs(self.predicted / self.case.microseconds - 1)

    @property
    def factor(self) -> float:
        """How many times the prediction is too long or too short."""
        ratio = self.predicted / self.case.microseconds
        return max(ratio, 1 / ratio)


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of some rows.

    Attributes:
        cases: how many.
        rank_correlation: Spearman's, of predicted and measured times.
        median_error: of predicted times, in parts of the measured ones.
        within_two: the part of cases whose prediction is at most twice too long or too short.
    """

    cases: int
    rank_correlation: float
    median_error: float
    within_two: float


def load(path: Path = SAVED) -> tuple[dict[str, Any], list[Measured]]:
    """Read joined figures: what is said of the run, and the cases."""
    document = json.loads(path.read_text(encoding="utf-8"))
    cases = [
        Measured(**{**case, "profile": read(case["profile"])}) for case in document.pop("cases")
    ]
    return document, cases


def rows(cases: Sequence[Measured], gpu: Gpu = H200) -> list[Row]:
    """Predict each case."""
    found = []
    for case in cases:
        prediction = predict(case.profile, gpu)
        found.append(Row(case, 1e6 * prediction.seconds, RESOURCES[prediction.bound]))
    return found


def summary(found: Sequence[Row]) -> Summary:
    """Summarize rows."""
    measured = np.array([row.case.microseconds for row in found])
    predicted = np.array([row.predicted for row in found])
    return Summary(
        len(found),
        spearman(measured, predicted),
        statistics.median(row.error for row in found),
        float(np.mean([row.factor <= 2 for row in found])),
    )


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Rank correlation; equal values share the mean of their ranks."""
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[places]


def join(times: Path, profiles: Path) -> dict[str, Any]:
    """The document of cases that have both a time and counts."""
    document = json.loads(times.read_text(encoding="utf-8"))
    counts = json.loads(profiles.read_text(encoding="utf-8"))
    cases = []
    for row in document.pop("times"):
        profile = counts.get(row["name"])
        if row["microseconds"] is None or profile is None:
            sys.stdout.write(f"{row['name']}: left out: {row['error'] or 'no profile'}\n")
            continue
        if [*profile["grid"]] != row["grid"]:
            raise ValueError(f"{row['name']}: grid must be {row['grid']}, got {profile['grid']}")
        if row["spread"] > MOST_SPREAD:
            sys.stdout.write(f"{row['name']}: left out: times differ by {row['spread']:.0%}\n")
            continue
        kept = {key: row[key] for key in ("name", "group", "microseconds", "spread", "cold")}
        cases.append({**kept, "profile": profile})
    return {**document, "cases": cases}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.profile.compare")
    parser.add_argument("--times", type=Path, help="of measure; with --profiles, saved first")
    parser.add_argument("--profiles", type=Path)
    options = parser.parse_args()
    if options.times and options.profiles:
        document = join(options.times, options.profiles)
        SAVED.write_text(f"{json.dumps(document, separators=(',', ':'))}\n", encoding="utf-8")
    found = rows(load()[1])
    for row in sorted(found, key=lambda row: row.error):
        mark = "held out" if held_out(row.case.name) else "fitted"
        sys.stdout.write(
            f"{row.case.name:38} {row.case.microseconds:10.2f} {row.predicted:10.2f} us"
            f" {row.predicted / row.case.microseconds:6.2f}  {row.bound:18} {mark}\n"
        )
    for name, some in parts(found).items():
        sys.stdout.write(f"{name}: {asdict(summary(some))}\n")
    return 0


def parts(found: Sequence[Row]) -> dict[str, list[Row]]:
    """All rows, those measured later, those held out, and those that constants were fitted to."""
    earlier = [row for row in found if not row.case.is_later]
    return {
        "all": [*found],
        "measured later": [row for row in found if row.case.is_later],
        "held out": [row for row in earlier if held_out(row.case.name)],
        "fitted": [row for row in earlier if not held_out(row.case.name)],
    }


if __name__ == "__main__":
    sys.exit(main())
