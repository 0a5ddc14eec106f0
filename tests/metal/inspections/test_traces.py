"""What the analyses say of single kernels, and what they leave out."""

from __future__ import annotations

import pytest

from embercoach.metal.execution.events import Access
from embercoach.metal.inspections.barriers import divergences
from embercoach.metal.inspections.bounds import outside
from embercoach.metal.inspections.crossings import crossings
from embercoach.metal.inspections.races import races, weak_simdgroup_barriers
from embercoach.metal.inspections.reductions import partial_reductions
from embercoach.metal.inspections.stores import overlaps, unfilled
from tests.metal.execution.launching import trace_of

_LID = "uint lid = thread_position_in_threadgroup.x; uint i = thread_position_in_grid.x;\n"
_TILE = _LID + "threadgroup float t[64];\n"
_BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);\n"


def test_a_race_names_both_sides_and_threads() -> None:
    (race,) = races(trace_of(_TILE + "t[lid] = x[lid];\ny[lid] = t[63 - lid];"))
    assert (race.first.kind, race.second.kind) == ("write", "read")
    assert [access.spot.place.line for access in (race.first, race.second)] == [3, 4]
    one, other = race.threads
    assert one + other == 63
    assert race.element == one
    assert race.variable.name == "t"
    assert race.barriers == ()
    assert not race.in_later_iteration
    assert race.words == "a write and a read"


def test_a_race_tells_the_barrier_that_lacks_the_flag() -> None:
    trace = trace_of(
        _TILE
        + "t[lid] = x[lid];\nthreadgroup_barrier(mem_flags::mem_device);\ny[lid] = t[63 - lid];"
    )
    (race,) = races(trace)
    assert [barrier.spot.place.line for barrier in race.barriers] == [4]
    assert race.barriers[0].flags == {"mem_device"}


def test_a_race_with_the_next_iteration_says_so() -> None:
    (race,) = races(
        trace_of(
            _TILE
            + "for (int k = 0; k < n; ++k) {\n t[lid] = x[k];\n"
            + _BARRIER
            + " y[lid] = t[63 - lid];\n}"
        )
    )
    assert race.in_later_iteration
    assert (race.first.kind, race.second.kind) == ("read", "write")


@pytest.mark.parametrize(
    "body",
    [
        "t[lid] = x[lid]; y[lid] = t[lid];",  # its own element
        "t[lid] = x[lid]; y[lid] = t[lid ^ 1];",  # within a SIMD group
        "t[0] = 1; y[lid] = 0;",  # all the same value
        "t[0] = n; y[lid] = 0;",
        "if (n > 3) t[lid] = x[lid]; else y[lid] = t[63 - lid];",  # never both
        "if (lid == n) t[0] = lid;",  # one thread at most
        "if (x[lid] == 3) t[0] = lid;",  # perhaps one thread only
        "t[int(x[lid])] = lid;",  # unknown elements
        "if (n > 2) { t[lid] = 1; } if (n < 2) { y[lid] = t[63 - lid]; }",
        "if (lid < n) t[lid] = x[lid]; if (lid >= n + 64) y[lid] = t[63 - lid];",
        "t[lid] = 0; " + _BARRIER + "y[lid] = t[63 - lid];",
        "t[lid] = 0; threadgroup_barrier(FLAGS); y[lid] = t[63 - lid];",  # unknown flags
    ],
)
def test_no_race(body: str) -> None:
    assert races(trace_of(_TILE + body)) == ()


@pytest.mark.parametrize(
    "body",
    [
        "t[0] = lid;",
        "t[0] = x[lid];",
        "t[0] = simd_sum(x[lid]);",  # one value for each SIMD group
        "t[lid / 2] = 0; t[lid] = 1;",
        "t[lid] = 0; if (x[lid] > 0) y[lid] = t[lid + 1 & 63];",
        "if (n > 3) { t[lid] = 0; y[lid] = t[63 - lid]; }",
        "t[lid] = 0; simdgroup_barrier(mem_flags::mem_threadgroup); y[lid] = t[63 - lid];",
        "threadgroup float* p = t + n; p[lid] = 0; y[lid] = p[63 - lid];",
        "auto& cell = t[n]; cell = lid;",
        "t[x[lid] > 0 ? 7 : lid] = lid;",  # the chosen index is the same for many
    ],
)
def test_race(body: str) -> None:
    assert races(trace_of(_TILE + body)) != ()


