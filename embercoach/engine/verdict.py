"""From what the checks found in a file to what is reported: selection, suppressions, severity.

This runs after the cache, so that one cached result serves every profile and selection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embercoach import rulebook
from embercoach.config.patterns import PathPatterns
from embercoach.config.selectors import matches
from embercoach.engine.suppression.directives import CODES, Directive
from embercoach.engine.suppression.suppression_coverage import ALL, CoveredLines, FoundLines
from embercoach.finding import Edit, Finding, Fix, RawFinding, Severity, Step
from embercoach.quoting import MOST_PROPOSED, bounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from embercoach.config import Settings

#: A RawFinding as nested plain tuples, or as lists once it went through JSON.
RawTuple = Any


def raw_to_tuple(finding: RawFinding) -> RawTuple:
    """Nested plain tuples, in the order of RawFinding's fields; messages are bounded from here."""
    fix = finding.fix
    return (
        finding.code,
        finding.line,
        finding.column,
        finding.end_line,
        finding.end_column,
        bounded(finding.message),
        bounded(finding.help, MOST_PROPOSED),
        finding.context,
        fix
        and (
            bounded(fix.title, MOST_PROPOSED),
            fix.safe,
            tuple((e.start, e.end, e.text) for e in fix.edits),
        ),
        tuple(map(_step_to_tuple, finding.flow)),
        tuple(map(_step_to_tuple, finding.related)),
    )


def _step_to_tuple(step: Step) -> RawTuple:
    return (step.line, step.column, step.end_line, step.end_column, bounded(step.message))


@dataclass(frozen=True, slots=True)
class FileRules:
    """What holds for one file."""

    profile: str
    enabled: frozenset[str]


class Verdict:
    """What is reported of a file."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.suppressed = 0


class Judge:
    """Applies settings to what was found; one a run."""

    def __init__(
        self, settings: Settings, severities: dict[tuple[str, str, str], Severity] | None = None
    ) -> None:
        """Give ``severities`` (by code, profile, context) that are known; more are added."""
        self._severities = {} if severities is None else severities
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

    def judge(
        self,
        path: Path,
        shown: str,
        found: Iterable[RawTuple],
        directives: Sequence[Directive],
        *,
        complete: bool = True,
    ) -> Verdict:
        """The verdict on a file that was checked, ``complete`` or in part.

        Args:
            path: the file.
            shown: its path as the user named it.
            found: what the checks found.
            directives: the file's suppressions.
            complete: whether nothing is missing: only then a suppression may be unused.

        Raises:
            KeyError: a check reported a code that has no page.
        """
        rules = self.rules_for(path)
        verdict = Verdict()
        covered = CoveredLines(directives)
        enabled: list[tuple[str, int, int]] = []
        for raw in found:
            place = (raw[0], raw[1], raw[3])
            if raw[0] not in rules.enabled:
                continue
            enabled.append(place)
            if directives and covered.covers(*place):
                verdict.suppressed += 1
            else:
                verdict.findings.append(self._finding(raw, shown, rules.profile))
        if complete and directives and not rules.enabled.isdisjoint(CODES):
            self._add_idle(verdict, shown, rules, directives, FoundLines(enabled))
        return verdict

    def _add_idle(
        self,
        verdict: Verdict,
        shown: str,
        rules: FileRules,
        directives: Sequence[Directive],
        found: FoundLines,
    ) -> None:
        from embercoach.engine.suppression import unused

        known = rulebook.static_codes()
        covered = CoveredLines(directive for directive in directives if not directive.blanket)
        for directive in directives:
            if directive.blanket and found.within(ALL, directive.spans):
                continue
            used = {item for item in directive.items if found.within(item.word, directive.spans)}
            for raw in unused.report(directive, used, rules.enabled, known):
                plain = raw_to_tuple(raw)
                if raw.code not in rules.enabled:
                    continue
                if covered.covers(raw.code, raw.line, raw.end_line):
                    verdict.suppressed += 1
                else:
                    verdict.findings.append(self._finding(plain, shown, rules.profile))

    def _finding(self, raw: RawTuple, shown: str, profile: str) -> Finding:
        code, line, column, end_line, end_column, message, advice, context, *more = raw
        fix, flow, related = more
        key = (code, profile, context)
        severity = self._severities.get(key)
        if severity is None:
            severity = rulebook.rule(code).severity_in(profile, context)
            self._severities[key] = severity
        return Finding(
            shown,
            line,
            column,
            end_line,
            end_column,
            code,
            severity,
            message,
            advice,
            context,
            fix and Fix(fix[0], fix[1], tuple(Edit(*edit) for edit in fix[2])),
            tuple([Step(shown, *step) for step in flow]),
            tuple([Step(shown, *step) for step in related]),
        )


class _Pattern:
    """A per-file pattern; ``!pattern`` names every file that it does not match."""

    def __init__(self, pattern: str, root: Path) -> None:
        self._negated = pattern.startswith("!")
        self._patterns = PathPatterns([pattern.removeprefix("!")], root)

    def match(self, path: str) -> bool:
        return self._patterns.match_below(path) != self._negated
