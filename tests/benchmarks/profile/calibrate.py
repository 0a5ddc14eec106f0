"""Fits the model's constants to measured times: ``python -m tests.benchmarks.profile.calibrate``.

Of the cases, only those that are not held out. What is minimized is the mean absolute logarithm of
predicted over measured time, and a little of the square of the logarithm of each constant over its
prior, which is a published figure where there is one. Prints the constants.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from embercoach.simulator.profile.gpus import Family
from embercoach.simulator.profile.prediction import predict
from tests.benchmarks.profile.case import held_out
from tests.benchmarks.profile.compare import H200, Measured, load, parts, rows, summary

ROUNDS = 200
#: Weight of a constant's distance from its prior.
PRIOR = 0.01
_TABLES = ("cycles", "latency")
#: Figures that are published, or follow from them.
_PUBLISHED = {
    *(("threads", ""), ("groups", ""), ("registers", ""), ("threadgroup_bytes", "")),
    *(("cycles", "float32"), ("line_cycles", "")),
}
#: The least and the most of a constant.
_BOUNDS = {
    "reached": (0.7, 0.95),
    "sharpness": (1.0, 8.0),
    "partial_write": (1e-3, 1.0),
    "ordered": (1e-3, 1.0),
}

Point = dict[tuple[str, str], float]


def point(family: Family) -> Point:
    """The constants by name, and of tables by kind."""
    found: Point = {}
    for name in family.__struct_fields__:
        value = getattr(family, name)
        if name in _TABLES:
            found |= {(name, kind): count for kind, count in value.items()}
        elif name != "source":
            found[name, ""] = value
    return {name: value for name, value in found.items() if name not in _PUBLISHED}


def moved(family: Family, at: Point) -> Family:
    """The family with the constants of a point."""
    tables = {
        table: {
            **getattr(family, table),
            **{kind: value for (name, kind), value in at.items() if name == table},
        }
        for table in _TABLES
    }
    return replace(
        family, **{name: value for (name, kind), value in at.items() if not kind}, **tables
    )


def loss(at: Point, prior: Point, cases: Sequence[Measured]) -> float:
    """Return the number that a fit minimizes."""
    gpu = replace(H200, family=moved(H200.family, at))
    logs = [
        abs(math.log(1e6 * predict(case.profile, gpu).seconds / case.microseconds))
        for case in cases
    ]
    away = sum(math.log(value / prior[name]) ** 2 for name, value in at.items())
    return float(np.mean(logs)) + PRIOR * away


def fit(family: Family, cases: Sequence[Measured], rounds: int = ROUNDS) -> Family:
    """Change one constant after another by a factor, as long as that helps; factors shrink."""
    start = point(family)
    best, least = dict(start), loss(start, start, cases)
    factor = 2.0
    for _ in range(rounds):
        before = least
        for name in start:
            for step in (factor, 1 / factor):
                low, high = _BOUNDS.get(name[0], (0.0, math.inf))
                tried = {**best, name: min(max(best[name] * step, low), high)}
                found = loss(tried, start, cases)
                if found < least:
                    best, least = tried, found
        if before - least < 1e-4:
            factor = math.sqrt(factor)
        if factor < 1.01:
            break
    return moved(family, best)


def main() -> int:
    """Print the constants and the figures of both halves."""
    _, cases = load()
    fitted = fit(
        H200.family, [case for case in cases if not (held_out(case.name) or case.is_later)]
    )
    for (name, kind), value in point(fitted).items():
        sys.stdout.write(f"{name} {kind}: {value:.3g}\n")
    for name, some in parts(rows(cases, replace(H200, family=fitted))).items():
        sys.stdout.write(f"{name}: {summary(some)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
