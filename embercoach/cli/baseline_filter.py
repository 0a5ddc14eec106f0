"""Filter a run by its baselines: known findings, and fixed entries."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from embercoach.engine.file_discovery import is_excluded
from embercoach.engine.verdict import Judge
from embercoach.files import relative_path, shown_path
from embercoach.finding import Finding, Problem
from embercoach.report import baseline_file
from embercoach.report.baseline_file import Baseline, BaselineEntry, BaselineError
from embercoach.report.outcome import Comparison, RuleChange, SourceTexts
from embercoach.report.styled import print_text

if TYPE_CHECKING:
    from embercoach.config import Configurations
    from embercoach.config.load import ConfigurationScope
    from embercoach.engine.check_run import RunResult
    from embercoach.engine.checkouts import CheckoutDivision


class Guard(Struct, frozen=True):
    """A baseline and the configurations that name it."""

    baseline: Baseline
    scopes: frozenset[ConfigurationScope]
    configurations: Configurations
    division: CheckoutDivision

    def holds_for(self, place: str) -> bool:
        """Return whether the baseline applies to a file, given by its absolute path."""
        return self.configurations.holding(place) in self.scopes

    def covered(self, result: RunResult) -> frozenset[BaselineEntry]:
        """Return the entries whose files a run looked at, and could check."""
        failed = _absolute(problem.path for problem in result.problems)
        entries = self.baseline.entries
        places = {path: self.baseline.place(path) for path in {entry.path for entry in entries}}
        looked_at = {
            path
            for path, place in places.items()
            if not baseline_file.within(place, failed)
            and self.division.in_shard(place)
            and self.holds_for(place)
        }
        return frozenset(entry for entry in entries if entry.path in looked_at)

    def gone(
        self, found: AbstractSet[BaselineEntry], result: RunResult
    ) -> frozenset[BaselineEntry]:
        """Return the entries that are fixed: their rules are on, their files were checked."""
        missing = self.covered(result).difference(found)
        selected = {path: self._selected(path) for path in {entry.path for entry in missing}}
        return frozenset(entry for entry in missing if entry.code in selected[entry.path])

    def _selected(self, path: str) -> AbstractSet[str]:
        """Return the rules that are on for a file; none for one that is excluded."""
        place = self.baseline.place(path)
        scope = self.configurations.holding(place)
        if scope is None or is_excluded(place, self.configurations):
            return frozenset()
        return Judge(scope.settings).rules_for(Path(place)).enabled


def _absolute(paths: Iterable[str]) -> frozenset[str]:
    return frozenset(map(os.path.abspath, paths))


class Judged(Struct, frozen=True):
    """A run without the findings that its baselines know.

    Attributes:
        findings: those in no baseline.
        numbers: their places among all findings.
        comparison: how many are known, and how many of the baselines are fixed.
        stale: the baselines with fixed findings, and how many.
    """

    findings: tuple[Finding, ...]
    numbers: tuple[int, ...]
    comparison: Comparison
    stale: tuple[tuple[Path, int], ...]


def guards(
    scopes: Iterable[ConfigurationScope],
    configurations: Configurations,
    division: CheckoutDivision,
    default: Path | None = None,
    problems: list[Problem] | None = None,
) -> tuple[Guard, ...]:
    """Return the baselines that the settings name, read.

    Args:
        scopes: the configurations of the files.
        configurations: of all folders.
        division: which files are looked at.
        default: the file where settings name none, which need not exist, as none need then.
        problems: receives errors in the files, which are raised if it is None.

    Raises:
        click.ClickException: one of them cannot be used.
    """
    by_file: dict[Path, list[ConfigurationScope]] = {}
    for scope in scopes:
        file = scope.settings.baseline or default
        if file is not None:
            by_file.setdefault(file, []).append(scope)
    read = {file: _read(file, default, problems) for file in by_file}
    return tuple(
        Guard(known, frozenset(by_file[file]), configurations, division)
        for file, known in read.items()
        if known is not None
    )


def _read(file: Path, default: Path | None, problems: list[Problem] | None) -> Baseline | None:
    try:
        if default is not None and not os.path.lexists(file):
            return Baseline(file)
        return baseline_file.read(file)
    except BaselineError as error:
        if problems is None:
            raise click.ClickException(str(error)) from error
        name = shown_path(file)
        message = str(error).removeprefix(f"{name}: ")
        problems.append(Problem(name, 1, 1, f"baseline: {message}"))
    return None


def judge(watching: Sequence[Guard], result: RunResult, sources: SourceTexts) -> Judged:
    """Separate new findings from those that the baselines know."""
    known: set[int] = set()
    fixed: list[tuple[str, str]] = []
    stale = []
    for guard in watching:
        file = guard.baseline.file
        places = {path: os.path.abspath(path) for path in {f.path for f in result.findings}}  # noqa: PTH100
        own = {path for path, place in places.items() if guard.holds_for(place)}
        entries = baseline_file.entries_of(result.findings, sources, file)
        found = {n: e for n, e in enumerate(entries) if result.findings[n].path in own}
        known |= {n for n, entry in found.items() if entry in guard.baseline.entries}
        if gone := guard.gone(set(found.values()), result):
            stale.append((file, len(gone)))
            fixed += [(guard.baseline.place(entry.path), entry.code) for entry in gone]
    numbers = tuple(n for n in range(len(result.findings)) if n not in known)
    new = tuple(result.findings[n] for n in numbers)
    changes = _changes(result.findings, known, fixed)
    return Judged(new, numbers, Comparison(len(known), len(fixed), changes), tuple(stale))


def _changes(
    findings: Sequence[Finding], known: AbstractSet[int], fixed: Sequence[tuple[str, str]]
) -> tuple[RuleChange, ...]:
    """Known and fixed findings by file and rule."""
    paths = {finding.path for finding in findings}
    shown = {os.path.abspath(path): path for path in paths}  # noqa: PTH100  (links stay)
    counts: dict[tuple[str, str], list[int]] = {}
    for number in known:
        counts.setdefault((findings[number].path, findings[number].code), [0, 0])[0] += 1
    for place, code in fixed:
        path = shown.get(place) or relative_path(place)
        counts.setdefault((path, code), [0, 0])[1] += 1
    return tuple(sorted(RuleChange(*key, *numbers) for key, numbers in counts.items()))


def complain(stale: Iterable[tuple[Path, int]]) -> None:
    """Name outdated baselines on standard error."""
    for file, count in stale:
        entries = "1 fixed entry" if count == 1 else f"{count} fixed entries"
        name = shown_path(file)
        print_text(
            f"{name}: {entries}; run `embercoach baseline update --baseline {name}` and commit it",
            sys.stderr,
        )
