"""The report for people: each finding with its source, repeated ones once, then a summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from embercoach.finding import Finding, Problem, Step
from embercoach.report.locations import place_of, position_of
from embercoach.report.outcome import Comparison, Outcome, SourceTexts, counts, listed
from embercoach.report.styled import Line, wrapped

#: Lines within which findings with the same help are of one place.
_NEAR = 3
#: Positions that are listed.
_MOST_LISTED = 8


class Repeated(NamedTuple):
    """A finding, and those of its file that say the same, or whose help is the same nearby."""

    first: Finding
    others: list[Finding]


def positions_of(found: Sequence[Finding | Step]) -> str:
    """Return positions in a file, such as ``lines 12, 15``."""
    shown = found[:_MOST_LISTED]
    if any(one.cell is not None for one in shown):
        positions, noun = [position_of(one) for one in shown], ""
    else:
        lines = dict.fromkeys(str(one.line) for one in shown)
        positions, noun = [*lines], "line " if len(lines) == 1 else "lines "
    more = len(found) - len(shown)
    return f"{noun}{', '.join(positions)}{f', and {more} more' if more else ''}"


def repeated(findings: Iterable[Finding]) -> list[Repeated]:
    """Group findings, in the order of the first of each group."""
    groups: list[Repeated] = []
    same: dict[tuple[object, ...], Repeated] = {}
    for finding in findings:
        rated = finding.path, finding.severity, finding.help
        key = *rated, finding.code, finding.message
        group = same.get(key)
        last = groups[-1] if groups else None
        if group is None and last is not None and finding.help:
            nearest = (last.others or [last.first])[-1]
            is_near = abs(finding.line - nearest.line) <= _NEAR and finding.cell == nearest.cell
            if is_near and rated == (nearest.path, nearest.severity, nearest.help):
                group = last
        if group is None:
            group = same[key] = Repeated(finding, [])
            groups.append(group)
        else:
            group.others.append(finding)
    return groups


#: The rule of kernels that the checks do not follow: a run with such findings is not all clear.
UNCHECKED = "KERNEL-SYNTAX-002"
SYNTAX_ERROR = "syntax error: "
TRACEBACK = "\nTraceback (most recent call last):\n"


def full(
    outcome: Outcome, sources: SourceTexts, *, show_notes: bool, width: int, wrap: bool = False
) -> Iterator[Line]:
    """Findings with source excerpts, help, and how to fix them; files in order, repeated ones once.

    With ``wrap``, messages and help texts are wrapped to the width.
    """
    from embercoach.report.excerpt import excerpt

    def lines(line: Line, prefix: int) -> Iterable[Line]:
        return wrapped(line, prefix, width) if wrap else (line,)

    for group in repeated(listed(outcome, show_notes=show_notes)):
        finding = group.first
        yield from lines(_head(finding), 5)
        yield from excerpt(finding, sources.index(finding.path, finding.cell), width)
        gutter = " " * len(str(finding.end_line))
        if finding.help:
            first, *more = finding.help.split("\n")
            yield from lines([(f"{gutter} = ", "gutter"), ("help: ", "help"), (first, "")], 2)
            for further in more:
                yield from lines([(f"{gutter}   ", ""), (further, "")], 1)
        for message, steps in groupby(finding.related, attrgetter("message")):
            text = f"{positions_of([*steps])}: {message}"
            yield from lines([(f"{gutter} = ", "gutter"), (text, "")], 1)
        if finding.fix:
            option = "--fix" if finding.is_fixed_safely else "--fix --unsafe-fixes"
            text = f"{finding.fix.title} ({option})"
            yield from lines([(f"{gutter} = ", "gutter"), ("fix: ", "help"), (text, "")], 2)
        if group.others:
            text = f"and {len(group.others)} more: {positions_of(group.others)}"
            yield from lines([(f"{gutter} = ", "gutter"), (text, "")], 1)
        yield []
    for problem in outcome.problems:
        for line in problem_lines([problem]):
            yield from lines(line, 1)
        if problem.message.startswith(SYNTAX_ERROR):
            shown = [*excerpt(_marked(problem), sources.index(problem.path, problem.cell), width)]
            yield from [*shown, []] if shown else ()


def _marked(problem: Problem) -> Finding:
    """Return a finding of the character that a problem is about, for an excerpt."""
    line, column = problem.line, problem.column
    return Finding("", line, column, line, column + 1, "", "", severity="error")


def concise(outcome: Outcome, *, show_notes: bool) -> Iterator[Line]:
    """Yield one line a finding: ``path:line:col: CODE severity message``."""
    for finding in listed(outcome, show_notes=show_notes):
        yield _head(finding, context=False)
    yield from problem_lines(outcome.problems)


def grouped(outcome: Outcome, *, show_notes: bool) -> Iterator[Line]:
    """Yield the findings of each file below its path: ``  line:col CODE severity message``."""
    for path, findings in groupby(listed(outcome, show_notes=show_notes), attrgetter("path")):
        yield [(path, "path"), (":", "")]
        placed = [(position_of(finding), finding) for finding in findings]
        column = max(len(position) for position, _ in placed)
        for position, finding in placed:
            yield [(f"  {position:<{column}} ", "faint"), *_rated_message(finding)]
        yield []
    yield from problem_lines(outcome.problems)


def problem_lines(problems: Iterable[Problem]) -> Iterator[Line]:
    """Yield one line for what could not be checked: ``path:line:col: syntax error: ...``.

    Only a traceback, which ``--debug`` adds, is further lines.
    """
    for problem in problems:
        message, start, trace = problem.message.partition(TRACEBACK)
        kind, colon, rest = message.partition(": ")
        yield [(f"{place_of(problem)}: ", "path"), (kind, "error"), (f"{colon}{rest}", "")]
        if start:
            yield from ([(line, "")] for line in f"{start}{trace}".strip("\n").split("\n"))


def _head(finding: Finding, *, context: bool = True) -> Line:
    line: Line = [(f"{place_of(finding)}: ", "path"), *_rated_message(finding)]
    if context and finding.context != "default":
        line.append((f" [{finding.context}]", "faint"))
    return line


def _rated_message(finding: Finding) -> Line:
    return [
        (finding.code, "code"),
        (" ", ""),
        (finding.severity, finding.severity),
        (" ", ""),
        (finding.message, ""),
    ]


def summary(
    outcome: Outcome, *, show_notes: bool, comparison: Comparison | None = None
) -> Iterator[Line]:
    """Yield the totals: findings, hidden findings, and fixes."""
    count = counts(outcome, show_notes=show_notes)
    parts = [plural(count.errors, "error"), plural(count.warnings, "warning")]
    if show_notes:
        parts.append(plural(count.notes, "note"))
    found = [part for part in parts if not part.startswith("0 ")]
    files = files_text(outcome)
    unchecked = [finding for finding in outcome.findings if finding.code == UNCHECKED]
    aside = []
    if count.notes and not show_notes:
        aside.append(f"{plural(count.notes, 'note')} not shown (--show-notes)")
    if outcome.suppressed:
        aside.append(f"{outcome.suppressed} suppressed")
    if comparison is not None and comparison.known:
        aside.append(f"{comparison.known} hidden by the baseline")
    tail = f" {'; '.join(aside)}." if aside else ""
    if found:
        head = f"Found {_and(found)}; {files}."
        yield [(head, "head"), (tail[:1] + tail[1:2].upper() + tail[2:], "")]
    elif outcome.problems:
        said = "Nothing found; " if outcome.files_checked else ""
        yield [(f"{said}{files}.", "head"), (tail, "")]
    elif outcome.files_skipped and not outcome.files_checked:
        where = plural(outcome.files_skipped, "file")
        why = "no MLX code, `skip-file`, or a kernel's body alone"
        nothing = f"Nothing to check in {where}: {why}."
        yield [(nothing, "warning"), (tail, "")]
    else:
        good = ("Nothing found", "head") if unchecked else ("All clear", "good")
        yield [good, (f"; {files}.{tail}", "")]
    if unchecked:
        more = "" if len(unchecked) == 1 else ", ..."
        text = f"{plural(len(unchecked), 'kernel')} not checked ({place_of(unchecked[0])}{more})"
        yield [(text, "warning"), (f": see `embercoach explain {UNCHECKED}`.", "")]
    if outcome.problems:
        text = f"The run is incomplete: {plural(len(outcome.problems), 'problem')}."
        yield [(text, "error")]
    if comparison is not None and comparison.fixed:
        yield [(f"{plural(comparison.fixed, 'finding')} of the baseline fixed", "good"), _UPDATE]
    if fixes := fixable(count.safe_fixes, count.unsafe_fixes):
        yield [(fixes, "")]


def files_text(outcome: Outcome) -> str:
    """Return the numbers of files that were checked, not checked and skipped."""
    unchecked = len({problem.path for problem in outcome.problems if problem.is_unchecked})
    if outcome.files_checked or not unchecked:
        files = plural(outcome.files_checked, "file") + " checked"
        files += f", {unchecked} not checked" if unchecked else ""
    else:
        files = plural(unchecked, "file") + " not checked"
    if outcome.files_skipped:
        files += f", {outcome.files_skipped} without MLX code skipped"
    return files


_UPDATE = ("; run `embercoach baseline update` to remove them.", "")


def fixable(safe: int, unsafe: int) -> str:
    """Return the sentence that counts findings with fixes; empty for none."""
    if safe and unsafe:
        return f"{safe} fixable with --fix, {unsafe} more with --unsafe-fixes."
    if safe:
        return f"{safe} fixable with --fix."
    return f"{unsafe} fixable with --fix --unsafe-fixes." if unsafe else ""


def plural(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def percent(part: float) -> str:
    """A part of 1 in percent, without digits after the point."""
    return "<1%" if 0 < part < 0.005 else f"{part:.0%}"


def size_of(count: int) -> str:
    """Three digits, in bytes or powers of 1,024 of them."""
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def _and(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
