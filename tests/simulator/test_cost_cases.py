"""The notes on costs, on kernels that were written before the notes were seen."""

from __future__ import annotations

import pytest

from tests.simulator.cost_cases import CLEAN, FAULTS
from tests.simulator.suite.case import Case
from tests.simulator.suite.judgement import complaints, run

#: Faults that are not noted, and why.
MISSED = {
    "polynomials_of_pairs": "float4 takes twice as long to load as float2: no gain is predicted",
    "filter_of_single_halves": "the cache's bandwidth bounds the time: wider accesses move as much",
    "records_written_field_by_field": "a thread's writes count as vectors, which fill whole lines",
}

#: Clean kernels with a note, and why.
NOTED: dict[str, str] = {}


def _name(case: Case) -> str:
    return case.name


def _known(request: pytest.FixtureRequest, reason: str | None) -> None:
    if reason:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.mark.parametrize("case", FAULTS, ids=_name)
@pytest.mark.sampled(8)
def test_cost_fault_is_noted_at_its_line(case: Case, request: pytest.FixtureRequest) -> None:
    _known(request, MISSED.get(case.name))
    outcome = run(case, profile=True)
    assert complaints(case, outcome) == []
    kinds = {kind for mark in case.marks for kind in mark.kinds} | case.also
    assert {note.kind for note in outcome.notes} <= kinds


@pytest.mark.parametrize("case", CLEAN, ids=_name)
@pytest.mark.sampled(8)
def test_kernel_without_a_cost_fault_has_no_note(
    case: Case, request: pytest.FixtureRequest
) -> None:
    _known(request, NOTED.get(case.name))
    outcome = run(case, profile=True)
    assert complaints(case, outcome) == []
    assert outcome.notes == ()


@pytest.mark.parametrize("case", [*FAULTS, *CLEAN], ids=_name)
@pytest.mark.sampled(0)
def test_case_is_correct(case: Case) -> None:
    outcome = run(case)
    assert (outcome.findings, outcome.notes) == ((), ())
