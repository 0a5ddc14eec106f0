"""New, known and fixed findings since a baseline or an earlier run, and totals by run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from embercoach.finding import SEVERITIES
from embercoach.report.html.data import Bar, bars, family_of

if TYPE_CHECKING:
    Document = dict[str, Any]
    #: A file, a rule, and what became of how many findings there: one of ``KINDS``.
    Rows = Iterable[tuple[str, str, str, int]]

KINDS = ("new", "known", "fixed")
#: Notes fail nothing, and baselines leave them out unless they are asked for.
COUNTED = ("error", "warning")


class Changes(Struct, frozen=True):
    """A comparison: with what, in all, and by family, rule and file."""

    since: str
    totals: tuple[int, int, int]
    families: tuple[Bar, ...]
    rules: tuple[Bar, ...]
    files: tuple[Bar, ...]


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


def run_by_run(documents: Sequence[tuple[str, Document]]) -> list[Bar]:
    """Return the totals of several reports, in the order given."""
    return bars(
        (name, Counter[str]({s: document["summary"][f"{s}s"] for s in SEVERITIES}))
        for name, document in documents
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


def _table(rows: Rows, key: Callable[[str, str], str]) -> tuple[Bar, ...]:
    """Return the rows by a key: what has the most news first."""
    table: dict[str, Counter[str]] = {}
    for path, code, kind, count in rows:
        table.setdefault(key(path, code), Counter())[kind] += count

    def news(bar: Bar) -> tuple[int, int, int, str]:
        new, known, fixed = bar.counts
        return -new, -fixed, -known, bar.key

    return tuple(sorted(bars(table.items(), KINDS), key=news))
