"""Select the findings of a file to report, and rate them: selection, suppressions, severity."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from pathlib import Path
from string import digits
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from embercoach import rulebook
from embercoach.config.errors import nearest
from embercoach.config.patterns import PathPatterns
from embercoach.config.selectors import matches, severities_by_code
from embercoach.engine.suppressions import CODES, Directive, Item
from embercoach.finding import Edit, Finding, Fix, Severity
from embercoach.rulebook import SIMULATED, rules, words, words_for

if TYPE_CHECKING:
    from embercoach.config import Settings
    from embercoach.engine.inspection import Inspection

UNUSED, UNKNOWN = CODES
#: Unknown words of a suppression for which the nearest code is looked up.
_MOST_CORRECTED = 100


@lru_cache(maxsize=512)
def _spellings(code: str) -> tuple[str, ...]:
    """Return the words that suppress a code, also without hyphens as other linters' codes are."""
    named = words_for(code)
    return (*named, *(word.replace("-", "") for word in named if "-" in word))


def report(
    directive: Directive,
    used: AbstractSet[Item],
    enabled: AbstractSet[str],
    known: frozenset[str],
) -> Iterator[Finding]:
    """Yield findings about a suppression.

    Args:
        directive: a suppression of a file that was checked.
        used: its items that suppressed a finding.
        enabled: the codes selected for the file; suppressions of others are not judged.
        known: all codes that checks report.
    """
    if directive.kind == "noqa" and directive.blanket:
        return  # other linters use it too
    rules, by_word = _by_word(known)
    idle = []
    unknown = 0
    for item in directive.items:
        word = item.word.upper()
        named = by_word.get(word, frozenset())
        if named and named <= enabled and item not in used:
            idle.append(item)
        if named or any(word in _spellings(code) for code in CODES):
            continue
        is_foreign = "-" not in word and word.rstrip(digits) not in by_word
        if directive.kind == "noqa" and is_foreign:
            continue
        unknown += 1
        near = _by_name().get(item.word.lower())
        if near is None and unknown <= _MOST_CORRECTED:
            near = nearest(word, words(known))
        if near or directive.kind != "noqa" or word.startswith(SIMULATED):
            yield _unknown(directive, item, near)
    if idle or (directive.blanket and rules <= enabled):
        yield _idle_items(directive, idle)


@lru_cache(maxsize=1)
def _by_name() -> dict[str, str]:
    """Return the codes of the rules by their names."""
    return {one.name: code for code, one in rules().items()}


@lru_cache(maxsize=1)
def _by_word(known: frozenset[str]) -> tuple[frozenset[str], dict[str, frozenset[str]]]:
    """Return the codes of the rules, in all and by the word that selects them."""
    rules = known - set(CODES)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for code in rules:
        for word in _spellings(code):
            found[word].add(code)
    return rules, {word: frozenset(codes) for word, codes in found.items()}


def _idle_items(directive: Directive, idle: list[Item]) -> Finding:
    gone = set(idle)
    kept = [item.word for item in directive.items if item not in gone]
    of = f" of {_names(idle)}" if idle else ""
    where = " in this file" if directive.kind == "ignore-file" else ""
    fix = Fix("Remove the unused suppression", safe=True, edits=(directive.edit(kept),))
    return _finding(
        directive,
        UNUSED,
        f"unused suppression{of}{where}",
        "Remove it, as it would hide a later finding",
        fix,
    )


def _names(items: list[Item]) -> str:
    """Return the first two names, and the number of the others."""
    names = ", ".join([f"`{item.word}`" for item in items[:2]])
    return names if len(items) <= 2 else f"{names} and {len(items) - 2} more"


def _unknown(directive: Directive, item: Item, near: str | None) -> Finding:
    if item.word.upper().startswith(SIMULATED):
        return _finding(
            directive,
            UNKNOWN,
            f"`{item.word}` is a simulator rule, which comments do not suppress",
            "Allow its kind under [tool.embercoach.simulator], or with the marker embercoach_allow",
            None,
        )
    fix = near and Fix(f"Write {near}", safe=False, edits=(Edit(item.start, item.end, near),))
    return _finding(
        directive,
        UNKNOWN,
        f"unknown rule `{item.word}` in a suppression",
        f"Did you mean `{near}`?" if near else "Run `embercoach rules` to list the rules",
        fix or None,
    )


