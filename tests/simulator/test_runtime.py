"""What the runtime finds in kernels, each kind with the clean kernel beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from embercoach.simulator.build.toolchain import Toolchain
from embercoach.simulator.model import CODE_OF_KIND, Buffer, RawFinding
from embercoach.simulator.process.child_process import Process
from tests.simulator.units import Bench, begun, given, wanted

X = np.arange(64, dtype=np.int32) + 1
HALVES = X.astype(np.float16)


@pytest.fixture(scope="module")
def bench(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    process = Process(toolchain)
    yield Bench(toolchain, process, tmp_path_factory.mktemp("units"))
    process.close()


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


BOUNDS = (
    Case("read_behind", "y[i] = x[i + 1];", (("out-of-bounds", 1, None, "x", 64),)),
    Case("read_before", "y[i] = x[(int)i - 1];", (("out-of-bounds", 1, None, "x", -1),)),
    Case("read_far", "y[i] = x[i + (1ul << 32)];", (("out-of-bounds", 1, None, "x", 1 << 32),)),
    Case(
        "write_behind",
        "y[i] = 1;\nif (i == 63) y[i + 1] = 1;",
        (("out-of-bounds", 2, None, "y", 64),),
    ),
    Case(
        "half_of_an_access_outside",
        "y[i] = (int)*(const device ulong*)(x + (i == 63 ? 63 : 0));",
        (("out-of-bounds", 1, None, "x", 63),),
    ),
    Case(
        "shift_past_the_width",
        "y[i] = 1 << (x[i] + 32);",
        (("undefined-arithmetic", 1, None, "", None),),
    ),
    Case(
        "behind_a_threadgroup_array",
        'SHARED int s[32]; threadgroup int* p = s; asm("" : "+r"(p));\ny[i] = 0;\n'
        "if (t == 5) p[32] = 1;",
        (("out-of-bounds", 3, None, "s", 32),),
    ),
    Case(
        "before_a_threadgroup_array",
        'SHARED int s[32]; threadgroup int* p = s; asm("" : "+r"(p));\ny[i] = 0;\n'
        "if (t == 5) p[-1] = 1;",
        (("out-of-bounds", 3, None, "s", -1),),
    ),
    Case(
        "index_of_a_local",
        "int a[4] = {1, 2, 3, 4};\nint k = x[i] & 7;\na[k] = 9;\ny[i] = a[x[i] & 3];",
        (("out-of-bounds", 3, None, "a", 4),),
    ),
    Case(
        "write_to_input",
        "y[i] = x[i];\n((device int*)x)[i] = 3;",
        (("write-to-input", 2, None, "x", 0),),
        expected=X,
    ),
)

RACES = (
    Case(
        "read_after_write",
        "SHARED int s[64]; s[t] = x[t];\ny[i] = s[63 - t];",
        (("threadgroup-race", 2, 1, "s", None),),
        also=frozenset({"uninitialized-read"}),
    ),
    Case(
        "write_after_read",
        "SHARED int s[64]; s[t] = x[t];\nember_threadgroup_barrier(2);\nint v = s[63 - t];\n"
        "s[t] = v;\ny[i] = v;",
        (("threadgroup-race", 4, 3, "s", None),),
    ),
    Case(
        "write_after_write",
        "SHARED int s[1];\nif (t % 33 == 0) s[0] = x[t];\nember_threadgroup_barrier(2);\n"
        "y[i] = s[0];",
        (("threadgroup-race", 2, 2, "s", 0),),
    ),
    Case(
        "a_reader_hidden_behind_the_writer's_own_read",
        "SHARED int s[2]; if (t == 0) s[0] = 1;\nember_threadgroup_barrier(2);\n"
        "int v = 0;\nif (t == 33 || t == 0)\nv = s[0];\ny[i] = v;\nif (t == 0)\ns[0] = 2;",
        (("threadgroup-race", 8, 5, "s", 0),),
    ),
    Case(
        "bytes_of_one_word",
        "SHARED uchar s[64]; s[t] = x[t];\nember_threadgroup_barrier(2);\ny[i] = s[63 - t];",
        expected=X[::-1],
    ),
    Case(
        "device_in_a_threadgroup",
        "y[i / 2] = x[i];\ny[i / 2 + 32] = 1;",
        (("device-race", 1, 1, "y", 0), ("same-value-write", 2, 2, "y", 32)),
    ),
    Case(
        "device_across_threadgroups",
        "y[i % 32] = x[i];\nif (i < 32) y[i + 32] = 0;",
        (("device-race", 1, 1, "y", 0),),
        threadgroup=32,
    ),
    Case(
        "reads_what_another_threadgroup_wrote",
        "y[i] = x[i];\nif (i == 40)\ny[i] = y[0];",
        (("device-race", 3, 1, "y", 0),),
        threadgroup=32,
        also=frozenset({"uninitialized-read"}),  # in the other order
    ),
    Case(
        "ordered_by_a_barrier_in_device_memory",
        "y[i] = x[i];\nember_threadgroup_barrier(1);\nint v = y[63 - i];\n"
        "ember_threadgroup_barrier(1);\ny[i] = v;",
        expected=X[::-1],
    ),
    Case(
        "atomic_and_plain",
        "SHARED int n[1]; if (t == 0)\nn[0] = 0;\natomic_add(n, 1);\n"
        "ember_threadgroup_barrier(2);\ny[i] = n[0];",
        (("threadgroup-race", 3, 2, "n", 0),),
        also=frozenset({"uninitialized-read", "order-dependent"}),
    ),
    Case(
        "plain_read_after_atomics_of_several",
        "SHARED int n[1]; if (t == 0) atomic_store(n, 0);\nember_threadgroup_barrier(2);\n"
        "atomic_add(n, 1);\nif (t == 63)\ny[0] = n[0];\nif (t) y[t] = 0;",
        (("threadgroup-race", 5, 3, "n", 0),),
    ),
    Case(
        "atomics_alone",
        "atomic_add(&y[x[i] % 4], 1);",
        buffers=(given("x", X), begun("y", np.zeros(4, np.int32))),
        expected=np.full(4, 16),
        threadgroup=16,
    ),
    Case(
        "same_value_does_not_hide_another",
        "SHARED int s[1];\ns[0] = t < 62 ? 7 : 8;\nember_threadgroup_barrier(2);\ny[i] = s[0];",
        (("threadgroup-race", 2, 2, "s", 0),),
    ),
    Case(
        "same_value_of_the_last_two_does_not_hide_the_first",
        "SHARED int s[1];\nif (t == 0)\ns[0] = 5;\nif (t == 33 || t == 40)\ns[0] = 7;\n"
        "ember_threadgroup_barrier(2);\ny[i] = s[0];",
        (("threadgroup-race", 5, 3, "s", 0), ("lane-synchronous|same-value-write", 5, 5, "s", 0)),
    ),
    Case(
        "same_value",
        "y[i] = x[i];\nz[0] = 5;",
        (("same-value-write", 2, 2, "z", 0),),
        buffers=(given("x", X), wanted("y", 64), wanted("z", 1)),
        threadgroup=16,
        expected=X,
    ),
    Case(
        "lanes_in_step",
        "SHARED int s[32]; s[t] = x[t];\nint v = s[31 - t];\ny[i] = v;",
        (("lane-synchronous", 2, 1, "s", None),),
        buffers=(given("x", X[:32]), wanted("y", 32)),
        grid=32,
        threadgroup=32,
        expected=X[31::-1],
    ),
    Case(
        "lanes_with_a_barrier",
        "SHARED int s[32]; s[t] = x[t];\nember_simdgroup_barrier(2);\nint v = s[31 - t];\n"
        "ember_simdgroup_barrier(2);\ns[t] = v;\ny[i] = v;",
        buffers=(given("x", X[:32]), wanted("y", 32)),
        grid=32,
        threadgroup=32,
        expected=X[31::-1],
    ),
    Case(
        "a_simdgroup_barrier_orders_no_other_simdgroup",
        "SHARED int s[64]; s[t] = x[t];\nember_simdgroup_barrier(2);\ny[i] = s[63 - t];",
        (("threadgroup-race", 3, 1, "s", None),),
        also=frozenset({"uninitialized-read"}),
    ),
)

FLAGS = (
    Case(
        "none",
        "SHARED int s[64]; s[t] = x[t];\nember_threadgroup_barrier(0);\ny[i] = s[63 - t];",
        (("wrong-mem-flags", 2, 1, "s", 63),),
        expected=X[::-1],
    ),
    Case(
        "device_for_threadgroup",
        "SHARED int s[64]; s[t] = x[t];\nember_threadgroup_barrier(1);\ny[i] = s[63 - t];",
        (("wrong-mem-flags", 2, 1, "s", 63),),
    ),
    Case(
        "threadgroup_for_device",
        "y[i] = x[i];\nember_threadgroup_barrier(2);\nint v = y[63 - i];\n"
        "ember_threadgroup_barrier(3);\ny[i] = v;",
        (("wrong-mem-flags", 2, 1, "y", 63),),
    ),
    Case(
        "none_in_a_simdgroup",
        "SHARED int s[64]; s[t] = x[t];\nember_simdgroup_barrier(0);\ny[i] = s[t ^ 1];",
        (("wrong-mem-flags", 2, 1, "s", 1),),
    ),
    Case(
        "none_besides_one_that_orders",
        "SHARED int s[64]; s[t] = x[t];\nember_threadgroup_barrier(2);\n"
        "ember_threadgroup_barrier(0);\ny[i] = s[63 - t];",
        expected=X[::-1],
    ),
)

VALUES = (
    Case("read_of_output", "y[i] += x[i];", (("uninitialized-read", 1, None, "y", 0),)),
    Case(
        "read_of_an_output_with_content",
        "y[i] += x[i];",
        buffers=(given("x", X), begun("y", X)),
        expected=2 * X,
    ),
    Case(
        "read_of_threadgroup_memory",
        "SHARED int s[64]; if (t) s[t] = x[t];\nember_threadgroup_barrier(2);\ny[i] = s[63 - t];",
        (("uninitialized-read", 3, None, "s", 0),),
    ),
    Case(
        "left_by_the_threadgroup_before",
        "SHARED int s[32]; if (i < 32) s[t] = x[t];\nember_threadgroup_barrier(2);\ny[i] = s[t];",
        (("uninitialized-read", 3, None, "s", None),),
        threadgroup=32,
    ),
    Case(
        "unwritten",
        "if (i != 7 && i < 60) y[i] = x[i];",
        (("unwritten-output", None, None, "y", 7),),
    ),
    Case(
        "halves_written_one_by_one",
        "y[i] = x[i];",
        buffers=(given("x", HALVES), wanted("y", 64, "float16")),
        expected=HALVES.view(np.int32),
    ),
    Case(
        "half_of_a_half",
        "((device uchar*)y)[2 * i] = 1;",
        (("unwritten-output", None, None, "y", 0),),
        buffers=(wanted("y", 64, "float16"),),
    ),
    Case(
        "ticket",
        "y[atomic_add(n, 1)] = i;",
        (("order-dependent", 1, None, "y", 0),),
        buffers=(begun("n", np.zeros(1, np.int32)), wanted("y", 64)),
        also=frozenset({"order-dependent"}),
    ),
    Case(
        "local_without_a_value",
        "int v[2];\n__builtin_memset(v, ember_fill(), 8);\nif (x[i] > 8) v[0] = 1;\ny[i] = v[0];",
        (("uninitialized-read", 4, None, "y", 0),),
    ),
)

DIVERGENCE = (
    Case(
        "after_a_return",
        "y[i] = x[i]; if (t == 3) return;\nember_threadgroup_barrier(2);",
        (("divergent-barrier", 2, None, "", None),),
    ),
    Case(
        "in_one_branch",
        "y[i] = x[i];\nif (t < 32)\nember_threadgroup_barrier(2);",
        (("divergent-barrier", 3, None, "", None),),
    ),
    Case(
        "two_barriers",
        "y[i] = x[i];\nif (t % 2)\nember_threadgroup_barrier(2);\nelse\n"
        "ember_threadgroup_barrier(2);",
        (("divergent-barrier", 3, 5, "", None),),
    ),
    Case(
        "simdgroup_barrier_of_some",
        "y[i] = x[i];\nif (t % 2)\nember_simdgroup_barrier(2);",
        (("divergent-barrier", 3, None, "", None),),
    ),
    Case(
        "one_call_copied_by_the_compiler",
        "y[i] = x[i];\nfor (int k = 0; k < 3; k++)\nember_threadgroup_barrier(2);",
        expected=X,
    ),
    Case(
        "whole_simdgroups_at_one_barrier",
        "int v = x[i];\nif (t < 32) v = simd_sum(v);\nember_threadgroup_barrier(2);\ny[i] = v;",
        expected=np.where(np.arange(64) < 32, X[:32].sum(), X),
    ),
    Case(
        "operation_in_a_branch",
        "int v = x[i];\nif (lane < 16)\nv = simd_sum(v);\nember_threadgroup_barrier(2);\ny[i] = v;",
        (("divergent-simd", 3, 4, "", None),),
    ),
    Case(
        "operation_in_both_branches",
        "int v;\nif (lane < 16)\nv = simd_sum(x[i]);\nelse\nv = -simd_sum(x[i]);\ny[i] = v;",
        (("divergent-simd", 3, 5, "", None),),
    ),
    Case(
        "loops_of_uneven_length",
        "int v = 0;\nfor (uint k = 0; k <= lane / 16; k++)\nv += simd_sum(1);\n"
        "v += simd_sum(0);\ny[i] = v;",
        (("divergent-simd", 3, 4, "", None),),
    ),
    Case(
        "lanes_that_have_returned",
        "y[i] = x[i]; if (i >= 50) return;\ny[i] = simd_sum(1);",
        expected=np.r_[np.full(32, 32), np.full(18, 18), X[50:]],
    ),
    Case(
        "shuffle_from_a_lane_that_has_returned",
        "y[i] = x[i]; if (lane >= 20) return;\ny[i] = simd_shuffle(x[i], lane + 1);",
        (("divergent-simd", 2, None, "", None),),
    ),
    Case(
        "turns_of_lanes",
        "y[i] = x[i]; SHARED int s[1]; if (i == 0) atomic_store(s, 0);\n"
        "ember_threadgroup_barrier(2); ember_u64 outer = ember_begin_spin();\n"
        "while (atomic_load(s) != (int)i) {}\n"
        "ember_end_spin(outer);\n"
        "atomic_store(s, (int)i + 1);",
        (("simdgroup-deadlock", 3, 5, "", None),),
        expected=X,
    ),
    Case(
        "quad_in_a_branch",
        "int v = x[i];\nif (lane % 4 < 3)\nv = quad_sum(v);\nember_threadgroup_barrier(2);\n"
        "y[i] = v;",
        (("divergent-simd", 3, 4, "", None),),
    ),
    Case(
        "quads_apart",
        "int v = x[i];\nif (lane < 8) v = quad_sum(v);\ny[i] = simd_sum(v);",
        expected=np.r_[
            np.full(32, X[:8].reshape(2, 4).sum(1).repeat(4).sum() + X[8:32].sum()),
            np.full(32, X[32:40].reshape(2, 4).sum(1).repeat(4).sum() + X[40:].sum()),
        ],
    ),
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


def test_every_kind_of_a_run_that_ends_is_tried() -> None:
    tried = {kind for case in CASES for what in case.found for kind in str(what[0]).split("|")}
    assert {
        kind for kind in CODE_OF_KIND if kind.startswith(("o", "w", "t", "d", "u", "s", "l"))
    } - {"timeout", "does-not-compile"} <= tried


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.sampled(9)
def test_unchecked_kernels_are_silent(bench: Bench, case: Case) -> None:
    if any(
        what[2:4] == (None, "s") or what[3] == "a" for what in case.found if "bounds" in what[0]
    ):
        pytest.skip("without checks it writes where it must not")
    result = bench.run(
        case.body,
        *case.buffers,
        grid=case.grid,
        threadgroup=case.threadgroup,
        header=case.header,
        checks=False,
    )
    assert result.findings == ()
    assert result.accesses == 0


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
        and finding.buffer == buffer
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
