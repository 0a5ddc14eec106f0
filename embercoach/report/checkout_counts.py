"""Findings by checkout, for a run over several."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.finding import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from embercoach.report.origin import Checkout


@dataclass(frozen=True, slots=True)
class Totals:
    """A checkout's totals; ``counts`` are findings of each severity, as in ``SEVERITIES``."""

    checkout: Checkout
    counts: tuple[int, ...]
    problems: int

    @property
    def path(self) -> str:
        """The checkout's top, as it is shown."""
        return self.checkout.path


def totals(
    checkouts: Sequence[Checkout], found: Sequence[tuple[str, str]], troubled: Sequence[str]
) -> tuple[Totals, ...]:
    """The totals of each checkout, the most findings first; none where there is but one.

    Args:
        checkouts: of the run, each once.
        found: path and severity of each finding.
        troubled: the path of each problem.
    """
    if len(checkouts) < 2:
        return ()
    tops = [checkout.path for checkout in checkouts]
    owner = owners({*(path for path, _ in found), *troubled}, tops)
    counts = Counter((owner[path], severity) for path, severity in found)
    problems = Counter(owner[path] for path in troubled)
    made = [
        Totals(
            checkout,
            tuple(counts[checkout.path, severity] for severity in SEVERITIES),
            problems[checkout.path],
        )
        for checkout in checkouts
    ]
    return tuple(sorted(made, key=lambda one: (-sum(one.counts), one.path)))


def owners(paths: Iterable[str], tops: Iterable[str]) -> dict[str, str | None]:
    """The innermost of some tops that each path lies in; None where it lies in none."""
    known = {os.path.normpath(top): top for top in tops}
    return {path: _owner(path, known) for path in paths}


def _owner(path: str, known: dict[str, str]) -> str | None:
    place = path
    while place not in known:
        above = os.path.dirname(place)  # noqa: PTH120  (shown paths are texts)
        if above in ("", place):
            return None if path.startswith(os.sep) else known.get(os.curdir)
        place = above
    return known[place]
