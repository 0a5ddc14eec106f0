"""The checkouts in the HTML report, where it contains several."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embercoach.finding import SEVERITIES
from embercoach.report.checkout_counts import owners, totals
from embercoach.report.html.tallies import parts
from embercoach.report.origin import Checkout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embercoach.report.checkout_counts import Totals
    from embercoach.report.html.tallies import BarPart

__all__ = ["CheckoutRow", "owners", "rows", "tops"]


@dataclass(frozen=True, slots=True)
class CheckoutRow:
    """A checkout's totals, and the parts of its bar."""

    totals: Totals
    parts: tuple[BarPart, ...]


def tops(document: dict[str, Any]) -> list[str]:
    """The checkouts' tops, sorted; none where there is but one."""
    paths = {checkout["path"] for checkout in document.get("checkouts", ())}
    return sorted(paths) if len(paths) > 1 else []


def rows(document: dict[str, Any]) -> tuple[CheckoutRow, ...]:
    """The totals of each checkout, the most findings first; none where there is but one."""
    made = totals(
        [Checkout.saved(one) for one in document.get("checkouts", ())],
        [(finding["path"], finding["severity"]) for finding in document["findings"]],
        [problem["path"] for problem in document["problems"]],
    )
    widest = max((sum(one.counts) for one in made), default=0)
    return tuple(CheckoutRow(one, parts(_counter(one.counts), widest)) for one in made)


def _counter(counts: Sequence[int]) -> Counter[str]:
    counter: Counter[str] = Counter()
    counter.update(dict(zip(SEVERITIES, counts, strict=True)))
    return counter
