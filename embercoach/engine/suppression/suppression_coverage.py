"""Which findings suppressions cover, and which suppressions cover any: without trying each pair."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING

from embercoach.engine.suppression.directives import words_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embercoach.engine.suppression.directives import Directive
    from embercoach.finding import Finding

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
            for word in (ALL, *words_for(code))
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
            for word in (ALL, *words_for(one.code)):
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
    """The starts and the ends of spans, of those that overlap as of one."""
    starts: list[int] = []
    ends: list[int] = []
    for low, high in sorted(spans):
        if ends and low <= ends[-1]:
            ends[-1] = max(ends[-1], high)
        else:
            starts.append(low)
            ends.append(high)
    return starts, ends
