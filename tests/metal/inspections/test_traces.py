"""What the analyses say of single kernels, and what they leave out."""

from __future__ import annotations

import pytest

from embercoach.checks.kernels.kernel_arrays import dropped_results
from embercoach.checks.kernels.kernel_fill import unfilled
from embercoach.checks.kernels.kernel_flow import divergences
from embercoach.checks.kernels.kernel_outputs import crossings
from embercoach.checks.kernels.kernel_races import races
from tests.metal.execution.launching import trace_of

_LID = "uint lid = thread_position_in_threadgroup.x; uint i = thread_position_in_grid.x;\n"
_TILE = _LID + "threadgroup float t[64];\n"
_BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);\n"


def test_a_race_has_both_sides() -> None:
    (race,) = races(trace_of(_TILE + "t[lid] = x[lid];\ny[lid] = t[63 - lid];"))
    assert (race.first.kind, race.second.kind) == ("write", "read")
    assert [access.spot.place.line for access in (race.first, race.second)] == [3, 4]
    assert race.variable.name == "t"
    assert race.barriers == ()
    assert not race.in_later_iteration


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
        "if (n > 3) t[lid] = x[lid]; else y[lid] = t[63 - lid];",  # never both
        "if (lid == n) t[0] = lid;",  # one thread at most
        "if (x[lid] == 3) t[0] = lid;",  # perhaps one thread only
        "if (n > 2) { t[lid] = 1; } if (n < 2) { y[lid] = t[63 - lid]; }",
    ],
)
def test_no_race(body: str) -> None:
    assert races(trace_of(_TILE + body)) == ()


@pytest.mark.parametrize(
    "body",
    [
        "t[0] = lid;",
        "auto& cell = t[n]; cell = lid;",
        "t[x[lid] > 0 ? 7 : lid] = lid;",  # the chosen index is the same for many
    ],
)
def test_race(body: str) -> None:
    assert races(trace_of(_TILE + body)) != ()


def test_threads_that_returned_before_both_paths_met() -> None:
    body = "if (n > 4) { if (x[i] > 0) return; y[i] = 0; }\n"
    (found,) = divergences(trace_of(_LID + body + _BARRIER))
    assert found.reason == "returned"


@pytest.mark.parametrize(
    "body",
    [
        "if (threadgroup_position_in_grid.x > n) return; {0}",
        "switch (n) {{ case 1: {0} break; default: {0} }}",
    ],
)
def test_barriers_that_all_reach(body: str) -> None:
    assert divergences(trace_of(_LID + body.format(_BARRIER), groups=(4, 1, 1))) == ()


@pytest.mark.parametrize(
    "body",
    [
        "do {{ if (x[i] > 0) break; {0} }} while (n > 0);",
        "int k = x[i]; switch (k) {{ case 1: {0} break; }}",
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
        "if (g == 0) y[lid] = x[i];" + _DEVICE + "if (g == 0) z[lid] = y[63 - lid];",
        "if (g == 0 && lid == 0) y[5] = x[i];" + _DEVICE + "if (g < 1) z[lid] = y[5];",
        "y[i] = x[i];" + _DEVICE + "z[i] = y[1024 + 255 - i];",
    ],
)
def test_scratch_of_one_threadgroup(body: str) -> None:
    trace = trace_of(_LID + _GROUP + body, groups=(4, 1, 1))
    assert [c for c in crossings(trace) if c.variable.name == "y"] == []


_SUM = _LID + "float s = simd_sum(x[i]);\n"


@pytest.mark.parametrize(
    "body", ["if (lid == 0) y[0] = s;", "float m = s / n; if (lid == 0) { y[0] = m; }"]
)
def test_partial_reduction(body: str) -> None:
    assert len(list(dropped_results(trace_of(_SUM + body, groups=(2, 1, 1))))) == 1
    assert list(dropped_results(trace_of(_SUM + body, (32, 1, 1), (2, 1, 1)))) == []


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
    ],
)
def test_a_second_stage_is_whole(body: str) -> None:
    assert list(dropped_results(trace_of(_PARTIALS + body))) == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("if (x[i] > 0) y[i] = 1; else y[i] = 2;", []),
        ("if (x[i] > 0) y[i] = 1;", ["y"]),
        ("if (x[i] > 0) y[n] = 1;", []),
        ("z[i] = 0;", []),
        ("atomic_fetch_add_explicit((device atomic_float*)y, 1.0f, memory_order_relaxed);", []),
    ],
)
def test_outputs_that_are_not_filled(body: str, found: list[str]) -> None:
    assert [store.variable.name for store in unfilled(trace_of(_LID + body))] == found
