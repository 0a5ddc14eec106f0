"""How often each rule was broken, in all and by checkout."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach import rulebook
from embercoach.finding import SEVERITIES, Finding, Severity
from embercoach.terminal_text import json_text

if TYPE_CHECKING:
    from embercoach.report.outcome import Checkout
    from embercoach.report.styled import Line


class Totals(Struct, frozen=True):
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
    """Return the totals of each checkout, the most findings first; none where there is but one.

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
    """Return the innermost of some tops that each path lies in; None where it lies in none."""
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


class RuleCount(Struct):
    """A rule's count. ``severity`` is the worst among its findings."""

    code: str
    severity: Severity
    count: int = 0
    fixable: int = 0

    @property
    def name(self) -> str:
        """The rule's name; empty for one that is not known here."""
        rule = rulebook.known_rule(self.code)
        return rule.name if rule else ""


def rows(findings: Sequence[Finding]) -> list[RuleCount]:
    """Return a row for each rule, the most frequent first."""
    table: dict[str, RuleCount] = {}
    for finding in findings:
        row = table.setdefault(finding.code, RuleCount(finding.code, finding.severity))
        row.count += 1
        row.fixable += finding.is_fixed_safely
        row.severity = min(row.severity, finding.severity, key=SEVERITIES.index)
    return sorted(table.values(), key=lambda row: (-row.count, row.code))


def lines(findings: Sequence[Finding]) -> Iterator[Line]:
    """Yield the table for people; ``[*]`` marks rules with findings that ``--fix`` fixes."""
    table = rows(findings)
    width = max((len(str(row.count)) for row in table), default=0)
    code = max((len(row.code) for row in table), default=0)
    for row in table:
        yield [
            (f"{row.count:>{width}}  ", ""),
            (f"{row.severity:<7}", row.severity),
            (f"  {row.code:<{code}}", "code"),
            ("  [*] " if row.fixable else "      ", ""),
            (row.name, "faint"),
        ]


def render(findings: Sequence[Finding]) -> str:
    """Return the table as JSON."""
    table = [
        {name: getattr(row, name) for name in ("code", "name", "severity", "count", "fixable")}
        for row in rows(findings)
    ]
    return json_text(table) + "\n"
