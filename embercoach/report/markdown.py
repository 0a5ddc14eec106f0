"""A summary in GitHub's Markdown, as for ``GITHUB_STEP_SUMMARY``."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from embercoach import rulebook
from embercoach.finding import SEVERITIES
from embercoach.notebooks import is_notebook
from embercoach.report import statistics, text
from embercoach.report.locations import in_repository, line_of, quoted, start_in_file
from embercoach.report.outcome import listed
from embercoach.report.statistics import totals
from embercoach.report.styled import plain
from embercoach.terminal_text import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from embercoach.finding import Finding, Problem
    from embercoach.report.locations import Placed
    from embercoach.report.outcome import (
        Checkout,
        Comparison,
        Outcome,
        SourceTexts,
    )
    from embercoach.report.statistics import Totals

#: Findings that are listed one by one; a step's summary may hold 1 MiB.
MOST = 50
#: What may start something in GitHub's Markdown inside a line.
SPECIAL = re.compile(r"[\\`*_\[\]<>&~|$]")
#: What forges make a mention, a reference or a link of, without any markup.
LINKED = re.compile(r"[@#](?=\w)|(?<=:)/(?=/)|(?i:www)(?=\.)")


def render(
    outcome: Outcome,
    sources: SourceTexts,
    *,
    show_notes: bool,
    root: str | None = None,
    link_prefix: str = "",
    comparison: Comparison | None = None,
    checkouts: Sequence[Checkout] = (),
) -> str:
    """Get the summary: totals, by checkout and by rule, and the worst findings with links to them.

    Args:
        outcome: the run's result.
        sources: the reported files' texts.
        show_notes: whether notes are listed.
        root: the repository's folder; the current one by default.
        link_prefix: the prefix of links, as ``https://github.com/me/it/blob/COMMIT/``.
        comparison: with the baseline, if there is one.
        checkouts: of the run; there is a table of them where they are several.
    """
    found = listed(outcome, show_notes=show_notes)
    address = partial(_address, sources, root, link_prefix)
    lines = ["## EmberCoach", ""]
    for line in text.summary(outcome, show_notes=show_notes, comparison=comparison):
        lines += [prose(plain(line)), ""]
    if rows := totals(
        checkouts,
        [(finding.path, finding.severity) for finding in outcome.findings],
        [problem.path for problem in outcome.problems],
    ):
        lines += [*_checkouts(rows), ""]
    if found:
        lines += [*_table(found), ""]
        worst = sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))
        lines += [_finding(finding, address) for finding in worst[:MOST]]
        if len(found) > MOST:
            lines += ["", f"And {len(found) - MOST} more."]
        lines.append("")
    if outcome.problems:
        lines += ["### Not checked", ""]
        lines += [_problem(problem, address) for problem in outcome.problems[:MOST]]
        if len(outcome.problems) > MOST:
            lines += ["", f"And {len(outcome.problems) - MOST} more."]
        lines.append("")
    return "\n".join(lines)


def _checkouts(rows: Sequence[Totals]) -> Iterator[str]:
    yield "| checkout | errors | warnings | notes | files checked | not checked |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for row in rows:
        counts = [*row.counts, row.checkout.files_checked, row.problems]
        yield f"| {_escaped(escaped(row.path))} | {' | '.join(map(str, counts))} |"


def _table(found: list[Finding]) -> Iterator[str]:
    yield "| rule | what | severity | findings | fixable |"
    yield "| --- | --- | --- | ---: | ---: |"
    for row in statistics.rows(found):
        rule = rulebook.known_rule(row.code)
        about = prose(rule.summary) if rule else ""
        yield f"| {row.code} | {about} | {row.severity} | {row.count} | {row.fixable or ''} |"


def _finding(finding: Finding, address: Callable[[Placed], str]) -> str:
    place = _place(finding, address)
    return f"- {place} **{finding.code}** {finding.severity}: {prose(finding.message)}"


def _problem(problem: Problem, address: Callable[[Placed], str]) -> str:
    return f"- {_place(problem, address)} {prose(problem.message)}"


def _place(one: Placed, address: Callable[[Placed], str]) -> str:
    return f"[{_escaped(escaped(line_of(one)))}]({address(one)})"


def _address(sources: SourceTexts, root: str | None, link_prefix: str, one: Placed) -> str:
    # GitHub shows a notebook without lines unless it is asked for the file as it is.
    plain_text = "?plain=1" if link_prefix and is_notebook(one.path) else ""
    line, _ = start_in_file(one, sources)
    path = quoted(in_repository(one.path, root))
    if path.startswith("//"):
        path = f"/{path.lstrip('/')}"  # two slashes would begin the name of a host
    return f"{link_prefix}{path}{plain_text}#L{line}"


def prose(message: str) -> str:
    """Get a message in one line, in which only its `code` is marked up, wherever it comes from."""
    pieces = escaped(message).split("`")
    if len(pieces) % 2 == 0 or not all(piece.strip() for piece in pieces[1::2]):
        return "\\`".join(map(_escaped, pieces))
    # A bar would end a table's cell even inside code; ## may be a command of a CI runner.
    shown = [
        _escaped(piece) if number % 2 == 0 or "|" in piece or "##" in piece else f"`{piece}`"
        for number, piece in enumerate(pieces)
    ]
    return "".join(shown)


def _escaped(words: str) -> str:
    """Words without markup; a comment parts what a forge would link."""
    return LINKED.sub(r"\g<0><!-- -->", SPECIAL.sub(r"\\\g<0>", words))
