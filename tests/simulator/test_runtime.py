"""What the runtime finds in kernels, each kind with the clean kernel beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from embercoach.simulator.model import Buffer, RawFinding
from tests.simulator.units import Bench, begun, given, wanted

X = np.arange(64, dtype=np.int32) + 1
LANE = np.arange(64) % 32
THREE = X.reshape(16, 4)[:, :3].sum(1).repeat(4)
HALVES = X.astype(np.float16)


@dataclass(frozen=True)
class Case:
    """A body, what it must be blamed for (kind, lines here and there, buffer, element)."""

    name: str
    body: str
    found: tuple[tuple[object, ...], ...] = ()
    buffers: tuple[Buffer, ...] = (given("x", X), wanted("y", 64))
    grid: int = 64
    threadgroup: int = 64
    expected: object = None
    header: str = ""
    also: frozenset[str] = field(default_factory=frozenset)


def case(name: str, *found: str, also: str = "", **more: Any) -> Callable[[str], Case]:
    """Make a case of a body; ``-`` in what must be found is None."""

    def of_body(body: str) -> Case:
        kinds = [tuple(map(_word, each.split())) for each in found]
        text = dedent(body).strip("\n")
        return Case(name, text, tuple(kinds), also=frozenset(also.split()), **more)

    return of_body


def _word(word: str) -> object:
    return None if word == "-" else int(word) if word.lstrip("-").isdigit() else word


BOUNDS = (
    case("read_behind", "out-of-bounds 1 - x 64")("y[i] = x[i + 1];"),
    case("read_before", "out-of-bounds 1 - x -1")("y[i] = x[(int)i - 1];"),
    case("read_far", "out-of-bounds 1 - x 4294967296")("y[i] = x[i + (1ul << 32)];"),
    case("write_behind", "out-of-bounds 2 - y 64")("y[i] = 1;\nif (i == 63) y[i + 1] = 1;"),
    case("half_of_an_access_outside", "out-of-bounds 1 - x 63")(
        "y[i] = (int)*(const device ulong*)(x + (i == 63 ? 63 : 0));"
    ),
    case("shift_past_the_width", "undefined-arithmetic 1 - - -")("y[i] = 1 << (x[i] + 32);"),
    case("behind_a_threadgroup_array", "out-of-bounds 3 - s 32")("""
        SHARED int s[32]; threadgroup int* p = s; asm("" : "+r"(p));
        y[i] = 0;
        if (t == 5) p[32] = 1;
    """),
    case("before_a_threadgroup_array", "out-of-bounds 3 - s -1")("""
        SHARED int s[32]; threadgroup int* p = s; asm("" : "+r"(p));
        y[i] = 0;
        if (t == 5) p[-1] = 1;
    """),
    case("index_of_a_local", "out-of-bounds 3 - a 4")(
        "int a[4] = {1, 2, 3, 4};\nint k = x[i] & 7;\na[k] = 9;\ny[i] = a[x[i] & 3];"
    ),
    case("write_to_input", "write-to-input 2 - x 0", expected=X)(
        "y[i] = x[i];\n((device int*)x)[i] = 3;"
    ),
)

RACES = (
    case("read_after_write", "threadgroup-race 2 1 s -")(
        "SHARED int s[64]; s[t] = x[t];\ny[i] = s[63 - t];"
    ),
    case("write_after_read", "threadgroup-race 4 3 s -")("""
        SHARED int s[64]; s[t] = x[t];
        ember_threadgroup_barrier(2);
        int v = s[63 - t];
        s[t] = v;
        y[i] = v;
    """),
    case("write_after_write", "threadgroup-race 2 2 s 0")("""
        SHARED int s[1];
        if (t % 33 == 0) s[0] = x[t];
        ember_threadgroup_barrier(2);
        y[i] = s[0];
    """),
    case("a_reader_hidden_behind_the_writer's_own_read", "threadgroup-race 8 5 s 0")("""
        SHARED int s[2]; if (t == 0) s[0] = 1;
        ember_threadgroup_barrier(2);
        int v = 0;
        if (t == 33 || t == 0)
        v = s[0];
        y[i] = v;
        if (t == 0)
        s[0] = 2;
    """),
    case("bytes_of_one_word", expected=X[::-1])(
        "SHARED uchar s[64]; s[t] = x[t];\nember_threadgroup_barrier(2);\ny[i] = s[63 - t];"
    ),
    case("device_in_a_threadgroup", "device-race 1 1 y 0", "same-value-write 2 2 y 32")(
        "y[i / 2] = x[i];\ny[i / 2 + 32] = 1;"
    ),
    case("device_across_threadgroups", "device-race 1 1 y 0", threadgroup=32)(
        "y[i % 32] = x[i];\nif (i < 32) y[i + 32] = 0;"
    ),
    case(
        "reads_what_another_threadgroup_wrote",
        "device-race 3 1 y 0",
        threadgroup=32,
    )("y[i] = x[i];\nif (i == 40)\ny[i] = y[0];"),
    case("ordered_by_a_barrier_in_device_memory", expected=X[::-1])("""
        y[i] = x[i];
        ember_threadgroup_barrier(1);
        int v = y[63 - i];
        ember_threadgroup_barrier(1);
        y[i] = v;
    """),
    case("atomic_and_plain", "threadgroup-race 3 2 n 0", also="order-dependent")("""
        SHARED int n[1]; if (t == 0)
        n[0] = 0;
        atomic_add(n, 1);
        ember_threadgroup_barrier(2);
        y[i] = n[0];
    """),
    case("plain_read_after_atomics_of_several", "threadgroup-race 5 3 n 0")("""
        SHARED int n[1]; if (t == 0) atomic_store(n, 0);
        ember_threadgroup_barrier(2);
        atomic_add(n, 1);
        if (t == 63)
        y[0] = n[0];
        if (t) y[t] = 0;
    """),
    case(
        "atomics_alone",
        buffers=(given("x", X), begun("y", np.zeros(4, np.int32))),
        expected=np.full(4, 16),
        threadgroup=16,
    )("atomic_add(&y[x[i] % 4], 1);"),
    case("same_value_does_not_hide_another", "threadgroup-race 2 2 s 0")(
        "SHARED int s[1];\ns[0] = t < 62 ? 7 : 8;\nember_threadgroup_barrier(2);\ny[i] = s[0];"
    ),
    case(
        "same_value_of_the_last_two_does_not_hide_the_first",
        "threadgroup-race 5 3 s 0",
        "lane-synchronous|same-value-write 5 5 s 0",
    )("""
        SHARED int s[1];
        if (t == 0)
        s[0] = 5;
        if (t == 33 || t == 40)
        s[0] = 7;
        ember_threadgroup_barrier(2);
        y[i] = s[0];
    """),
    case(
        "same_value",
        "same-value-write 2 2 z 0",
        buffers=(given("x", X), wanted("y", 64), wanted("z", 1)),
        threadgroup=16,
        expected=X,
    )("y[i] = x[i];\nz[0] = 5;"),
    case(
        "updates_that_are_lost",
        "device-race 2 2 z 0",
        "same-value-write 3 3 z 1",
        also="lane-synchronous",
        buffers=(given("x", X[:32]), wanted("y", 32), begun("z", np.zeros(2, np.int32))),
        grid=32,
        threadgroup=32,
    )("y[i] = x[i];\nz[0] += 1;\nz[1] |= 1;"),
    case(
        "lanes_in_step",
        "lane-synchronous 2 1 s -",
        buffers=(given("x", X[:32]), wanted("y", 32)),
        grid=32,
        threadgroup=32,
        expected=X[31::-1],
    )("SHARED int s[32]; s[t] = x[t];\nint v = s[31 - t];\ny[i] = v;"),
    case(
        "lanes_with_a_barrier",
        buffers=(given("x", X[:32]), wanted("y", 32)),
        grid=32,
        threadgroup=32,
        expected=X[31::-1],
    )("""
        SHARED int s[32]; s[t] = x[t];
        ember_simdgroup_barrier(2);
        int v = s[31 - t];
        ember_simdgroup_barrier(2);
        s[t] = v;
        y[i] = v;
    """),
    case(
        "a_simdgroup_barrier_orders_no_other_simdgroup",
        "threadgroup-race 3 1 s -",
    )("SHARED int s[64]; s[t] = x[t];\nember_simdgroup_barrier(2);\ny[i] = s[63 - t];"),
)

FLAGS = (
    case("none", "wrong-mem-flags 2 1 s 63", expected=X[::-1])(
        "SHARED int s[64]; s[t] = x[t];\nember_threadgroup_barrier(0);\ny[i] = s[63 - t];"
    ),
    case("device_for_threadgroup", "wrong-mem-flags 2 1 s 63")(
        "SHARED int s[64]; s[t] = x[t];\nember_threadgroup_barrier(1);\ny[i] = s[63 - t];"
    ),
    case("threadgroup_for_device", "wrong-mem-flags 2 1 y 63")("""
        y[i] = x[i];
        ember_threadgroup_barrier(2);
        int v = y[63 - i];
        ember_threadgroup_barrier(3);
        y[i] = v;
    """),
    case("none_in_a_simdgroup", "wrong-mem-flags 2 1 s 1")(
        "SHARED int s[64]; s[t] = x[t];\nember_simdgroup_barrier(0);\ny[i] = s[t ^ 1];"
    ),
    case("none_besides_one_that_orders", expected=X[::-1])("""
        SHARED int s[64]; s[t] = x[t];
        ember_threadgroup_barrier(2);
        ember_threadgroup_barrier(0);
        y[i] = s[63 - t];
    """),
)

VALUES = (
    case("read_of_output", "uninitialized-read 1 - y 0")("y[i] += x[i];"),
    case("read_of_an_output_with_content", buffers=(given("x", X), begun("y", X)), expected=2 * X)(
        "y[i] += x[i];"
    ),
    case("read_of_threadgroup_memory", "uninitialized-read 3 - s 0")(
        "SHARED int s[64]; if (t) s[t] = x[t];\nember_threadgroup_barrier(2);\ny[i] = s[63 - t];"
    ),
    case("left_by_the_threadgroup_before", "uninitialized-read 3 - s -", threadgroup=32)(
        "SHARED int s[32]; if (i < 32) s[t] = x[t];\nember_threadgroup_barrier(2);\ny[i] = s[t];"
    ),
    case("unwritten", "unwritten-output - - y 7")("if (i != 7 && i < 60) y[i] = x[i];"),
    case(
        "halves_written_one_by_one",
        buffers=(given("x", HALVES), wanted("y", 64, "float16")),
        expected=HALVES.view(np.int32),
    )("y[i] = x[i];"),
    case("half_of_a_half", "unwritten-output - - y 0", buffers=(wanted("y", 64, "float16"),))(
        "((device uchar*)y)[2 * i] = 1;"
    ),
    case(
        "ticket",
        "order-dependent 1 - y 0",
        also="order-dependent",
        buffers=(begun("n", np.zeros(1, np.int32)), wanted("y", 64)),
    )("y[atomic_add(n, 1)] = i;"),
    case("local_without_a_value", "uninitialized-read 4 - y 0")(
        "int v[2];\n__builtin_memset(v, ember_fill(), 8);\nif (x[i] > 8) v[0] = 1;\ny[i] = v[0];"
    ),
)

DIVERGENCE = (
    case("after_a_return", "divergent-barrier 2 - - -")(
        "y[i] = x[i]; if (t == 3) return;\nember_threadgroup_barrier(2);"
    ),
    case("in_one_branch", "divergent-barrier 3 - - -")(
        "y[i] = x[i];\nif (t < 32)\nember_threadgroup_barrier(2);"
    ),
    case("two_barriers", "divergent-barrier 3 5 - -")("""
        y[i] = x[i];
        if (t % 2)
        ember_threadgroup_barrier(2);
        else
        ember_threadgroup_barrier(2);
    """),
    case("what_follows_a_barrier_in_a_branch", "divergent-barrier 4 7 - -")("""
        SHARED int s[64]; SHARED int r[64]; s[t] = 0;
        if (t < 32) {
          s[t] = x[i];
          ember_threadgroup_barrier(2);
        }
        r[t] = s[63 - t];
        ember_threadgroup_barrier(2);
        y[i] = r[63 - t];
    """),
    case("a_later_barrier_in_a_branch", "divergent-barrier 4 2 - -")("""
        for (int k = 0; k < 2; k++) {
          ember_threadgroup_barrier(2);
          if (t < 32)
            ember_threadgroup_barrier(2);
        }
        y[i] = x[i];
    """),
    case("simdgroup_barrier_of_some", "divergent-barrier 3 - - -")(
        "y[i] = x[i];\nif (t % 2)\nember_simdgroup_barrier(2);"
    ),
    case("one_call_copied_by_the_compiler", expected=X)(
        "y[i] = x[i];\nfor (int k = 0; k < 3; k++)\nember_threadgroup_barrier(2);"
    ),
    case("whole_simdgroups_at_one_barrier", expected=np.where(np.arange(64) < 32, X[:32].sum(), X))(
        "int v = x[i];\nif (t < 32) v = simd_sum(v);\nember_threadgroup_barrier(2);\ny[i] = v;"
    ),
    case(
        "operation_in_a_branch",
        expected=np.where(LANE < 16, X.reshape(4, 16).sum(1).repeat(16), X),
    )("int v = x[i];\nif (lane < 16)\nv = simd_sum(v);\nember_threadgroup_barrier(2);\ny[i] = v;"),
    case("operation_in_both_branches", "split-reduction 3 5 - -")(
        "int v;\nif (lane < 16)\nv = simd_sum(x[i]);\nelse\nv = -simd_sum(x[i]);\ny[i] = v;"
    ),
    case("loops_of_uneven_length", expected=np.where(LANE < 16, 32, 48))("""
        int v = 0;
        for (uint k = 0; k <= lane / 16; k++)
        v += simd_sum(1);
        v += simd_sum(0);
        y[i] = v;
    """),
    case("lanes_that_have_returned", expected=np.r_[np.full(32, 32), np.full(18, 18), X[50:]])(
        "y[i] = x[i]; if (i >= 50) return;\ny[i] = simd_sum(1);"
    ),
    case("shuffle_from_a_lane_that_has_returned", "divergent-simd 2 - - -")(
        "y[i] = x[i]; if (lane >= 20) return;\ny[i] = simd_shuffle(x[i], lane + 1);"
    ),
    case("turns_of_lanes", "simdgroup-deadlock 3 5 - -", expected=X)("""
        y[i] = x[i]; SHARED int s[1]; if (i == 0) atomic_store(s, 0);
        ember_threadgroup_barrier(2); ember_u64 outer = ember_begin_spin();
        while (atomic_load(s) != (int)i) {}
        ember_end_spin(outer);
        atomic_store(s, (int)i + 1);
    """),
    case("quad_in_a_branch", expected=np.where(LANE % 4 < 3, THREE, X))("""
        int v = x[i];
        if (lane % 4 < 3)
        v = quad_sum(v);
        ember_threadgroup_barrier(2);
        y[i] = v;
    """),
    case(
        "quads_apart",
        expected=np.r_[
            np.full(32, X[:8].reshape(2, 4).sum(1).repeat(4).sum() + X[8:32].sum()),
            np.full(32, X[32:40].reshape(2, 4).sum(1).repeat(4).sum() + X[40:].sum()),
        ],
    )("int v = x[i];\nif (lane < 8) v = quad_sum(v);\ny[i] = simd_sum(v);"),
)

CASES = (*BOUNDS, *RACES, *FLAGS, *VALUES, *DIVERGENCE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_finds_what_is_there_and_nothing_else(bench: Bench, case: Case) -> None:
    result = bench.run(
        case.body, *case.buffers, grid=case.grid, threadgroup=case.threadgroup, header=case.header
    )
    matched = [next((f for f in result.findings if _matches(f, w)), w) for w in case.found]
    assert matched == [f for f in matched if isinstance(f, RawFinding)], result.findings
    extra = [f for f in result.findings if f not in matched and f.kind not in case.also]
    assert extra == []
    if case.expected is not None:
        output = next(b for b in reversed(case.buffers) if b.role == "output" and b.name == "y")
        index = [b for b in case.buffers if b.role == "output"].index(output)
        np.testing.assert_array_equal(result.outputs[index].view(np.int32), case.expected)


def _matches(finding: RawFinding, wanted_: tuple[object, ...]) -> bool:
    kinds, line, other, buffer, element = wanted_
    lines = {line, other}
    there = finding.other.line if finding.other is not None else None
    if finding.kind in {"threadgroup-race", "device-race", "same-value-write", "lane-synchronous"}:
        right = {finding.at.line, there} == lines
    else:
        right = finding.at.line == line and (other is None or there == other)
    return (
        finding.kind in str(kinds).split("|")
        and right
        and finding.buffer == (buffer or "")
        and (element is None or finding.element == element)
    )


def test_counts_and_places(bench: Bench) -> None:
    result = bench.run("y[i] = x[i + 60];", given("x", X), wanted("y", 64), threadgroup=16)
    (finding,) = result.findings
    assert finding.count == 60
    assert finding.at.thread == (4, 0, 0)
    assert finding.at.threadgroup == (0, 0, 0)
    assert finding.at.kind == "read"


def test_names_both_threads_of_a_conflict_with_values(bench: Bench) -> None:
    body = "y[i % 63] = x[i];\nif (i == 5) y[63] = 0;"
    (finding,) = bench.run(body, given("x", X), wanted("y", 64)).findings
    assert finding.at.thread == (63, 0, 0)
    assert finding.other is not None
    assert finding.other.thread == (0, 0, 0)
    assert (finding.at.kind, finding.at.value) == ("write", "64")
    assert (finding.other.kind, finding.other.value) == ("write", "1")


def test_offset_counts_from_element_0(bench: Bench) -> None:
    buffer = given("x", X)
    strided = Buffer("x", 0, "input", buffer.data, 4, offset=32)
    body = "y[i] = x[(int)i - 8];"
    result = bench.run(body, strided, wanted("y", 65), grid=65, threadgroup=13)
    assert {(f.kind, f.element) for f in result.findings} == {("out-of-bounds", 56)}
    np.testing.assert_array_equal(result.outputs[0].view(np.int32)[:64], X)


def test_values_of_bfloat_and_half_are_shown_as_numbers(bench: Bench) -> None:
    body = "y[0] = x[i];\nif (i) y[i] = 0;"
    (finding,) = bench.run(body, given("x", HALVES), wanted("y", 64, "float16")).findings
    assert finding.other is not None
    assert (finding.at.kind, finding.at.value) == ("write", "2.0")
    assert (finding.other.kind, finding.other.value) == ("write", "1.0")
