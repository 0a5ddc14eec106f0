"""Select the findings of a file to report, and rate them: selection, suppressions, severity.

This runs after the cache, so that one cached result serves every profile and selection.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from embercoach import rulebook
from embercoach.config.patterns import PathPatterns
from embercoach.config.selectors import matches, severities_by_code
from embercoach.engine.suppression.directives import CODES
from embercoach.engine.suppression.suppression_coverage import ALL, CoveredLines, FoundLines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from embercoach.config import Settings
    from embercoach.engine.inspection import Inspection
    from embercoach.engine.suppression.directives import Directive
    from embercoach.finding import Finding, Severity


@dataclass(frozen=True, slots=True)
class FileRules:
    """The profile and the enabled codes of one file."""

    profile: str
    enabled: frozenset[str]


class Verdict(NamedTuple):
    """The findings to report of a file, and the number of suppressed ones."""

    findings: list[Finding]
    suppressed: int


class Judge:
    """Applies settings to findings; one per run."""

    def __init__(
        self, settings: Settings, severities: dict[tuple[str, str, str], Severity] | None = None
    ) -> None:
        """Give ``severities`` (by code, profile, context) that are known; more are added."""
        self._severities = {} if severities is None else severities
        # Not among those that are known, which results of all settings share.
        self._set = severities_by_code(settings.severities)
        self._plain = FileRules(settings.profile, settings.enabled)
        self._ignores = [
            (_Pattern(pattern, settings.root), pattern, selectors)
            for pattern, selectors in settings.per_file_ignores
        ]
        self._profiles = [
            (_Pattern(pattern, settings.root), pattern, profile)
            for pattern, profile in settings.per_file_profiles
        ]

    def rules_for(self, path: Path) -> FileRules:
        """Profile and codes for a file, by the per-file patterns."""
        if not (self._ignores or self._profiles):
            return self._plain
        special = self.profile_for(path)
        ignored = [s for _, given in self.ignores_for(path) for s in given]
        enabled = self._plain.enabled
        if ignored:
            enabled = frozenset(c for c in enabled if not any(matches(s, c) for s in ignored))
        return FileRules(special[1] if special else self._plain.profile, enabled)

    def profile_for(self, path: Path) -> tuple[str, str] | None:
        """The last per-file pattern that names a file, and its profile."""
        name = str(path)
        named = [(said, profile) for p, said, profile in self._profiles if p.match(name)]
        return named[-1] if named else None

    def ignores_for(self, path: Path) -> list[tuple[str, tuple[str, ...]]]:
        """The per-file patterns that name a file, and what they ignore in it."""
        name = str(path)
        return [(said, selectors) for p, said, selectors in self._ignores if p.match(name)]

    def judge(self, path: Path, shown: str, inspection: Inspection) -> Verdict:
        """The verdict on a file that was checked.

        Where findings may be missing, suppressions that match nothing are not reported.

        Args:
            path: the file, absolute.
            shown: its path as the user named it.
            inspection: of the file.

        Raises:
            KeyError: a check reported a code that has no page.
        """
        rules = self.rules_for(path)
        found = [one for one in inspection.findings if one.code in rules.enabled]
        directives, suppressed = inspection.directives, 0
        if directives:
            if inspection.problem is None and not rules.enabled.isdisjoint(CODES):
                unused = [*_unused(rules, directives, FoundLines(found))]
            else:
                unused = []
            kept = _uncovered(found, directives)
            # What suppresses everything does not suppress that it is unused.
            kept += _uncovered(unused, [one for one in directives if not one.blanket])
            suppressed = len(found) + len(unused) - len(kept)
            found = kept
        return Verdict([self._rated(one, shown, rules.profile) for one in found], suppressed)

    def severities(self, code: str, profile: str) -> dict[str, Severity]:
        """The severities of a rule by context; a severity of the settings is for all contexts."""
        if code in self._set:
            return {"default": self._set[code]}
        return rulebook.rule(code).severity[profile]

    def _rated(self, finding: Finding, shown: str, profile: str) -> Finding:
        key = (finding.code, profile, finding.context)
        severity = self._set.get(finding.code) or self._severities.get(key)
        if severity is None:
            severity = rulebook.rule(finding.code).severity_in(profile, finding.context)
            self._severities[key] = severity
        return replace(finding, path=shown, severity=severity)


def _uncovered(findings: Iterable[Finding], directives: Iterable[Directive]) -> list[Finding]:
    """The findings that no suppression covers."""
    covered = CoveredLines(directives)
    return [one for one in findings if not covered.covers(one.code, one.line, one.end_line)]


def _unused(
    rules: FileRules, directives: Sequence[Directive], found: FoundLines
) -> Iterator[Finding]:
    """The findings about suppressions that match nothing or name no rule."""
    from embercoach.engine.suppression import unused

    known = rulebook.static_codes()
    for directive in directives:
        if directive.blanket and found.within(ALL, directive.spans):
            continue
        used = {item for item in directive.items if found.within(item.word, directive.spans)}
        for one in unused.report(directive, used, rules.enabled, known):
            if one.code in rules.enabled:
                yield one.bounded()


class _Pattern:
    """A per-file pattern; ``!pattern`` names every file that it does not match."""

    def __init__(self, pattern: str, root: Path) -> None:
        self._negated = pattern.startswith("!")
        self._patterns = PathPatterns([pattern.removeprefix("!")], root)

    def match(self, path: str) -> bool:
        return self._patterns.match_below(path) != self._negated
