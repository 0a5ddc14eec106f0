"""The checks against the simulator: what both say about each kernel of the suite.

The simulator runs a kernel with its data; a check only reads it. So a check may miss a bug, for a
reason that ``beyond`` names, but neither of them may say what the other one disproves.
"""

from __future__ import annotations

import pytest

from tests.simulator.beyond import BEYOND
from tests.simulator.static_verdict import verdicts
from tests.simulator.suite import notes
from tests.simulator.suite.case import Case
from tests.simulator.suite_cases import BUGS, CLEAN

#: What a check calls what the simulator finds.
ANSWERS = {
    "threadgroup-race": {"KERNEL-RACE-001", "KERNEL-BARRIER-002"},
    "device-race": {"KERNEL-RACE-002", "KERNEL-BARRIER-002", "KERNEL-BARRIER-003"},
    "divergent-barrier": {"KERNEL-BARRIER-001"},
    "wrong-mem-flags": {"KERNEL-BARRIER-002"},
    "out-of-bounds": {"KERNEL-BOUNDS-001", "KERNEL-GRID-004", "KERNEL-INDEX-001"},
    "write-to-input": {"KERNEL-WRITE-001"},
    "unwritten-output": {"KERNEL-INIT-001", "KERNEL-GRID-001"},
    "uninitialized-read": {"KERNEL-INIT-001", "KERNEL-CONST-001", "KERNEL-SIMD-002"},
    "divergent-simd": {"KERNEL-SIMD-002"},
    "timeout": {"KERNEL-INDEX-001"},
    "crash": {"KERNEL-MSL-001"},
}

#: Bugs that a check tells of at their cause, where the simulator stands at the effect.
AT_THE_CAUSE = {
    "barrier_taken_for_a_barrier_of_the_grid": "the barrier, not the accesses around it",
    "helper_clamps_its_argument": "the cast, not the store that it lets through",
    "unsigned_index_wraps": "the subtraction, not the access",
}


def _name(case: Case) -> str:
    return case.name


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", [*CLEAN, *notes.NOTES], ids=_name)
def test_what_runs_clean_has_no_static_finding(case: Case) -> None:
    assert verdicts(case) == ()


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", [c for c in BUGS if c.name not in BEYOND], ids=_name)
def test_static_and_dynamic_finding_are_one(case: Case) -> None:
    found = verdicts(case)
    kinds = {kind for mark in case.marks for kind in mark.kinds}
    answers = {code for kind in kinds | case.also for code in ANSWERS.get(kind, ())}
    assert {verdict.code for verdict in found} <= answers
    if case.name not in AT_THE_CAUSE:
        reported = {code for kind in kinds for code in ANSWERS.get(kind, ())}
        places = {(mark.part, mark.line) for mark in case.marks}
        assert any(v.code in reported and (v.part, v.line) in places for v in found)
    assert found


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", [c for c in BUGS if c.name in BEYOND], ids=_name)
def test_what_is_beyond_a_check_still_is(case: Case) -> None:
    assert verdicts(case) == (), "found: take it out of BEYOND"
