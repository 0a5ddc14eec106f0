"""Whatever the text, lowering gives a program, and its places lie in the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from embercoach.metal.program import lowering, nodes
from embercoach.metal.program.lowering import lower_body, lower_unit
from embercoach.metal.tokens import tokens_of
from tests.metal.program.rendering import NAMES
from tests.metal.program.test_lowering import HEADER

BODY = """
    #define SUM(a, b) ((a) + (b))
    #if N > 2
    threadgroup float shared[N * 32];
    #else
    threadgroup float shared[32];
    #endif
    uint lid = thread_position_in_threadgroup.x;
    float acc = 0.0f;
    for (uint i = lid; i < x_shape[0]; i += threads_per_threadgroup.x) {
        acc = SUM(acc, static_cast<float>(x[i]) * (half)y[i % 4]);
    }
    auto scale = [&](float v) { return v < s && acc > (v) ? v : -v; };
    shared[lid] = scale(acc);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    switch (lid) { case 0: out[0] = shared[0]; break; default: { Item item = {1, {2, 3}}; } }
    do { acc -= float4(acc, 1, 2, 3).wzyx.x; } while (--lid > 0u);
"""
TOKENS = [token.text for text in (BODY, HEADER) for token in tokens_of(text)]
FEW = settings(
    max_examples=settings().max_examples // 7, suppress_health_check=[HealthCheck.too_slow]
)


def _spots(node: object, seen: set[int]) -> Iterator[nodes.Spot]:
    if isinstance(node, nodes.Spot):
        yield node
    elif isinstance(node, list | tuple):
        for part in node:
            yield from _spots(part, seen)
    elif isinstance(node, dict):
        yield from _spots(list(node.values()), seen)
    elif isinstance(node, Struct) and id(node) not in seen:
        seen.add(id(node))
        for name in node.__struct_fields__:
            yield from _spots(getattr(node, name), seen)


def _check(program: nodes.Program, texts: dict[str, str]) -> None:
    for spot in _spots(program, set()):
        text, place = texts[spot.text], spot.place
        assert 0 <= place.start <= place.end <= len(text)
        before = text[: place.start]
        assert place.line == before.count("\n") + 1
        assert place.column == place.start - (before.rfind("\n") + 1) + 1


def _lower(source: str, header: str) -> None:
    _check(lower_body(source, header, NAMES), {"body": source, "header": header})
    _check(lower_unit(source), {"file": source})


@FEW
@given(st.lists(st.sampled_from(TOKENS), max_size=60), st.booleans())
def test_token_soup(tokens: list[str], with_header: bool) -> None:
    _lower("".join(tokens), HEADER if with_header else "")


@FEW
@given(
    st.sampled_from([BODY, HEADER]),
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 3), st.sampled_from(TOKENS)),
        min_size=1,
        max_size=4,
    ),
)
def test_mutated_kernels(text: str, edits: list[tuple[int, int, str]]) -> None:
    tokens = [token.text for token in tokens_of(text)]
    for at, dropped, added in edits:
        tokens[at : at + dropped] = [added]
    _lower("".join(tokens), HEADER)
    _lower(BODY, "".join(tokens))


def test_misread_functions_are_mended_together(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[int] = []
    made = lowering.Parsed

    def parsed(*given: Any) -> lowering.Parsed:
        readings.append(1)
        return made(*given)

    monkeypatch.setattr(lowering, "Parsed", parsed)
    function = "bool f{0}(int a, int b, int c) {{ bool r = a<b> (c); return r; }}\n"
    program = lower_unit("".join(function.format(n) for n in range(9)))
    assert not program.problems
    assert len(program.functions) == 9
    assert len(readings) == 2
