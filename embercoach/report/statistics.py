"""How often each rule was broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach import rulebook
from embercoach.finding import SEVERITIES, Severity
from embercoach.terminal_text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.finding import Finding
    from embercoach.report.styled import Line


@dataclass(slots=True)
class RuleCount:
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
    """A row for each rule, the most frequent first."""
    table: dict[str, RuleCount] = {}
    for finding in findings:
        row = table.setdefault(finding.code, RuleCount(finding.code, finding.severity))
        row.count += 1
        row.fixable += finding.fix is not None and finding.fix.safe
        row.severity = min(row.severity, finding.severity, key=SEVERITIES.index)
    return sorted(table.values(), key=lambda row: (-row.count, row.code))


def lines(findings: Sequence[Finding]) -> Iterator[Line]:
    """The table for people; ``[*]`` marks rules with findings that ``--fix`` fixes."""
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
    """The table as JSON."""
    table = [
        {
            "code": row.code,
            "name": row.name,
            "severity": row.severity,
            "count": row.count,
            "fixable": row.fixable,
        }
        for row in rows(findings)
    ]
    return json_text(table) + "\n"
