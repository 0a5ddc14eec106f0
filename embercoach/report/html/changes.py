"""New, known and fixed findings since a baseline or an earlier run, and totals by run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from embercoach.finding import SEVERITIES
from embercoach.report.html.data import BarPart, family_of, parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Document = dict[str, Any]
    #: A file, a rule, and what became of how many findings there: one of ``KINDS``.
    Rows = Iterable[tuple[str, str, str, int]]

KINDS = ("new", "known", "fixed")
#: Notes fail nothing, and baselines leave them out unless they are asked for.
COUNTED = ("error", "warning")


class ChangeBar(Struct, frozen=True):
    """A bar: how many findings of something are new, known and fixed, and its parts."""

    key: str
    counts: tuple[int, int, int]
    parts: tuple[BarPart, ...]


class Changes(Struct, frozen=True):
    """A comparison: with what, in all, and by family, rule and file."""

    since: str
    totals: tuple[int, int, int]
    families: tuple[ChangeBar, ...]
    rules: tuple[ChangeBar, ...]
    files: tuple[ChangeBar, ...]


class RunTotals(Struct, frozen=True):
    """A run's totals: findings by severity, in the order of ``SEVERITIES``, and its bar's parts."""

    name: str
    counts: tuple[int, ...]
    parts: tuple[BarPart, ...]


def since_baseline(document: Document) -> Changes | None:
    """Changes since the run's baseline; None without one, or if the report lacks them."""
    rows = document["summary"].get("baseline", {}).get("changes")
    if rows is None:
        return None
    found: list[tuple[str, str, str, int]] = [
        (one["path"], one["code"], "new", 1) for one in _counted(document)
    ]
    found += [
        (row["path"], row["code"], kind, row[kind]) for row in rows for kind in ("known", "fixed")
    ]
    return _changes("the baseline", found)


def since(document: Document, name: str, earlier: Document) -> Changes:
    """Changes since an earlier report; the findings of both have fingerprints."""
    now = {one["fingerprint"]: one for one in _counted(document)}
    then = {one["fingerprint"]: one for one in _counted(earlier)}
    kinds = (("new", now, then.keys()), ("fixed", then, now.keys()))
    found = [
        (one["path"], one["code"], kind, 1)
        for kind, ones, others in kinds
        for mark, one in ones.items()
        if mark not in others
    ]
    found += [(one["path"], one["code"], "known", 1) for mark, one in now.items() if mark in then]
    return _changes(name, found)


def has_fingerprints(document: Document) -> bool:
    """Return whether all findings have fingerprints."""
    return all("fingerprint" in finding for finding in document["findings"])


def run_by_run(documents: Sequence[tuple[str, Document]]) -> tuple[RunTotals, ...]:
    """Return the totals of several reports, in the order given."""
    counters = [
        (name, Counter[str]({s: document["summary"][f"{s}s"] for s in SEVERITIES}))
        for name, document in documents
    ]
    widest = max((counter.total() for _, counter in counters), default=0)
    return tuple(
        RunTotals(name, tuple(counter[s] for s in SEVERITIES), parts(counter, max(widest, 1)))
        for name, counter in counters
    )


def _counted(document: Document) -> list[dict[str, Any]]:
    return [one for one in document["findings"] if one["severity"] in COUNTED]


def _changes(since: str, rows: Rows) -> Changes:
    rows = list(rows)
    families = {code: family_of(code) for code in {code for _, code, _, _ in rows}}
    totals = Counter[str]()
    for _, _, kind, count in rows:
        totals[kind] += count
    return Changes(
        since,
        (totals["new"], totals["known"], totals["fixed"]),
        _table(rows, lambda path, code: families[code]),
        _table(rows, lambda path, code: code),
        _table(rows, lambda path, code: path),
    )


def _table(rows: Rows, key: Callable[[str, str], str]) -> tuple[ChangeBar, ...]:
    """Return the rows by a key: what has the most news first."""
    table: dict[str, Counter[str]] = {}
    for path, code, kind, count in rows:
        table.setdefault(key(path, code), Counter())[kind] += count
    widest = max((counter.total() for counter in table.values()), default=0)
    made = [
        ChangeBar(name, (c["new"], c["known"], c["fixed"]), parts(c, max(widest, 1), KINDS))
        for name, c in table.items()
    ]
    return tuple(
        sorted(made, key=lambda row: (-row.counts[0], -row.counts[2], -row.counts[1], row.key))
    )
