"""Two traces of a program, compared site by site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from embercoach.cli.trace.saved_trace import SavedSite, SavedSummary, SavedTrace

State = Literal["new", "gone", "changed", "unchanged"]
#: Kinds whose operation names a function that is compiled, whatever the line is that calls it.
_COMPILED = ("compile", "retrace")
_PACKAGES = ("/site-packages/", "/dist-packages/")


@dataclass(frozen=True, slots=True, order=True)
class SiteKey:
    """Identifies a site in both traces, although its line has moved.

    Attributes:
        path: from the folder of installed packages on, which differs between machines.
        function: its last name, because Python 3.10 records no other.
        kind: of the events.
        operation: such as `array.item`.
        source: of the line; empty for traces of compiled functions, which the operation names.
    """

    path: str
    function: str
    kind: str
    operation: str
    source: str


@dataclass(frozen=True, slots=True)
class SiteTotals:
    """The events of all sites of one key in one trace."""

    lines: tuple[int, ...] = ()
    count: int = 0
    seconds: float = 0.0
    bytes: int = 0
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedSite:
    """A site before and after."""

    key: SiteKey
    text: str
    waits: bool
    before: SiteTotals
    after: SiteTotals

    @property
    def state(self) -> State:
        """By counts and bytes: seconds vary from run to run."""
        if not self.before.count:
            return "new"
        if not self.after.count:
            return "gone"
        return "changed" if self.count_change or self.bytes_change else "unchanged"

    @property
    def count_change(self) -> int:
        """Events after, less those before."""
        return self.after.count - self.before.count

    @property
    def bytes_change(self) -> int:
        """Bytes after, less those before."""
        return self.after.bytes - self.before.bytes

    @property
    def seconds_change(self) -> float:
        """Seconds after, less those before."""
        return self.after.seconds - self.before.seconds

    @property
    def is_worse(self) -> bool:
        """True if it is new, or has more events or bytes."""
        return self.count_change > 0 or self.bytes_change > 0


@dataclass(frozen=True, slots=True)
class TraceComparison:
    """Two traces.

    Attributes:
        before: totals of the first.
        after: totals of the second.
        sites: of either; the worse ones first, then by the change of seconds.
    """

    before: SavedSummary
    after: SavedSummary
    sites: tuple[ComparedSite, ...]

    @property
    def differing(self) -> tuple[ComparedSite, ...]:
        """The sites that are not unchanged."""
        return tuple(site for site in self.sites if site.state != "unchanged")

    @property
    def fails(self) -> bool:
        """True if the second program exits with an error, and the first one does not."""
        return self.after.exit_code != 0 and self.before.exit_code == 0

    @property
    def is_worse(self) -> bool:
        """True if a site is worse, or the second program fails."""
        return self.fails or any(site.is_worse for site in self.sites)


def compare(
    before: SavedTrace, after: SavedTrace, renamed: Mapping[str, str] | None = None
) -> TraceComparison:
    """Compare two traces.

    Args:
        before: the first.
        after: the second.
        renamed: paths of the first by which the second names these files.
    """
    old, new = _by_key(before.sites, renamed or {}), _by_key(after.sites, {})
    compared = []
    for key in {**old, **new}:
        before_sites, after_sites = old.get(key, []), new.get(key, [])
        latest = (after_sites or before_sites)[0]
        totals = _totals(before_sites), _totals(after_sites)
        compared.append(ComparedSite(key, latest.text, latest.waits, *totals))
    compared.sort(key=lambda site: (not site.is_worse, -abs(site.seconds_change), site.key))
    return TraceComparison(before.summary, after.summary, tuple(compared))


def _by_key(
    sites: Iterable[SavedSite], renamed: Mapping[str, str]
) -> dict[SiteKey, list[SavedSite]]:
    groups: dict[SiteKey, list[SavedSite]] = {}
    for site in sites:
        path = _portable(renamed.get(site.path, site.path))
        function = site.function.rpartition(".")[2]
        source = "" if site.kind in _COMPILED else site.text
        key = SiteKey(path, function, site.kind, site.operation, source)
        groups.setdefault(key, []).append(site)
    return groups


def _portable(path: str) -> str:
    for folder in _PACKAGES:
        _, found, rest = path.rpartition(folder)
        if found:
            return f"{folder[1:]}{rest}"
    return path


def _totals(sites: list[SavedSite]) -> SiteTotals:
    details = dict.fromkeys(detail for site in sites for detail in site.details)
    return SiteTotals(
        lines=tuple(sorted(site.line for site in sites)),
        count=sum(site.count for site in sites),
        seconds=sum(site.seconds for site in sites),
        bytes=sum(site.bytes for site in sites),
        details=tuple(details),
    )