def test_a_single_simdgroup_has_no_race() -> None:
    assert races(trace_of(_TILE + "t[lid] = 0; y[lid] = t[31 - lid];", (32, 1, 1))) == ()


def test_barriers_of_a_simdgroup_must_order_what_lanes_hand_over() -> None:
    text = _TILE + "t[lid] = x[lid]; simdgroup_barrier(mem_flags::{}); y[lid] = t[lid ^ 1];"
    assert weak_simdgroup_barriers(trace_of(text.format("mem_threadgroup"))) == ()
    (race,) = weak_simdgroup_barriers(trace_of(text.format("mem_none")))
    assert race.barriers[0].name == "simdgroup_barrier"
    own = _TILE + "t[lid] = x[lid]; simdgroup_barrier(mem_flags::mem_none); y[lid] = t[lid];"
    assert weak_simdgroup_barriers(trace_of(own)) == ()


def test_a_barrier_that_threads_pass_by_for_certain() -> None:
    (found,) = divergences(trace_of(_TILE + "if (lid < 40) {\n" + _BARRIER + "}"))
    assert found.reason == "missing"
    assert found.missing == ((1 << 64) - 1) & ~((1 << 40) - 1)
    assert found.words == "thread 40 and 23 others"


def test_a_barrier_behind_a_bounds_check() -> None:
    trace = trace_of(_LID + "if (i >= n) return;\n" + _BARRIER, groups=(4, 1, 1))
    (found,) = divergences(trace)
    assert (found.reason, found.guard, found.axes) == ("condition", True, 1)
    assert found.condition is not None
    assert found.condition.operator == "<"


def test_a_barrier_under_data_is_no_guard() -> None:
    (found,) = divergences(trace_of(_LID + "if (x[i] > 0) {\n" + _BARRIER + "}"))
    assert (found.reason, found.guard) == ("condition", False)


def test_threads_that_returned_before_both_paths_met() -> None:
    body = "if (n > 4) { if (x[i] > 0) return; y[i] = 0; }\n"
    (found,) = divergences(trace_of(_LID + body + _BARRIER))
    assert found.reason == "returned"


@pytest.mark.parametrize(
    "body",
    [
        "if (n > 3) {{ {0} }}",
        "if (n > 3) return; {0}",
        "if (threadgroup_position_in_grid.x > n) return; {0}",
        "for (int k = 0; k < n; ++k) {{ {0} }}",
        "if (lid < 64) {{ {0} }}",
        "if (simd_all(x[i] > 0)) {{ y[i] = 0; }} {0}",
        "float s = x[0]; while (s > n) {{ {0} s /= 2; }}",
        "for (uint k = lid; k < 256; k += 64) {{ {0} }}",
        "switch (n) {{ case 1: {0} break; default: {0} }}",
    ],
)
def test_barriers_that_all_reach(body: str) -> None:
    assert divergences(trace_of(_LID + body.format(_BARRIER), groups=(4, 1, 1))) == ()


@pytest.mark.parametrize(
    "body",
    [
        "for (uint k = lid; k < 100; k += 64) {{ {0} }}",
        "for (int k = 0; k < x[i]; ++k) {{ {0} }}",
        "do {{ if (x[i] > 0) break; {0} }} while (n > 0);",
        "int k = x[i]; switch (k) {{ case 1: {0} break; }}",
        "if (simdgroup_index_in_threadgroup == 0) {{ {0} }}",
        "lid > 3 ? ({0}, 0) : 0;",
    ],
)
def test_barriers_that_some_pass_by(body: str) -> None:
    barrier = "threadgroup_barrier(mem_flags::mem_threadgroup)"
    text = body.format(barrier if "?" in body else _BARRIER)
    assert divergences(trace_of(_LID + text)) != ()


