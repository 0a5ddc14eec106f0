"""A suite of kernels with injected bugs, and of clean ones that use the hard idioms."""

from __future__ import annotations

import pytest

from embercoach.simulator import CODE_OF_KIND
from tests.simulator.suite import notes
from tests.simulator.suite.case import NOTES, Case
from tests.simulator.suite.judgement import complaints, is_bug, run
from tests.simulator.suite_cases import BUGS, CLEAN

CASES = [*BUGS, *notes.NOTES, *CLEAN]

#: Kinds of what is found before a kernel runs.
COMPILING = {"does-not-compile", "variant-does-not-compile"}


def _name(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", BUGS, ids=_name)
@pytest.mark.sampled(24)
def test_bug_is_found_at_its_line(case: Case) -> None:
    assert complaints(case, run(case)) == []


@pytest.mark.parametrize("case", notes.NOTES, ids=_name)
@pytest.mark.sampled(2)
def test_benign_class_is_noted(case: Case) -> None:
    assert complaints(case, run(case)) == []


@pytest.mark.parametrize("case", CLEAN, ids=_name)
@pytest.mark.sampled(24)
def test_clean_kernel_is_right_and_silent(case: Case) -> None:
    assert case.expected is not None
    outcome = run(case)
    assert complaints(case, outcome) == []
    assert outcome.notes == ()


def test_suite_is_what_it_claims() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert all(is_bug(case) for case in BUGS)
    assert not any(case.marks for case in CLEAN)
    marked = {kind for case in CASES for mark in case.marks for kind in mark.kinds}
    assert marked == set(CODE_OF_KIND) - COMPILING
    assert all(case.marks and not is_bug(case) for case in notes.NOTES)
    assert {kind for case in notes.NOTES for mark in case.marks for kind in mark.kinds} == NOTES
