"""What older guides teach, as a test: the broken is flagged for its reason, the right is not.

The guides that this project started from mix truth and error. Each of their programs is retyped
here as a small case; cases numbered ``v`` test a verdict on a claim that the guides make in prose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embercoach.rulebook import rule
from tests.guides import arrays, bodies, launches
from tests.guides.case import Case, Mark

if TYPE_CHECKING:
    from embercoach.finding import Finding

CASES = (*arrays.CASES, *bodies.CASES, *launches.CASES)
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def findings_of(case: Case) -> list[Finding]:
    """What the linter finds in a case, apart from what it may find as well."""
    from embercoach.checks import Project, check_source

    report = check_source(case.program, Path("guide.py"), Project())
    return [finding for finding in report.findings if finding.code not in case.allowed]


def codes_at(findings: Iterable[Finding], profile: str) -> tuple[set[str], set[str]]:
    """The codes of warnings and errors, and those of notes, under a profile."""
    loud: set[str] = set()
    quiet: set[str] = set()
    for finding in findings:
        severity = rule(finding.code).severity_in(profile, finding.context)
        (quiet if severity == "note" else loud).add(finding.code)
    return loud, quiet


def codes_of(marks: Iterable[Mark]) -> set[str]:
    return {mark.code for mark in marks}


def describe(findings: Iterable[Finding]) -> str:
    return "\n".join(f"{f.line}:{f.column} {f.code} ({f.context}) {f.message}" for f in findings)


def answers(finding: Finding, mark: Mark, program: str) -> bool:
    """Whether a finding is the one that is due."""
    covered = any(finding.line <= line <= finding.end_line for line in mark.lines(program))
    return finding.code == mark.code and covered and all(w in finding.message for w in mark.says)


@each_case
def test_findings_are_those_that_are_due(case: Case) -> None:
    findings = findings_of(case)
    because = f"{case.reason}\n{describe(findings)}"
    due = (codes_of(case.flagged), codes_of(case.noted))
    assert codes_at(findings, "recommended") == due, because
    assert codes_at(findings, "ember") == (codes_of(case.marks), set()), because
    assert all(case.program.count(place) == 1 for mark in case.marks for place in mark.places)
    for mark in case.marks:
        assert any(answers(finding, mark, case.program) for finding in findings), (mark, because)
    for finding in findings:
        assert any(answers(finding, replace(mark, says=()), case.program) for mark in case.marks), (
            f"found elsewhere: {describe([finding])}"
        )


@each_case
def test_the_program_can_be_imported(case: Case) -> None:
    for module in ("mlx.core", *case.needs):
        if find_spec(module.partition(".")[0]) is None:
            pytest.skip(f"needs {module}")
    exec(compile(case.program, case.name, "exec"), {"__name__": "guide"})
