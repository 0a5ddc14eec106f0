"""Saved findings in the formats of ``check``, whether their sources are at hand or not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from embercoach.cli.flow import Answer, exit_code
from embercoach.cli.output import FOR_PEOPLE, for_programs
from embercoach.engine.problem import Problem
from embercoach.engine.run import RunResult
from embercoach.finding import Finding, Fix, Step
from embercoach.project_files import boundary
from embercoach.report.origin import Checkout, Origin
from embercoach.report.outcome import Comparison, Sources, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embercoach.report.styled import Line


def write(document: dict[str, Any], form: str, stream: TextIO, *, show_notes: bool) -> None:
    """Write a saved report in a format other than its own.

    Fixes are told and counted, but their edits are left out: they are places in the sources.
    """
    answer = _answer(document, fixes=form != "sarif")
    # A saved report may name any file: only those of the project here are quoted.
    here = str(Path.cwd())
    sources = Sources(root=boundary(here) or here)
    if form in FOR_PEOPLE:
        from embercoach.report.styled import print_lines, width_of

        lines = _for_people(answer, form, sources, show_notes=show_notes, width=width_of(stream))
        print_lines(lines, stream)
    elif form == "sarif":
        from embercoach.report import sarif

        code = exit_code(answer.result)
        log = sarif.render(
            answer.result,
            sources,
            profile="recommended",
            exit_code=code,
            marks=answer.marks,
            root=os.environ.get("GITHUB_WORKSPACE"),
        )
        stream.write(log)
    else:
        stream.write(for_programs(form, answer, sources, show_notes))


def write_statistics(
    document: dict[str, Any], form: str, stream: TextIO, *, show_notes: bool
) -> None:
    """Count a saved report's findings by rule, for people or as JSON."""
    from embercoach.report import statistics, text
    from embercoach.report.styled import print_lines

    answer = _answer(document, fixes=True)
    result = answer.result
    if form == "json":
        stream.write(statistics.render(result.findings))
        return
    print_lines(statistics.lines(listed(result, show_notes=show_notes)), stream)
    print_lines(text.problem_lines(result.problems), stream)
    summary = text.summary(result, show_notes=show_notes, comparison=answer.comparison)
    print_lines(summary, stream)


def _answer(document: dict[str, Any], *, fixes: bool) -> Answer:
    from embercoach.cli.baseline_filter import Judged

    summary = document["summary"]
    findings = tuple(_finding(saved, fixes=fixes) for saved in document["findings"])
    answer = Answer(
        RunResult(
            findings,
            tuple(Problem(**problem) for problem in map(_known_problem, document["problems"])),
            summary["files_checked"],
            summary["files_skipped"],
            summary["suppressed"],
        )
    )
    if all("fingerprint" in saved for saved in document["findings"]):
        answer.marks = tuple(saved["fingerprint"] for saved in document["findings"])
    if "run" in document and "checkouts" in document:
        run = document["run"]
        checkouts = tuple(Checkout.saved(one) for one in document["checkouts"])
        answer.origin = Origin(run["version"], run["program"], checkouts)
    if "baseline" in summary:
        compared = Comparison(summary["baseline"]["known"], summary["baseline"]["fixed"])
        answer.judged = Judged(findings, (), compared, ())
    return answer


_PLACE = ("path", "cell", "line", "column")
_OF_FINDINGS = (*_PLACE, "end_line", "end_column", "code", "severity", "message", "help", "context")


def _known_problem(saved: dict[str, Any]) -> dict[str, Any]:
    return {name: saved[name] for name in (*_PLACE, "message") if name in saved}


def _finding(saved: dict[str, Any], *, fixes: bool) -> Finding:
    fix = saved["fix"] if fixes else None
    values = {name: saved[name] for name in _OF_FINDINGS if name in saved}
    return Finding(
        **values,
        fix=fix and Fix(fix["title"], fix["safe"], ()),
        flow=_steps(saved.get("flow", ())),
        related=_steps(saved.get("related", ())),
    )


def _steps(saved: Iterable[dict[str, Any]]) -> tuple[Step, ...]:
    return tuple(
        Step(**{name: value for name, value in step.items() if name in Step.__slots__})
        for step in saved
    )


def _for_people(
    answer: Answer, form: str, sources: Sources, *, show_notes: bool, width: int
) -> Iterator[Line]:
    from embercoach.report import text

    result = answer.result
    if form == "concise":
        yield from text.concise(result, show_notes=show_notes)
    else:
        yield from text.full(result, sources, show_notes=show_notes, width=width)
    yield from text.summary(result, show_notes=show_notes, comparison=answer.comparison)
