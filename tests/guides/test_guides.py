"""What older guides teach, as a test: the broken is flagged for its reason, the right is not.

The guides that this project started from mix truth and error. Each of their programs is retyped
here as a small case; cases numbered ``v`` test a verdict on a claim that the guides make in prose.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embercoach.rulebook import codes, rule
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
def test_recommended(case: Case) -> None:
    findings = findings_of(case)
    loud, quiet = codes_at(findings, "recommended")
    assert loud == codes_of(case.flagged), f"{case.reason}\n{describe(findings)}"
    assert quiet == codes_of(case.noted), f"{case.reason}\n{describe(findings)}"


@each_case
def test_ember(case: Case) -> None:
    findings = findings_of(case)
    loud, quiet = codes_at(findings, "ember")
    assert loud == codes_of(case.marks), f"{case.reason}\n{describe(findings)}"
    assert quiet == set(), f"{case.reason}\n{describe(findings)}"


@each_case
def test_every_finding_stands_where_its_reason_is(case: Case) -> None:
    findings = findings_of(case)
    for due in case.marks:
        found = any(answers(finding, due, case.program) for finding in findings)
        assert found, f"{due} is missing: {case.reason}\n{describe(findings)}"
    for finding in findings:
        expected = any(
            finding.code == due.code
            and any(finding.line <= line <= finding.end_line for line in due.lines(case.program))
            for due in case.marks
        )
        assert expected, f"stands elsewhere: {describe([finding])}"


@each_case
def test_the_case_is_well_formed(case: Case) -> None:
    ast.parse(case.program)
    assert case.reason
    for due in case.marks:
        assert due.code in codes()
        for place in due.places:
            assert case.program.count(place) == 1, place
    assert codes_of(case.flagged).isdisjoint(codes_of(case.noted))
    assert case.allowed.isdisjoint(codes_of(case.marks))


@each_case
def test_the_program_can_be_imported(case: Case) -> None:
    for module in ("mlx.core", *case.needs):
        if find_spec(module.partition(".")[0]) is None:
            pytest.skip(f"needs {module}")
    exec(compile(case.program, case.name, "exec"), {"__name__": "guide"})


def test_names_of_cases_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("guide", ["000", "001", "002", "003", "004", "v"])
def test_every_guide_has_broken_and_right_cases(guide: str) -> None:
    of_guide = [case for case in CASES if case.name.split()[0] == guide]
    broken = [case for case in of_guide if case.flagged or "advice" in case.name]
    right = [case for case in of_guide if not case.flagged and "advice" not in case.name]
    assert broken
    assert right or guide == "004"  # of its two Python programs, both are broken
