"""How many findings there are of what, for the charts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embercoach import rulebook
from embercoach.finding import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: The family of a code that this version has no page for.
UNKNOWN_FAMILY = "unknown"


@dataclass(frozen=True, slots=True)
class BarPart:
    """A severity's part of a bar: where it starts and how long it is, in percent of the chart."""

    severity: str
    count: int
    start: float
    length: float


@dataclass(frozen=True, slots=True)
class TallyBar:
    """A bar: what is counted, how often there is a finding of it, and its parts."""

    key: str
    count: int
    parts: tuple[BarPart, ...]


def family_of(code: str) -> str:
    """The family of a rule."""
    return rulebook.rule(code).family if code in rulebook.codes() else UNKNOWN_FAMILY


def tallies(
    findings: Iterable[dict[str, Any]], key: Callable[[dict[str, Any]], str]
) -> tuple[TallyBar, ...]:
    """Count findings by a key and by severity; the most errors first, then warnings, then notes."""
    table: dict[str, Counter[str]] = {}
    for finding in findings:
        table.setdefault(key(finding), Counter())[finding["severity"]] += 1
    totals = {name: sum(counter.values()) for name, counter in table.items()}
    widest = max(totals.values(), default=0)
    ordered = sorted(table, key=lambda name: (*(-table[name][s] for s in SEVERITIES), name))
    return tuple(TallyBar(name, totals[name], parts(table[name], widest)) for name in ordered)


def parts(
    counter: Counter[str], widest: int, kinds: Sequence[str] = SEVERITIES
) -> tuple[BarPart, ...]:
    """The parts of a bar: findings by severity, or by other kinds in their order.

    ``widest`` is how many there are in a bar that fills the chart.
    """
    made = []
    start = 0.0
    for kind in kinds:
        if count := counter[kind]:
            length = 100 * count / widest
            made.append(BarPart(kind, count, round(start, 3), round(length, 3)))
            start += length
    return tuple(made)


def by_family(findings: Sequence[dict[str, Any]]) -> tuple[TallyBar, ...]:
    """The findings of each family of rules."""
    families = {code: family_of(code) for code in {finding["code"] for finding in findings}}
    return tallies(findings, lambda finding: families[finding["code"]])
