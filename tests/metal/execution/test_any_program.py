"""Whatever the text and the launch, following it ends, raises nothing and gives the same again."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embercoach.checks.kernels.kernel_fill import unfilled
from embercoach.metal.execution.events import Configuration
from embercoach.metal.execution.follow import follow
from tests.metal.execution.launching import configuration_of, program_of
from tests.metal.inspections.trace_findings import reported
from tests.simulator.suite.case import Case
from tests.simulator.suite_cases import BUGS, CLEAN

_WORD = re.compile(r"\w+|[^\w\s]")
_SPLICES = [
    "0",
    "-1",
    "lid",
    "x",
    "&",
    "*",
    "[0]",
    "0.5f",
    "/ 0",
    "% 0",
    "<< 99",
    "return;",
    "{",
    "}",
]

edits = st.lists(
    st.tuples(
        st.sampled_from(["drop", "double", "swap", "splice"]),
        st.integers(0, 10_000),
        st.sampled_from(_SPLICES),
    ),
    max_size=4,
)
sizes = st.sampled_from([(1, 1, 1), (33, 1, 1), (64, 1, 1), (8, 8, 2), (256, 1, 1), (3, 7, 5)])
counts = st.sampled_from([None, 1, 2, 7])


def _edited(text: str, changes: list[tuple[str, int, str]]) -> str:
    for kind, number, splice in changes:
        words = list(_WORD.finditer(text))
        if not words:
            return text
        word = words[number % len(words)]
        other = words[(number * 7 + 3) % len(words)].group()
        made = {
            "drop": "",
            "double": f"{word.group()} {word.group()}",
            "swap": other,
            "splice": f"{word.group()} {splice}",
        }[kind]
        text = text[: word.start()] + made + text[word.end() :]
    return text


@settings(max_examples=settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(
    case=st.sampled_from([*BUGS, *CLEAN]),
    changes=edits,
    size=st.one_of(st.none(), sizes),
    groups=st.tuples(counts, counts, counts),
    known=st.booleans(),
)
def test_following_never_raises(
    case: Case,
    changes: list[tuple[str, int, str]],
    size: tuple[int, int, int] | None,
    groups: tuple[int | None, int | None, int | None],
    known: bool,
) -> None:
    changed = replace(case, source=_edited(case.source, changes))
    program = program_of(changed)
    configuration = configuration_of(case)
    if size is not None:
        configuration = Configuration(
            threadgroup=size,
            assumed=frozenset({0}),
            groups=groups,
            template=configuration.template if known else {},
            inputs=configuration.inputs if known else (),
        )
    trace = follow(program, configuration)
    found = reported(trace)
    list(unfilled(trace))
    assert reported(follow(program, configuration)) == found
