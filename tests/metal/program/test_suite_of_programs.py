"""What is read off the programs of the simulator's suite, without following them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.checks.kernels.kernel_index import settled_comparisons, wrapped_indices
from embercoach.checks.kernels.kernel_memory import threadgroup_arrays
from embercoach.checks.kernels.kernel_precision import half_sums, promotions
from embercoach.checks.kernels.kernel_writes import input_writes
from embercoach.metal.program.walk import known_values
from embercoach.metal.program.written_facts import read_body, read_unit
from tests.metal.execution.launching import program_of
from tests.simulator.suite_cases import BUGS, CLEAN

if TYPE_CHECKING:
    from tests.simulator.suite.case import Case

#: Bugs that show without a run, with the lines to be told.
SHOWN = {
    "left_neighbour_of_the_first": "x[i - 1]",
    "left_of_its_own_output": "y[i - 1 - k]",
    "unsigned_index_wraps": "before >= 0",
    "unsigned_countdown": "k >= 0",
    "helper_clamps_its_argument": "clamp_in_place",
    "relu_in_place": "p[i] = 0",
    "counts_into_an_input": "atomic_fetch_add_explicit",
    "writes_through_a_vector_view_of_an_input": "pairs[i] = p.yx",
}


def read(case: Case) -> list[str]:
    """The lines of the body in which something is found."""
    program = program_of(case)
    values = known_values(program, dict(case.template))
    header = read_unit(case.header)
    body = read_body(case.source, header)
    spots = [write.spot for write in input_writes(program)]
    spots += [found.spot for found in half_sums(program, values)]
    spots += [found.spot for found in promotions(program)]
    spots += [found.spot for found in settled_comparisons(program, values)]
    spots += [found.spot for found in wrapped_indices(program, values)]
    places = [spot.place for spot in spots]
    places += [found.place for found in (*body.foreign, *header.foreign)]
    places += [found.place for found in body.size_names if not found.free]
    assert sum(threadgroup_arrays(program).values()) <= 32_768
    lines = case.source.split("\n")
    return [lines[place.line - 1] for place in places]


@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.name)
def test_clean_kernels_are_clean(case: Case) -> None:
    assert read(case) == []


@pytest.mark.parametrize("case", BUGS, ids=lambda case: case.name)
def test_bugs_show_or_do_not(case: Case) -> None:
    found = read(case)
    if case.name in SHOWN:
        assert len(found) == 1
        assert SHOWN[case.name] in found[0]
    else:
        assert found == []


def test_every_write_to_an_input_shows() -> None:
    writes = {
        case.name for case in BUGS if any("write-to-input" in mark.kinds for mark in case.marks)
    }
    assert writes <= SHOWN.keys()
