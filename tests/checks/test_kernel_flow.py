"""KERNEL-BARRIER, -RACE, -SIMD and -BOUNDS: what threads of a kernel do to each other.

The guilty line of a body carries a comment, ``// <- RACE-001``; a body without one is right.
"""

from __future__ import annotations

import pytest

from tests.checks.findings import findings
from tests.checks.flow import arrays, barriers, flags, outputs, races
from tests.checks.flow.kernel import Kernel, marked

FAMILIES = ("KERNEL-BARRIER", "KERNEL-RACE", "KERNEL-SIMD", "KERNEL-BOUNDS")
TOPICS = (barriers, flags, races, outputs, arrays)


def found(program: str) -> list[tuple[int, str]]:
    reported = [f for family in FAMILIES for f in findings(program, family)]
    return sorted((finding.line, finding.code) for finding in reported)


@pytest.mark.parametrize(
    "kernel", [k for topic in TOPICS for k in topic.WRONG], ids=lambda kernel: kernel.name
)
def test_what_is_wrong_is_told_at_its_line(kernel: Kernel) -> None:
    program = kernel.written_out()
    assert marked(program)
    assert found(program) == marked(program)


@pytest.mark.parametrize(
    "kernel", [k for topic in TOPICS for k in topic.RIGHT], ids=lambda kernel: kernel.name
)
def test_what_may_be_right_is_silent(kernel: Kernel) -> None:
    program = kernel.written_out()
    assert not marked(program)
    assert found(program) == []