def _finding(
    directive: Directive, code: str, message: str, advice: str, fix: Fix | None
) -> Finding:
    return Finding(
        code=code,
        line=directive.line,
        column=directive.column,
        end_line=directive.line,
        end_column=directive.end_column,
        message=message,
        help=advice,
        fix=fix,
    )


#: Stands for all codes: what suppresses whatever is found lists no words.
ALL = ""


class CoveredLines:
    """The lines that suppressions cover, by the words that they list."""

    def __init__(self, directives: Iterable[Directive]) -> None:
        """Index suppressions of one file."""
        spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for directive in directives:
            for item in directive.items:
                spans[item.word.upper()] += directive.spans
            if directive.blanket:
                spans[ALL] += directive.spans
        self._spans = {word: _merged(found) for word, found in spans.items()}

    def covers(self, code: str, line: int, end_line: int) -> bool:
        """Return whether a finding that starts and ends on these lines is suppressed."""
        return any(
            self._holds(word, line) or self._holds(word, end_line)
            for word in (ALL, *_spellings(code))
        )

    def _holds(self, word: str, line: int) -> bool:
        known = self._spans.get(word)
        if known is None:
            return False
        starts, ends = known
        at = bisect_right(starts, line) - 1
        return at >= 0 and ends[at] >= line


class FoundLines:
    """The lines where findings start and end, by the words that name their codes."""

    def __init__(self, found: Iterable[Finding]) -> None:
        """Index findings."""
        lines: defaultdict[str, set[int]] = defaultdict(set)
        for one in found:
            for word in (ALL, *_spellings(one.code)):
                lines[word].update((one.line, one.end_line))
        self._lines = {word: sorted(known) for word, known in lines.items()}

    def within(self, word: str, spans: Iterable[tuple[int, int]]) -> bool:
        """Return whether a finding that a word names starts or ends on some lines."""
        lines = self._lines.get(word.upper(), ())
        for low, high in spans:
            at = bisect_left(lines, low)
            if at < len(lines) and lines[at] <= high:
                return True
        return False


def _merged(spans: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return the starts and the ends of spans, of those that overlap as of one."""
    starts: list[int] = []
    ends: list[int] = []
    for low, high in sorted(spans):
        if ends and low <= ends[-1]:
            ends[-1] = max(ends[-1], high)
        else:
            starts.append(low)
            ends.append(high)
    return starts, ends


class FileRules(Struct, frozen=True):
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
        """Return the last per-file pattern that names a file, and its profile."""
        name = str(path)
        named = [(said, profile) for p, said, profile in self._profiles if p.match(name)]
        return named[-1] if named else None

    def ignores_for(self, path: Path) -> list[tuple[str, tuple[str, ...]]]:
        """Return the per-file patterns that name a file, and what they ignore in it."""
        name = str(path)
        return [(said, selectors) for p, said, selectors in self._ignores if p.match(name)]

    def judge(self, path: Path, shown: str, inspection: Inspection) -> Verdict:
        """Return the verdict on a file that was checked.

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
        kept = [one for one in found if one.within is None or not one.within.suppressed]
        suppressed += len(found) - len(kept)
        found = [
            one
            for one in kept
            if one.within is None or one.code in self.rules_for(Path(one.within.path)).enabled
        ]
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
    """Return the findings that no suppression covers."""
    covered = CoveredLines(directives)
    return [one for one in findings if not covered.covers(one.code, one.line, one.end_line)]


def _unused(
    rules: FileRules, directives: Sequence[Directive], found: FoundLines
) -> Iterator[Finding]:
    """Yield the findings about suppressions that match nothing or name no rule."""
    known = rulebook.static_codes()
    for directive in directives:
        if directive.quoted or (directive.blanket and found.within(ALL, directive.spans)):
            continue
        used = {item for item in directive.items if found.within(item.word, directive.spans)}
        for one in report(directive, used, rules.enabled, known):
            if one.code in rules.enabled:
                yield one.bounded()


class _Pattern:
    """A per-file pattern; ``!pattern`` names every file that it does not match."""

    def __init__(self, pattern: str, root: Path) -> None:
        self._negated = pattern.startswith("!")
        self._patterns = PathPatterns([pattern.removeprefix("!")], root)

    def match(self, path: str) -> bool:
        return self._patterns.match_below(path) != self._negated
