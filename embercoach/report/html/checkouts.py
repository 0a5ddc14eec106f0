"""What was found in each checkout, where a report holds several."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embercoach.finding import SEVERITIES
from embercoach.report.html.tallies import parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from embercoach.report.html.tallies import Part


@dataclass(frozen=True, slots=True)
class Row:
    """A checkout's totals.

    Attributes:
        path: its top, as it is shown.
        counts: findings of each severity, in the order of ``SEVERITIES``.
        parts: of its bar.
        problems: what could not be checked.
        files_checked: files that were checked.
        files_skipped: files that were passed over.
    """

    path: str
    counts: tuple[int, ...]
    parts: tuple[Part, ...]
    problems: int
    files_checked: int
    files_skipped: int


def tops(document: dict[str, Any]) -> list[str]:
    """The checkouts' tops, sorted; none where there is but one."""
    paths = [checkout["path"] for checkout in document.get("checkouts", ())]
    return sorted(set(paths)) if len(set(paths)) > 1 else []


def owners(paths: Iterable[str], within: Sequence[str]) -> dict[str, str | None]:
    """The innermost of some tops that each path lies in; None where it lies in none."""
    known = {os.path.normpath(top): top for top in within}
    return {path: _owner(path, known) for path in paths}


def _owner(path: str, known: dict[str, str]) -> str | None:
    place = path
    while place not in known:
        above = os.path.dirname(place)  # noqa: PTH120  (shown paths are texts)
        if above in ("", place):
            return None if path.startswith(os.sep) else known.get(os.curdir)
        place = above
    return known[place]


def rows(document: dict[str, Any]) -> tuple[Row, ...]:
    """The totals of each checkout, the most findings first; none where there is but one."""
    within = tops(document)
    found = document["findings"]
    owner = owners({one["path"] for one in (*found, *document["problems"])}, within)
    table: dict[str | None, Counter[str]] = {top: Counter() for top in within}
    for finding in found:
        table.setdefault(owner[finding["path"]], Counter())[finding["severity"]] += 1
    problems = Counter(owner[problem["path"]] for problem in document["problems"])
    widest = max((sum(table[top].values()) for top in within), default=0)
    files = {one["path"]: one for one in document.get("checkouts", ())}
    made = [
        Row(
            top,
            tuple(table[top][severity] for severity in SEVERITIES),
            parts(table[top], widest),
            problems[top],
            files[top]["files_checked"],
            files[top]["files_skipped"],
        )
        for top in within
    ]
    return tuple(sorted(made, key=lambda row: (-sum(row.counts), row.path)))
