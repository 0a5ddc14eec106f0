"""Matches the events of a trace with static findings, by file, line and kind of event."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from embercoach import rulebook
from embercoach.trace.trace_record import WAITING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from embercoach.cli.trace.static_check import CheckedFile
    from embercoach.finding import Finding
    from embercoach.trace.trace_record import Site

    _Match = tuple[Finding, list[Site]]

#: The result of the check for a line with events: it has findings; it waits and has none; a comment
#: or a baseline suppresses them; a call whose purpose is to wait, without a finding.
SiteState = Literal["found", "not-found", "suppressed", "explicit"]
#: Kinds of calls whose purpose is to wait.
_EXPLICIT = frozenset(("eval", "synchronize", "save"))
#: The result of the run for a finding: events of its kinds at its lines; none, although the lines
#: ran or nobody knows whether they did; lines that did not run.
FindingState = Literal["confirmed", "no-event", "not-reached"]


@dataclass(frozen=True, slots=True)
class JoinedFinding:
    """A finding with the events of its kinds at its lines.

    Attributes:
        finding: as of `embercoach check`.
        sites: none of them if it is not confirmed.
        ran: whether one of its lines ran; None if that is unknown.
    """

    finding: Finding
    sites: tuple[Site, ...]
    ran: bool | None = None

    @property
    def state(self) -> FindingState:
        """The result of the run for it."""
        if self.sites:
            return "confirmed"
        return "not-reached" if self.ran is False else "no-event"

    @property
    def count(self) -> int:
        """The number of events."""
        return sum(site.count for site in self.sites)

    @property
    def seconds(self) -> float:
        """Seconds in the events."""
        return sum(site.seconds for site in self.sites)

    @property
    def bytes(self) -> int:
        """Bytes of the arrays that were copied to the host, or promoted."""
        return sum(site.bytes for site in self.sites)


@dataclass(frozen=True, slots=True)
class Join:
    """The findings of a trace's files, and the result of the check for each site.

    Attributes:
        findings: of rules with events; confirmed ones first, the longest waits first.
        codes: by site, the codes of its findings, sorted.
        states: by site; sites of files that were not checked, and events that do not wait and
            have no finding, are absent.
    """

    findings: tuple[JoinedFinding, ...]
    codes: Mapping[Site, tuple[str, ...]]
    states: Mapping[Site, SiteState]

    def count_of(self, state: FindingState) -> int:
        """The number of findings in a state."""
        return sum(one.state == state for one in self.findings)

    @property
    def not_found(self) -> int:
        """The number of sites that wait, and that the check has no finding for."""
        return sum(state == "not-found" for state in self.states.values())


def join(
    sites: Mapping[str, Collection[Site]],
    files: Mapping[str, CheckedFile],
    reached: Mapping[str, Collection[int]] | None = None,
) -> Join:
    """Match sites with findings.

    A site belongs to the findings whose own lines include it, or else to those of its statement
    that have no such site. Findings of the same kind at a line share its events.

    Args:
        sites: the events of each file, by real path.
        files: those that were checked, by real path.
        reached: the lines that ran, by real path; None if they are unknown.
    """
    findings: list[JoinedFinding] = []
    codes: dict[Site, tuple[str, ...]] = {}
    states: dict[Site, SiteState] = {}
    for path, file in files.items():
        own = sites.get(path, ())
        matched = _matched(own, file.findings, file.statements)
        hidden = {
            site for _, some in _matched(own, file.baselined, file.statements) for site in some
        }
        lines = None if reached is None else reached.get(path, ())
        findings += [
            JoinedFinding(finding, tuple(some), _ran(finding, file.statements, lines))
            for finding, some in matched
        ]
        found: defaultdict[Site, set[str]] = defaultdict(set)
        for finding, some in matched:
            for site in some:
                found[site].add(finding.code)
        codes.update((site, tuple(sorted(names))) for site, names in found.items())
        for site in own:
            state: SiteState | None = "found" if site in found else None
            if state is None and site.kind in WAITING:
                state = _unfound(site, file, is_baselined=site in hidden)
            if state is not None:
                states[site] = state
    states_in_order = get_args(FindingState)
    findings.sort(
        key=lambda one: (states_in_order.index(one.state), -one.seconds, one.finding.sort_key)
    )
    return Join(tuple(findings), codes, states)


def _matched(
    sites: Collection[Site], findings: Sequence[Finding], statements: Sequence[tuple[int, int]]
) -> list[_Match]:
    """The findings of rules with events, each with its sites."""
    matched: list[_Match] = [
        (finding, []) for finding in findings if rulebook.rule(finding.code).events
    ]
    own: defaultdict[int, list[_Match]] = defaultdict(list)
    for match in matched:
        for line in range(match[0].line, match[0].end_line + 1):
            own[line].append(match)
    elsewhere = []
    for site in sites:
        exact = [some for finding, some in own[site.line] if _is_of(site, finding)]
        for some in exact:
            some.append(site)
        if not exact:
            elsewhere.append(site)
    by_statement: defaultdict[tuple[int, int], list[_Match]] = defaultdict(list)
    for match in matched:
        if not match[1]:
            by_statement[_statement(statements, match[0].line)].append(match)
    for site in elsewhere:
        for finding, some in by_statement[_statement(statements, site.line)]:
            if _is_of(site, finding):
                some.append(site)
    return matched


def _ran(
    finding: Finding, statements: Sequence[tuple[int, int]], lines: Collection[int] | None
) -> bool | None:
    """Return whether a line of a finding's statement ran; None if the lines are unknown."""
    if lines is None:
        return None
    first, last = _statement(statements, finding.line)
    return any(line in lines for line in range(first, max(last, finding.end_line) + 1))


def _is_of(site: Site, finding: Finding) -> bool:
    return site.kind in rulebook.rule(finding.code).events


def _statement(statements: Sequence[tuple[int, int]], line: int) -> tuple[int, int]:
    """The first and last line of the statement at a line."""
    at = bisect_right(statements, (line, 1 << 31)) - 1
    if at >= 0 and statements[at][1] >= line:
        return statements[at]
    return line, line


def _unfound(site: Site, file: CheckedFile, *, is_baselined: bool) -> SiteState:
    if is_baselined or _is_suppressed(site, file):
        return "suppressed"
    return "explicit" if site.kind in _EXPLICIT else "not-found"


def _is_suppressed(site: Site, file: CheckedFile) -> bool:
    suppressions = file.suppressions
    if suppressions is None:
        return False
    lines = {site.line, *_statement(file.statements, site.line)}
    return any(
        suppressions.covers(code, line, line)
        for code, rule in rulebook.rules().items()
        if site.kind in rule.events
        for line in lines
    )
