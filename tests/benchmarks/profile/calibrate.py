"""Fits the model's constants to measured times: ``python -m tests.benchmarks.profile.calibrate``.

Of the cases, only those that are not held out. What is minimized is the mean absolute logarithm of
predicted over measured time, and a little of the square of the logarithm of each constant over its
prior, which is a published figure where there is one. Prints the constants.
"""

from __future__ import annotations

import math
import sys
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from embercoach.simulator.profile.h200 import H200
from embercoach.simulator.profile.prediction import Rates, predicted_times
from tests.benchmarks.profile.case import held_out
from tests.benchmarks.profile.compare import load, parts, rows, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.profile.compare import Measured

ROUNDS = 40
#: Weight of a constant's distance from its prior.
PRIOR = 0.004
_TABLES = ("issue", "wait")
#: What a constant may at most be: a part of a bandwidth, and the exponents that make sense.
_BOUNDS = {"memory_fraction": (0.7, 0.95), "norm": (1.0, 8.0), "partial_write": (1e-3, 1.0)}

Point = dict[tuple[str, str], float]


def point(rates: Rates) -> Point:
    """The constants by name, and of tables by kind."""
    found: Point = {}
    for field in fields(rates):
        value = getattr(rates, field.name)
        if field.name in _TABLES:
            found |= {(field.name, kind): count for kind, count in value.items()}
        else:
            found[field.name, ""] = value
    return found


def rates(at: Point) -> Rates:
    """The inverse of `point`."""
    tables = {
        table: {kind: value for (name, kind), value in at.items() if name == table}
        for table in _TABLES
    }
    return Rates(**{name: value for (name, kind), value in at.items() if not kind}, **tables)


def loss(at: Point, prior: Point, cases: Sequence[Measured]) -> float:
    """What is minimized."""
    machine = replace(H200, rates=rates(at))
    logs = [
        abs(math.log(1e6 * predicted_times(case.profile, machine).total / case.microseconds))
        for case in cases
    ]
    away = sum(math.log(at[name] / prior[name]) ** 2 for name in at)
    return float(np.mean(logs)) + PRIOR * away


def fit(prior: Rates, cases: Sequence[Measured]) -> Rates:
    """Change one constant after another by a factor, as long as that helps; factors shrink."""
    start = point(prior)
    best, least = dict(start), loss(start, start, cases)
    factor = 2.0
    for _ in range(ROUNDS):
        before = least
        for name in best:
            for step in (factor, 1 / factor):
                low, high = _BOUNDS.get(name[0], (1e-30, 1e30))
                tried = {**best, name: min(max(best[name] * step, low), high)}
                found = loss(tried, start, cases)
                if found < least:
                    best, least = tried, found
        if before - least < 1e-4:
            factor = math.sqrt(factor)
        if factor < 1.01:
            break
    return rates(best)


def main() -> int:
    """Print the constants and the figures of both halves."""
    _, cases = load()
    fitted = fit(H200.rates, [case for case in cases if not held_out(case.name)])
    for (name, kind), value in point(fitted).items():
        sys.stdout.write(f"{name} {kind}: {value:.3g}\n")
    for name, some in parts(rows(cases, replace(H200, rates=fitted))).items():
        sys.stdout.write(f"{name}: {summary(some)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
