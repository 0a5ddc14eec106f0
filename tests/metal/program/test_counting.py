"""How often loops turn, against loops that turn."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach.metal.program.lowering import lower_body
from embercoach.metal.program.nodes import Loop
from embercoach.metal.program.walk import Counter, below, counter_of, known_values

COMPARED = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "!=": operator.ne,
}
CHANGED = {
    "+=": operator.add,
    "-=": operator.sub,
    "*=": operator.mul,
    "/=": operator.floordiv,
    ">>=": operator.rshift,
}
MANY = 200


def counter(loop: str) -> Counter | None:
    program = lower_body(f"{loop} {{ y[0] = k; }}")
    assert program.body is not None
    found = next(node for node in below(program.body) if isinstance(node, Loop))
    return counter_of(found, known_values(program, {}))


@given(
    start=st.integers(0, 100),
    end=st.integers(0, 100),
    compared=st.sampled_from(sorted(COMPARED)),
    changed=st.sampled_from(sorted(CHANGED)),
    by=st.integers(1, 9),
)
def test_turns_are_those_of_the_loop(
    start: int, end: int, compared: str, changed: str, by: int
) -> None:
    found = counter(f"for (int k = {start}; k {compared} {end}; k {changed} {by})")
    assert found is not None
    turns, value = 0, start
    while COMPARED[compared](value, end) and turns < MANY:
        value = CHANGED[changed](value, by)
        turns += 1
    # A loop whose turns are not known is no matter; a wrong number is.
    assert found.trips in (None, turns)


@pytest.mark.parametrize(
    ("loop", "turns"),
    [
        ("for (uint k = 128; k > 0; k >>= 1)", 8),
        ("for (uint k = 1; 64 > k; k *= 2)", 6),
        ("for (int k = 0; k != 7; k += 2)", None),
    ],
)
def test_turns(loop: str, turns: int | None) -> None:
    found = counter(loop)
    assert found is not None
    assert found.trips == turns


@pytest.mark.parametrize(
    "loop",
    ["while (k < 3)", "for (;;)", "for (int k = 0; k < 9;)", "for (int k = 0, j = 1; k < 9; ++k)"],
)
def test_other_loops_have_no_counter(loop: str) -> None:
    assert counter(loop) is None


def test_a_counter_that_the_body_changes_is_none() -> None:
    program = lower_body("for (int k = 0; k < 9; ++k) { k += 1; }")
    assert program.body is not None
    loop = next(node for node in below(program.body) if isinstance(node, Loop))
    assert counter_of(loop, {}) is None