def test_a_simdgroup_barrier_counts_by_simdgroup() -> None:
    barrier = "simdgroup_barrier(mem_flags::mem_none);"
    whole = f"if (simdgroup_index_in_threadgroup == 1) {{ {barrier} }}"
    assert divergences(trace_of(_LID + whole)) == ()
    assert len(divergences(trace_of(_LID + f"if (lid < 40) {{ {barrier} }}"))) == 1


def test_threads_that_store_in_one_element() -> None:
    (found,) = overlaps(trace_of(_LID + "y[i / 4] = x[i];", groups=(4, 1, 1)))
    assert (found.threads, found.update) == ((0, 1), False)
    (found,) = overlaps(trace_of(_LID + "y[0] += 1;"))
    assert found.update


def test_threadgroups_that_store_the_same() -> None:
    (found,) = overlaps(trace_of(_LID + "y[lid] = x[i];", groups=(4, 1, 1)))
    assert (found.threads, found.axis, found.certain) == (None, 0, True)
    (found,) = overlaps(trace_of(_LID + "y[lid] = x[i];", groups=(None, 1, 1)))
    assert not found.certain


@pytest.mark.parametrize(
    "body",
    [
        "y[i] = x[i];",
        "y[0] = n;",
        "if (i == 0) y[0] = x[3];",
        "if (lid == 0) y[threadgroup_position_in_grid.x] = x[i];",
        "float s = simd_sum(x[i]); y[i / 32] = s;",
        "float s = x[i]; for (int d = 16; d > 0; d /= 2) s += simd_shuffle_xor(s, d); y[0] = s;",
        "y[uint(x[i])] = 1;",
        "y[lid] = x[lid];",  # the same values from every threadgroup
    ],
)
def test_stores_that_do_not_meet(body: str) -> None:
    trace = trace_of(_LID + body, (64, 1, 1), (4, 1, 1))
    assert overlaps(trace) == ()
    assert crossings(trace) == ()


def test_threadgroups_that_meet_behind_a_barrier() -> None:
    trace = trace_of(
        _LID
        + "if (lid == 0) y[threadgroup_position_in_grid.x] = x[i];\n"
        + "threadgroup_barrier(mem_flags::mem_device);\n"
        + "z[i] = y[0] + y[1];",
        groups=(4, 1, 1),
    )
    found = [crossing for crossing in crossings(trace) if crossing.second.kind == "read"]
    assert found
    assert all(c.barriers[0].spot.place.line == 3 and c.axis == 0 for c in found)


def test_neighbours_in_the_next_threadgroup() -> None:
    (found,) = crossings(trace_of(_LID + "y[i] = 0; z[i] = y[i + 1];", groups=(4, 1, 1)))
    assert abs(found.apart) == 1
    guarded = _LID + "y[i] = 0; if (lid < 63) z[i] = y[i + 1];"
    assert crossings(trace_of(guarded, groups=(4, 1, 1))) == ()


_GROUP = "uint g = threadgroup_position_in_grid.x;\n"
_DEVICE = "threadgroup_barrier(mem_flags::mem_device);\n"


@pytest.mark.parametrize(
    "body",
    [
        # The first group sums what all others stored.
        "if (lid == 0) y[g] = x[i];" + _DEVICE + "if (g == 0 && lid == 0)"
        " for (uint k = 0; k < threadgroups_per_grid.x; ++k) z[0] += y[k];",
        "if (lid == 0) y[g] = x[i];" + _DEVICE + "if (g == 3) z[lid] = y[0];",
        "if (g == 0) y[lid] = x[i];" + _DEVICE + "if (g == 1) z[lid] = y[lid];",
        "y[i] = x[i];" + _DEVICE + "z[i] = y[255 - i];",
        "y[i] = x[i];" + _DEVICE + "z[i] = y[max(int(i) - 1, 0)];",
        "y[i] = x[i];" + _DEVICE + "z[i] = y[min(i + 1, 255u)];",
        "y[i] = x[i];" + _DEVICE + "z[i] = y[clamp(int(i) - 1, 0, 255)];",
    ],
)
def test_a_barrier_that_other_threadgroups_do_not_see(body: str) -> None:
    trace = trace_of(_LID + _GROUP + body, groups=(4, 1, 1))
    found = [c for c in crossings(trace) if c.second.kind == "read" and c.variable.name == "y"]
    assert found
    assert all(crossing.barriers for crossing in found)


