"""Lint the files that a trace names, and match its events with the findings."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from msgspec import Struct

from embercoach import rulebook
from embercoach.cli.baseline_filter import guards, judge
from embercoach.cli.effective_config import problems_of, warn
from embercoach.config import ConfigError, Configurations
from embercoach.engine.checkouts import Plan
from embercoach.engine.languages import is_python_source
from embercoach.engine.suppressions import read_directives, read_lines
from embercoach.engine.verdict import CoveredLines
from embercoach.files import boundary, is_inside, relative_path
from embercoach.plugins.loading import PluginRequest
from embercoach.report.outcome import SourceTexts
from embercoach.trace.trace_record import WAITING, Site, TraceRecord

if TYPE_CHECKING:
    from embercoach.finding import Finding, Problem

    _Match = tuple[Finding, list[Site]]


#: The result of the check for a line with events: it has findings; it waits and has none; a comment
#: or a baseline suppresses them; a call whose purpose is to wait, without a finding.
SiteState = Literal["found", "not-found", "suppressed", "explicit"]
#: Kinds of calls whose purpose is to wait.
_EXPLICIT = frozenset(("eval", "synchronize", "save"))
#: The result of the run for a finding: events of its kinds at its lines; none, although the lines
#: ran or nobody knows whether they did; lines that did not run.
FindingState = Literal["confirmed", "no-event", "not-reached"]


class JoinedFinding(Struct, frozen=True):
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


class Join(Struct, frozen=True):
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
        """Return the number of findings in a state."""
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
    """Return the findings of rules with events, each with its sites."""
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
    """Return the first and last line of the statement at a line."""
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


class CheckedFile(Struct, frozen=True):
    """A file that was linted.

    Attributes:
        findings: to report, notes included, sorted by place.
        baselined: those that a baseline hides.
        statements: the first and last line of each logical line, sorted.
        suppressions: the lines that comments suppress findings on; None without such comments.
    """

    findings: tuple[Finding, ...]
    baselined: tuple[Finding, ...]
    statements: tuple[tuple[int, int], ...]
    suppressions: CoveredLines | None


class StaticCheck(Struct, frozen=True):
    """The result of linting files of a project.

    Attributes:
        files: those without a problem, by real path.
        problems: the files that could not be checked, sorted.
    """

    files: dict[str, CheckedFile]
    problems: tuple[Problem, ...] = ()


def configurations_here() -> Configurations:
    """Return the user's configurations, with installed plugins; read before the program runs.

    Raises:
        ConfigError: a mistake in the configuration of the current folder.
        click.ClickException: an installed plugin cannot be used.
    """
    from embercoach.cli.shared_options import load_plugins

    load_plugins(PluginRequest(installed=True, folders=()))
    configurations = Configurations()
    configurations.of(".")
    warn(configurations.warnings)
    return configurations


def check_files(paths: Iterable[str], configurations: Configurations) -> StaticCheck:
    """Lint files as ``embercoach check`` would.

    Only Python files inside the project of the current folder are read, by their real paths, and
    none that the configuration excludes: the traced program decides which paths are named.

    Args:
        paths: as Python names the files.
        configurations: of all folders.
    """
    own = sorted({relative_path(os.path.realpath(path)) for path in _of_project(paths)})
    if not own:
        return StaticCheck({})
    try:
        plan = Plan(own, configurations, force_exclude=True)
    except ConfigError as error:
        return StaticCheck({}, tuple(problems_of([error])))
    problems = list(problems_of(plan.mistakes))
    watching = guards(plan.scopes, configurations, plan.division, problems=problems)
    result = plan.run().result(problems)
    sources = SourceTexts()
    shown = set(judge(watching, result, sources).numbers)
    failed = {problem.path for problem in result.problems}
    files: dict[str, CheckedFile] = {}
    by_path: defaultdict[str, list[tuple[bool, Finding]]] = defaultdict(list)
    for number, finding in enumerate(result.findings):
        by_path[finding.path].append((number in shown, finding))
    for path in sorted({file.shown for file in plan.files()} - failed):
        source = sources.index(path).text
        found, directives = by_path[path], read_directives(source)
        files[os.path.realpath(path)] = CheckedFile(
            findings=tuple(one for is_shown, one in found if is_shown),
            baselined=tuple(one for is_shown, one in found if not is_shown),
            statements=tuple(sorted(read_lines(source).logical)),
            suppressions=CoveredLines(directives) if directives else None,
        )
    return StaticCheck(files, result.problems)


def _of_project(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths that lead to Python files of the project of the current folder."""
    try:
        here = str(Path.cwd())
    except FileNotFoundError:  # the program has removed the folder
        return
    project = boundary(here) or here
    for path in paths:
        try:
            real = os.path.realpath(path)
            is_file = Path(real).is_file()
        except (OSError, ValueError):  # too long, or with a null byte
            continue
        if is_file and is_inside(real, project) and is_python_source(real):
            yield path


class CheckedTrace(Struct, frozen=True):
    """A trace joined with the static findings of its files.

    Attributes:
        join: the findings with their events.
        problems: the files that could not be checked, sorted.
        files: the files that were checked, by real path.
    """

    join: Join
    problems: tuple[Problem, ...]
    files: frozenset[str]


def checked_trace(record: TraceRecord, configurations: Configurations) -> CheckedTrace:
    """Lint the files of a trace, and join both."""
    by_file: defaultdict[str, list[Site]] = defaultdict(list)
    for site in record.sites:
        by_file[site.path].append(site)
    sites: defaultdict[str, list[Site]] = defaultdict(list)
    reached: defaultdict[str, set[int]] = defaultdict(set)
    for path in _of_project({*by_file, *record.files}):
        real = os.path.realpath(path)
        sites[real] += by_file.get(path, ())
        reached[real].update((record.reached or {}).get(path, ()))
    checked = check_files(sites, configurations)
    lines = None if record.reached is None else reached
    joined = join(sites, checked.files, lines)
    return CheckedTrace(joined, checked.problems, frozenset(checked.files))
