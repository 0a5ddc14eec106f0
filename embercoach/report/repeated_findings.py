"""Findings that one change mends, for the report in full: a mistake that a file repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from embercoach.report.locations import position_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embercoach.finding import Finding

#: Lines within which findings with the same help are of one place.
_NEAR = 3
#: Positions that are listed.
_MOST_LISTED = 8


class Repeated(NamedTuple):
    """A finding, and those of its file that say the same, or whose help is the same nearby."""

    first: Finding
    others: list[Finding]

    def also(self) -> str:
        """Return the positions of the others, such as ``lines 12, 15``."""
        others = self.others[:_MOST_LISTED]
        if any(one.cell is not None for one in others):
            positions, noun = [position_of(one) for one in others], ""
        else:
            lines = dict.fromkeys(str(one.line) for one in others)
            positions, noun = [*lines], "line " if len(lines) == 1 else "lines "
        more = len(self.others) - len(others)
        return f"{noun}{', '.join(positions)}{f', and {more} more' if more else ''}"


def repeated(findings: Iterable[Finding]) -> list[Repeated]:
    """Group findings, in the order of the first of each group."""
    groups: list[Repeated] = []
    same: dict[tuple[object, ...], Repeated] = {}
    for finding in findings:
        rated = finding.path, finding.severity, finding.help
        key = *rated, finding.code, finding.message
        group = same.get(key)
        last = groups[-1] if groups else None
        if group is None and last is not None and finding.help:
            nearest = (last.others or [last.first])[-1]
            is_near = abs(finding.line - nearest.line) <= _NEAR and finding.cell == nearest.cell
            if is_near and rated == (nearest.path, nearest.severity, nearest.help):
                group = last
        if group is None:
            group = same[key] = Repeated(finding, [])
            groups.append(group)
        else:
            group.others.append(finding)
    return groups