@pytest.mark.parametrize(
    "body",
    [
        "if (lid == 0) y[g] = x[i];" + _DEVICE + "z[i] = y[g];",
        "if (g == 0) y[lid] = x[i];" + _DEVICE + "if (g == 0) z[lid] = y[63 - lid];",
        "if (g == 0 && lid == 0) y[5] = x[i];" + _DEVICE + "if (g < 1) z[lid] = y[5];",
        "if (g == n) y[lid] = x[i];" + _DEVICE + "if (g == uint(x[0])) z[lid] = y[63 - lid];",
        "y[i] = x[i];" + _DEVICE + "z[i] = y[g * 64 + max(int(lid) - 1, 0)];",
        "y[i] = x[i];" + _DEVICE + "z[i] = y[g * 64 + 63 - lid];",
        "y[i] = x[i];" + _DEVICE + "z[i] = y[1024 + 255 - i];",
    ],
)
def test_scratch_of_one_threadgroup(body: str) -> None:
    trace = trace_of(_LID + _GROUP + body, groups=(4, 1, 1))
    assert [c for c in crossings(trace) if c.variable.name == "y"] == []


_SUM = _LID + "float s = simd_sum(x[i]);\n"


def test_a_simd_sum_taken_for_the_threadgroups() -> None:
    (found,) = partial_reductions(trace_of(_SUM + "if (lid == 0) y[0] = s;"))
    assert (found.call.name, found.kept, found.groups) == ("simd_sum", 1, 2)
    assert found.store.spot.place.line == 3


@pytest.mark.parametrize(
    "body",
    [
        "if (lid == 0) y[0] = s;",
        "float m = s / n; if (lid == 0) { y[0] = m; }",
        "s *= 2; if (thread_index_in_threadgroup < 1) y[threadgroup_position_in_grid.x] = s;",
    ],
)
def test_partial_reduction(body: str) -> None:
    assert len(partial_reductions(trace_of(_SUM + body, groups=(2, 1, 1)))) == 1
    assert partial_reductions(trace_of(_SUM + body, (32, 1, 1), (2, 1, 1))) == ()


@pytest.mark.parametrize(
    "body",
    [
        "if (thread_index_in_simdgroup == 0) y[i / 32] = s;",
        "y[i] = s;",
        "threadgroup float t[2]; if (lid % 32 == 0) t[lid / 32] = s;"
        + _BARRIER
        + "if (lid == 0) y[0] = t[0] + t[1];",
        "if (lid == 0) y[0] = s; if (lid == 32) y[1] = s;",
        "if (lid == 0) { y[0] = simd_sum(x[0]); }",
    ],
)
def test_reductions_that_are_kept(body: str) -> None:
    assert partial_reductions(trace_of(_SUM + body)) == ()


_PARTIALS = _SUM + "threadgroup float t[32];\n" + "if (lid % 32 == 0) t[lid / 32] = s;\n" + _BARRIER


@pytest.mark.parametrize(
    "body",
    [
        "float v = lid < 2 ? t[lid] : 0.0f; v = simd_sum(v); if (lid == 0) y[0] = v;",
        "float v = 0; if (lid < 2) v = t[lid]; v = simd_sum(v * 3); if (lid == 0) y[0] = v;",
        (
            "float v = 0; for (uint k = lid; k < simdgroups_per_threadgroup; k += 64) v += t[k];"
            "v = simd_sum(v); if (lid == 0) y[0] = v;"
        ),
        (
            "if (simdgroup_index_in_threadgroup == 0) { float v = simd_sum(t[lid]);"
            "if (lid == 0) y[0] = v; }"
        ),
    ],
)
def test_a_second_stage_is_whole(body: str) -> None:
    assert partial_reductions(trace_of(_PARTIALS + body)) == ()


