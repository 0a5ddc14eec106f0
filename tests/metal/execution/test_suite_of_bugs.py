"""The static findings against the simulator's suite: each bug is found or known to be missed."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

from tests.metal.execution.launching import traced
from tests.metal.execution.telling import told
from tests.simulator import suite
from tests.simulator.suite.case import NOTES, Case

# The judge of the suite needs MLX; its cases do not.
MODULES = [
    import_module(f"{suite.__name__}.{found.name}")
    for found in iter_modules(suite.__path__)
    if found.name != "judgement"
]
BUGS = [case for module in MODULES for case in getattr(module, "BUGS", ())]
CLEAN = [case for module in MODULES for case in getattr(module, "CLEAN", ())]
BENIGN = [
    case for module in MODULES for case in getattr(module, "NOTES", ()) if isinstance(case, Case)
]

#: What these analyses look for.
KINDS = frozenset({"threadgroup-race", "device-race", "divergent-barrier", "wrong-mem-flags"})

#: Bugs of these kinds that following a kernel cannot show, and why.
MISSED = {
    # Atomics and fences order memory in ways that are not followed.
    "fence_without_barrier_before": "fences",
    "no_fence_before_the_ticket": "fences",
    "no_fence_after_the_ticket": "fences",
    "relaxed_fence": "fences",
    "fence_of_threadgroup_scope": "fences",
    "fence_of_threadgroup_memory": "fences",
    "write_after_the_ticket": "fences",
    "ticket_ignored": "fences",
    "flag_without_fence_before": "fences",
    "bins_cleared_by_the_first_group": "which bin is counted depends on data",
    "bins_cleared_plainly_beside_the_counting": "which bin is counted depends on data",
    "scatter_add_in_a_helper": "where is added depends on data",
    "scatter_with_a_doubled_target": "where is stored depends on data",
    "no_barrier_in_the_last_iteration": "a barrier on one of two paths counts for both",
    "only_the_short_group_takes_the_shortcut": "whole threadgroups are followed",
    "words_and_halves_of_words": "elements smaller than the array's have no index",
}

#: Clean kernels with something in them that is not followed, and what.
NOT_FOLLOWED = {"structs_functors_and_constexpr_branches": "an object that is called"}

MARKED = [
    (case, kinds)
    for case in BUGS
    for kinds in dict.fromkeys(mark.kinds for mark in case.marks)
    if kinds & KINDS
]


@pytest.mark.parametrize(
    ("case", "kinds"), MARKED, ids=[f"{case.name}-{'|'.join(k)}" for case, k in MARKED]
)
def test_bug_is_told_at_its_line(
    case: Case, kinds: frozenset[str], request: pytest.FixtureRequest
) -> None:
    if case.name in MISSED:
        request.applymarker(pytest.mark.xfail(reason=MISSED[case.name]))
    places = {(mark.part, mark.line) for mark in case.marks if mark.kinds == kinds}
    found = told(traced(case))
    assert any(kind in kinds and (part, line) in places for kind, part, line in found)


@pytest.mark.parametrize("case", BUGS, ids=lambda case: case.name)
def test_nothing_else_is_told_of_a_bug(case: Case) -> None:
    marked = {(kind, mark.part, mark.line) for mark in case.marks for kind in mark.kinds}
    beside = told(traced(case)) - marked
    assert {found for found in beside if found[0] not in case.also} == set()


@pytest.mark.parametrize("case", [*CLEAN, *BENIGN], ids=lambda case: case.name)
def test_clean_kernel_is_silent_and_followed_to_its_end(case: Case) -> None:
    trace = traced(case)
    assert told(trace) == set()
    assert bool(trace.lost) == (case.name in NOT_FOLLOWED)


def test_suite_is_the_one_that_is_known() -> None:
    assert all(not mark.kinds <= NOTES for case in BUGS for mark in case.marks)
    assert set(MISSED) <= {case.name for case, _ in MARKED}
    assert len(MISSED) <= 0.2 * len(MARKED)
    assert len(CLEAN) >= 100
