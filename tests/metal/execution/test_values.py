"""Values of threads against the same arithmetic done in Python, and how they differ."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from embercoach.metal.execution.events import Access, Configuration, Synchronization
from embercoach.metal.execution.follow import follow
from embercoach.metal.program.lowering import lower_unit
from tests.metal.execution.launching import trace_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.metal.execution.events import Trace

_THREADS = 40
_WORD = 1 << 32


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression of type uint: its text, and its value for a thread."""

    text: str
    value: Callable[[int], int]


def _both(sign: str, function: Callable[[int, int], int]) -> Callable[[Formula, Formula], Formula]:
    def made(left: Formula, right: Formula) -> Formula:
        return Formula(
            f"({left.text} {sign} {right.text})",
            lambda t: function(left.value(t), right.value(t)) % _WORD,
        )

    return made


def _called(name: str, function: Callable[[int, int], int]) -> Callable[..., Formula]:
    def made(left: Formula, right: Formula) -> Formula:
        return Formula(
            f"{name}({left.text}, {right.text})", lambda t: function(left.value(t), right.value(t))
        )

    return made


def _chosen(condition: Formula, then: Formula, otherwise: Formula) -> Formula:
    return Formula(
        f"({condition.text} < {then.text} ? {then.text} : {otherwise.text})",
        lambda t: (then if condition.value(t) < then.value(t) else otherwise).value(t),
    )


_OPERATIONS = [
    _both("+", operator.add),
    _both("-", operator.sub),
    _both("*", operator.mul),
    _both("&", operator.and_),
    _both("|", operator.or_),
    _both("^", operator.xor),
    _called("min", min),
    _called("max", max),
]


def _with_constant(operand: Formula, by: int, sign: str) -> Formula:
    function = {
        "/": operator.floordiv,
        "%": operator.mod,
        "<<": operator.lshift,
        ">>": operator.rshift,
    }[sign]
    return Formula(
        f"({operand.text} {sign} {by}u)", lambda t: function(operand.value(t), by) % _WORD
    )


_LEAVES = st.one_of(
    st.just(Formula("lid", lambda t: t)),
    st.just(Formula("lane", lambda t: t % 32)),
    st.just(Formula("group", lambda t: t // 32)),
    st.integers(0, 70).map(lambda n: Formula(f"{n}u", lambda t: n)),
)
formulas = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda made, a, b: made(a, b), st.sampled_from(_OPERATIONS), inner, inner),
        st.builds(
            _with_constant, inner, st.integers(1, 9), st.sampled_from(["/", "%", "<<", ">>"])
        ),
        st.builds(_chosen, inner, inner, inner),
    ),
    max_leaves=8,
)

_NAMES = (
    "uint lid = thread_index_in_threadgroup; uint lane = thread_index_in_simdgroup;"
    "uint group = simdgroup_index_in_threadgroup;"
)


@given(formula=formulas)
def test_known_numbers_are_those_that_threads_compute(formula: Formula) -> None:
    trace = trace_of(f"{_NAMES} y[{formula.text}] = 0;", (_THREADS, 1, 1))
    (store,) = [e for e in trace.events if isinstance(e, Access)]
    assert store.index.exact
    found = [store.index.offset(thread) for thread in range(_THREADS)]
    assert found == [formula.value(thread) for thread in range(_THREADS)]


@settings(max_examples=80)
@given(formula=formulas, bound=st.integers(0, 70))
def test_known_conditions_split_the_threads(formula: Formula, bound: int) -> None:
    text = f"{_NAMES} if ({formula.text} > {bound}u) {{ y[lid] = 1; }} else {{ z[lid] = 1; }}"
    trace = trace_of(text, (_THREADS, 1, 1))
    lanes = {"y": 0, "z": 0}
    for event in trace.events:
        if isinstance(event, Access):
            assert event.mask.conditions == ()
            lanes[event.variable.name] = event.mask.lanes
    above = sum(1 << t for t in range(_THREADS) if formula.value(t) > bound)
    assert lanes == {"y": above, "z": trace.everyone & ~above}


def _last_store(trace: Trace) -> Access:
    return [e for e in trace.events if isinstance(e, Access) and e.kind == "write"][-1]


