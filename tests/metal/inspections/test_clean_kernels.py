"""Clean kernels of the simulator's suite are followed to their end, and have no findings."""

from __future__ import annotations

import pytest

from tests.metal.execution.launching import traced
from tests.metal.inspections.trace_findings import reported
from tests.simulator.suite import notes
from tests.simulator.suite.case import Case
from tests.simulator.suite_cases import CLEAN

#: Clean kernels with something in them that is not followed, and what.
NOT_FOLLOWED = {"structs_functors_and_constexpr_branches": "a call of a functor"}


@pytest.mark.parametrize("case", [*CLEAN, *notes.NOTES], ids=lambda case: case.name)
def test_clean_kernel_is_silent_and_followed_to_its_end(case: Case) -> None:
    trace = traced(case)
    assert reported(trace) == set()
    assert bool(trace.lost) == (case.name in NOT_FOLLOWED)