def test_a_result_that_decides_is_used() -> None:
    body = "if (s > 3) z[i] = 1; if (lid == 0) y[0] = s;"
    assert partial_reductions(trace_of(_SUM + body)) == ()


def test_a_reduction_of_the_same_in_each_simdgroup_is_whole() -> None:
    body = (
        _LID + "threadgroup float t[32];\n"
        "float s = simd_sum(x[i]);\n"
        "if (lid < 32) t[lid] = 0;\n"
        + _BARRIER
        + "if (lid % 32 == 0) t[lid / 32] = s;\n"
        + _BARRIER
        + "s = simd_sum(t[thread_index_in_simdgroup]);\n"
        "if (lid == 0) y[0] = s;"
    )
    assert partial_reductions(trace_of(body)) == ()


def test_an_index_outside_of_its_array() -> None:
    (found,) = outside(trace_of(_TILE + "t[lid + 1] = 0;"))
    assert (found.thread, found.index, found.count) == (63, 64, 64)
    (found,) = outside(trace_of(_LID + "float a[4]; for (int k = 0; k <= 4; ++k) a[k] = 0;"))
    assert (found.index, found.count) == (4, 4)


@pytest.mark.parametrize(
    "body",
    [
        "t[lid] = 0;",
        "if (lid < 63) t[lid + 1] = 0;",
        "if (n > 5) t[64] = 0;",
        "t[n + 64] = 0;",
        "for (int k = 0; k < n; ++k) t[63 + k] = 0;",
        "y[lid] = lid < 60 ? t[lid + 4] : 0;",
    ],
)
def test_indices_that_may_be_inside(body: str) -> None:
    assert outside(trace_of(_TILE + body)) == ()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y[i] = 0;", None),
        ("if (i < n) y[i] = 0;", None),
        ("if (x[i] > 0) y[i] = 1; else y[i] = 2;", None),
        ("if (x[i] > 0) y[i] = 1;", "condition"),
        ("if (x[i] > 0) { y[i] = 1; } z[i] = 0;", "condition"),
        ("z[i] = 0;", "never"),
        (
            "atomic_fetch_add_explicit((device atomic_float*)y, 1.0f, memory_order_relaxed);",
            "atomic",
        ),
    ],
)
def test_outputs_that_are_not_filled(body: str, reason: str | None) -> None:
    from embercoach.metal.contract import Output
    from embercoach.metal.program.lowering import SignatureNames, lower_body

    trace = trace_of(_LID + body)
    y = next(
        (e.variable for e in trace.events if isinstance(e, Access) and e.variable.name == "y"),
        None,
    )
    if y is None:
        names = SignatureNames(outputs=(Output("y"),))
        y = lower_body("y[0] = 0;", "", names).variables["y"]
    found = unfilled(trace, (y,))
    assert [one.reason for one in found] == ([] if reason is None else [reason])


def test_one_array_for_two_reductions_needs_a_barrier_between() -> None:
    """As mlx-lm's losses do: the sums are written while others may still read the maxima."""
    stages = (
        _LID + "uint lane = thread_index_in_simdgroup, group = simdgroup_index_in_threadgroup;\n"
        "threadgroup float t[32];\n"
        "float m = simd_max(x[i]);\n"
        "if (lane == 0) t[group] = m;\n"
        + _BARRIER
        + "m = simd_max(t[lane]);\n"
        + "{}"
        + "float s = simd_sum(x[i] - m);\n"
        "if (lane == 0) t[group] = s;\n" + _BARRIER + "y[i] = simd_sum(t[lane]);\n"
    )
    (race,) = races(trace_of(stages.format(""), (1024, 1, 1)))
    assert [(a.kind, a.spot.place.line) for a in (race.first, race.second)] == [
        ("read", 7),
        ("write", 9),
    ]
    assert races(trace_of(stages.format(_BARRIER), (1024, 1, 1))) == ()