@pytest.mark.parametrize(
    ("value", "reach"),
    [
        ("n", "grid"),
        ("x[group]", "simdgroup"),
        ("simd_sum(x[lid])", "simdgroup"),
        ("simd_sum(x[lane])", "grid"),
        ("simd_broadcast(x[lid], 3)", "simdgroup"),
        ("simd_max(n)", "grid"),
        ("x[lane]", "thread"),
        ("x[lid]", "thread"),
        ("lid / 32", "simdgroup"),
        ("x[lid] > 0 ? 1 : 2", "thread"),
        ("n > 0 ? 1 : 2", "grid"),
        ("simd_shuffle_xor(x[lid], 1)", "thread"),
    ],
)
def test_reach(value: str, reach: str) -> None:
    trace = trace_of(f"{_NAMES} y[lid] = {value};", (64, 1, 1), (4, 1, 1))
    stored = _last_store(trace).value
    assert stored is not None
    assert stored.reach == reach


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("int k = 0; do { k += 4; if (k > 9) break; } while (true); y[k] = 0;", 12),
        ("int k = 0; for (int j = 0; j < 8; ++j) { if (j % 2) continue; k++; } y[k] = 0;", 4),
        (
            "int k; switch (W) { case 1: k = 5; break; case 4: k = 6; default: k += 2; } y[k] = 0;",
            8,
        ),
        ("int2 v = int2(3, 4); v.x += 2; y[v.x * v.y] = 0;", 20),
        ("Pair p = {1, 2}; p.b = 7; y[p.a + p.b] = 0;", 8),
        ("y[twice(W) + 1] = 0;", 9),
        ("int k = 2; bump(k); bump(k); y[k] = 0;", 12),
        ("y[first<3>()] = 0;", 30),
        ("auto more = [&](int k) { return k + W; }; y[more(2)] = 0;", 6),
    ],
)
def test_where_a_kernel_stores(text: str, index: int) -> None:
    header = """
    struct Pair { int a; int b; };
    inline int twice(int k) { if (k > 3) return 2 * k; return 0; }
    inline void bump(thread int& k) { k += 5; }
    template <int N> inline int first() { return 10 * N; }
    inline void put(device float* to, int at) { to[at] = 1; }
    """
    trace = trace_of(text, (4, 1, 1), header=header, template={"W": 4})
    assert trace.lost == ()
    assert _last_store(trace).index.constant == index


def test_a_whole_file_is_followed_from_an_entry_point() -> None:
    program = lower_unit(
        """
        kernel void sum(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                        constant uint& n [[buffer(2)]],
                        threadgroup float* shared [[threadgroup(0)]],
                        uint lid [[thread_index_in_threadgroup]],
                        uint3 group [[threadgroup_position_in_grid]]) {
          shared[lid] = lid < n ? x[group.x * n + lid] : 0;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (lid == 0) y[group.x] = shared[1];
        }
        """
    )
    (entry,) = program.functions["sum"]
    launch = Configuration((64, 1, 1), frozenset({0}), (None, 1, 1), {})
    trace = follow(replace(program, body=entry.bodies[0]), launch)
    assert trace.lost == ()
    memories = [(e.kind, e.memory) for e in trace.events if isinstance(e, Access)]
    assert memories[-2:] == [("read", "threadgroup"), ("write", "device")]
    assert memories[-3] == ("write", "threadgroup")
    assert sum(isinstance(e, Synchronization) for e in trace.events) == 1


def test_a_kernel_that_is_too_long_is_lost_not_wrong() -> None:
    nested = "for (int {0} = 0; {0} < 1000; ++{0}) {{ {1} }}"
    body = "y[0] += 1;"
    for name in "abcdefg":
        body = nested.format(name, body)
    trace = trace_of(body + "threadgroup_barrier(mem_flags::mem_none);", (256, 1, 1))
    assert len(trace.events) < 25_000


@pytest.mark.parametrize(
    "text", ["goto end; end: y[0] = 1;", "unheard_of(y); y[0] = 1;", "y[0] = deeper(3);"]
)
def test_what_is_not_followed_is_told(text: str) -> None:
    header = "inline int deeper(int k) { return k > 0 ? deeper(k - 1) : 0; }"
    trace = trace_of(text, (4, 1, 1), header=header)
    assert trace.lost
    assert not any(isinstance(e, Access) for e in trace.events)
