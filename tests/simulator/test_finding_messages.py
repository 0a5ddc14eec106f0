"""Findings as users read them: message, both accesses, help, and the report on a terminal."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from embercoach.simulator.model import (
    CODE_OF_KIND,
    Buffer,
    BuiltKernel,
    KernelFinding,
    MemoryAccess,
    RawFinding,
    SourceMap,
)
from embercoach.simulator.reporting.compiler_errors import CompileError, CompilerError
from embercoach.simulator.reporting.messages import (
    DESCRIBED_KINDS,
    described,
    described_launch,
    report,
)
from tests.rows import each_row

SOURCE = "// header\n[[kernel]] void f() {\n  first();\n  second();\n}\n"
KERNEL = BuiltKernel("twice", Path("none"), (), SOURCE, SourceMap(1, 3, 2), True)
BUFFERS = (
    Buffer("x", 0, "input", np.zeros(64, np.uint8), 4),
    Buffer("back", 1, "input", np.zeros(40, np.uint8), 4, offset=16),
    Buffer("one", 2, "input", np.zeros(4, np.uint8), 4),
    Buffer("none", 3, "input", np.zeros(0, np.uint8), 4),
)
AT = MemoryAccess(4, (5, 0, 0), (1, 0, 0))
OTHER = MemoryAccess(3, (4, 0, 0), (0, 0, 0))
NOWHERE = MemoryAccess(None, None, None)
READ = MemoryAccess(4, (5, 0, 0), (1, 0, 0), "read")
WRITE = MemoryAccess(4, (5, 0, 0), (1, 0, 0), "write", "2")
OTHER_READ = (
    "other access: read by thread (4, 0, 0) of threadgroup (1, 0, 0), body line 1: `first();`"
)
OTHER_WRITE = (
    "other access: write of 3 by thread (4, 0, 0) of threadgroup (0, 0, 0), "
    "body line 2: `second();`"
)


def reported(kind, at=AT, other=None, buffer="x", element=16, detail="", count=1, threads=0):
    raw = RawFinding(kind, at, other, buffer, element, detail, count)
    return described(raw, KERNEL, BUFFERS, ("train.py", 12), threads)


def test_a_finding_has_its_place():
    finding = reported("out-of-bounds", count=3)
    assert (finding.kind, finding.code) == ("out-of-bounds", "SIM-BOUNDS-001")
    assert (finding.kernel, finding.part, finding.line) == ("twice", "body", 2)
    assert (finding.thread, finding.excerpt) == ((5, 0, 0), "second();")
    assert (finding.launched_at, finding.count) == (("train.py", 12), 3)


@pytest.mark.parametrize(
    ("line", "place"), [(1, ("header", 1)), (2, ("generated", 2)), (None, ("generated", None))]
)
def test_lines_are_those_of_the_users_texts(line, place):
    finding = reported("out-of-bounds", at=MemoryAccess(line, None, None))
    assert (finding.part, finding.line) == place


@pytest.mark.parametrize(
    ("buffer", "element", "message"),
    [
        ("x", 16, "out-of-bounds read of `x[16]`: 16 elements"),
        ("back", -5, "out-of-bounds read of `back[-5]`: 10 elements, -4 to 5"),
        ("one", 1, "out-of-bounds read of `one[1]`: 1 element"),
        ("none", 0, "out-of-bounds read of `none[0]`: no elements"),
        ("tile", 40, "out-of-bounds read of `tile[40]`"),
        ("a", 1, "out-of-bounds read of `a[1]`"),
        ("", None, "out-of-bounds read: the address is in no buffer"),
    ],
)
def test_message_states_the_bounds(buffer, element, message):
    assert reported("out-of-bounds", at=READ, buffer=buffer, element=element).message == message


@pytest.mark.parametrize(
    ("at", "other", "message", "details"),
    [
        (
            WRITE,
            MemoryAccess(3, (4, 0, 0), (1, 0, 0), "read"),
            "data race on `tile[3]`: unsynchronized write here, read at body line 1",
            ("access: write of 2 by thread (5, 0, 0) of threadgroup (1, 0, 0)", OTHER_READ),
        ),
        (
            WRITE,
            MemoryAccess(4, (4, 0, 0), (0, 0, 0), "write", "3"),
            "data race on `tile[3]` between threadgroups: unsynchronized writes",
            ("access: write of 2 by thread (5, 0, 0) of threadgroup (1, 0, 0)", OTHER_WRITE),
        ),
        (
            WRITE,
            MemoryAccess(3, None, None),
            "data race on `tile[3]`: unsynchronized write here, access at body line 1",
            (
                "access: write of 2 by thread (5, 0, 0) of threadgroup (1, 0, 0)",
                "other access: another thread, body line 1: `first();`",
            ),
        ),
        (
            MemoryAccess(4, None, None),
            MemoryAccess(None, (1, 2, 3), None),
            "data race on `tile[3]`: unsynchronized accesses",
            ("other access: thread (1, 2, 3)",),
        ),
    ],
)
def test_a_race_names_both_accesses(at, other, message, details):
    race = reported("threadgroup-race", at=at, other=other, buffer="tile", element=3)
    assert (race.message, race.details) == (message, details)
    assert ("threadgroup_barrier(mem_flags::mem_threadgroup)" in race.help) == (
        at.line != other.line
    )


@pytest.mark.parametrize(
    ("other", "where"),
    [
        (OTHER, "thread (4, 0, 0) of threadgroup (0, 0, 0) is at body line 1: `first();`"),
        (
            MemoryAccess(None, (4, 0, 0), (0, 0, 0)),
            "thread (4, 0, 0) of threadgroup (0, 0, 0) never reaches it",
        ),
    ],
)
def test_a_divergent_barrier_names_a_missing_thread(other, where):
    finding = reported("divergent-barrier", other=other, detail="1 thread at this barrier")
    assert finding.message == "barrier divergence: some threads never reach this barrier"
    assert finding.details == ("1 thread at this barrier", where)


def test_message_states_the_bounds_that_the_compiler_saw():
    finding = reported("out-of-bounds", buffer="acc", element=4, detail="declared as `float[4]`")
    assert finding.message == "out-of-bounds access to `acc[4]`: declared as `float[4]`"


def test_accesses_out_of_bounds_in_one_statement_are_one_finding():
    def outside(access, buffer):
        return RawFinding("out-of-bounds", access, None, buffer, 16, "", 24)

    write = replace(WRITE, value="")
    raws = [outside(replace(READ, line=3), "x"), outside(READ, "x"), outside(write, "y")]
    first, second = described_launch(raws, KERNEL, BUFFERS, None, 40)
    assert (first.line, first.details) == (1, ())
    assert second.message == "out-of-bounds write to `y[16]`"
    assert second.details == ("also out-of-bounds read of `x[16]`: 16 elements",)
    assert second.count == 24


def test_values_that_memory_decides():
    detail = "`v` is uninitialized: 1 in one run, 2 in another"
    finding = reported("uninitialized-read", at=MemoryAccess(4, None, None), detail=detail)
    assert finding.message == "uninitialized read: `x[16]` differs from run to run"
    assert finding.details == (detail,)
    assert finding.help == "Give the variable a value where it is declared"


@pytest.mark.parametrize(("buffer", "remedy"), [("x", "init_value"), ("tile", "barrier(")])
def test_the_remedy_of_an_uninitialized_read_fits_the_memory(buffer, remedy):
    assert remedy in reported("uninitialized-read", buffer=buffer).help


@pytest.mark.parametrize(
    ("count", "threads", "message"),
    [
        (1, 16, "unwritten output `x[16]`"),
        (2, 16, "unwritten output `x[16]` and 1 more of 16 elements"),
        (9, 4, "unwritten output `x[16]` and 8 more of 16 elements"),
        (12, 4, "4 threads for 16 elements: unwritten output `x[16]` and 11 more"),
    ],
)
def test_how_much_is_unwritten(count, threads, message):
    finding = reported("unwritten-output", at=NOWHERE, count=count, threads=threads)
    assert finding.message == message
    assert "times" not in report(finding)
    assert ("`grid`, which doesn't count threadgroups" in finding.help) == message.startswith("4")
    assert ("init_value" in finding.help) != message.startswith("4")


@each_row(
    "statement, remedy",
    [
        ("bins[x[i]] += 1;", "Declare `bins` as `threadgroup atomic_int`"),
        ("bins[x[i]] += 1;", "`atomic_fetch_add_explicit`"),
        ("if (t < 64) bins[x[i]]++;", "`atomic_fetch_add_explicit`"),
        ("--bins[0];", "`atomic_fetch_sub_explicit`"),
        ("bins[0] = max(bins[0], v);", "`atomic_fetch_max_explicit`"),
        ("bins[x[i]] = bins[x[i]] | v;", "`atomic_fetch_or_explicit`"),
        ("sums[0] += v;", "with `simd_sum`"),
        ("y[x[i]] += 1;", "Pass `atomic_outputs=True`"),
        ("if (t < k) bins[t] += bins[t + k];", "Put `threadgroup_barrier"),
        ("bins[t] = bins[t + 1] | v;", "Put `threadgroup_barrier"),
        ("bins[0] *= 2;", "Put `threadgroup_barrier"),
    ],
)
def test_the_remedy_of_a_race_in_one_statement(statement, remedy):
    name = next(name for name in ("bins", "sums", "y") if f"{name}[" in statement)
    declared = "threadgroup int bins[64]; threadgroup float sums[1];"
    kernel = replace(KERNEL, source=f"\n\n{declared}\n{statement}\n")
    kind = "device-race" if name == "y" else "threadgroup-race"
    raw = RawFinding(kind, READ, replace(WRITE, thread=(4, 0, 0)), name, 0, "", 1)
    assert remedy in described(raw, kernel, BUFFERS, None).help


def test_writes_in_one_statement_need_one_writer():
    assert "one thread own" in reported("threadgroup-race", at=WRITE, other=WRITE).help


def test_reports_break_no_positions_and_no_code():
    for width in range(60):
        finding = reported("threadgroup-race", other=OTHER, buffer="x" * width, element=3)
        text = report(finding)
        assert "(4, 0, 0) of" in " ".join(text.split())
        for line in text.split("\n"):
            assert len(line) <= 100
            assert line.count("(") == line.count(")")
            assert line.count("`") % 2 == 0


@each_row(
    "kind, at, other, buffer",
    [*product(sorted(DESCRIBED_KINDS), (AT, NOWHERE), (None, OTHER, NOWHERE), ("x", ""))],
)
def test_every_kind_has_a_short_message_and_help(kind, at, other, buffer):
    finding = reported(kind, at=at, other=other, buffer=buffer, detail="both write 4 bytes")
    texts = (finding.message, *finding.details)
    assert " ".join(texts).count("both write 4 bytes") == 1
    assert len(finding.message) <= 80
    assert 0 < len(finding.help) <= 100
    for text in (*texts, finding.help):
        assert "None" not in text
        assert "{" not in text
        assert not text.endswith(".")
        assert "  " not in text
    text = report(finding)
    assert f"{kind} ({CODE_OF_KIND[kind]}) in kernel 'twice'" in text
    assert "launched at train.py:12" in text
    assert f"help: {finding.help}" in " ".join(text.split())
    assert "None" not in text


HOSTILE = "k\x1b[31m\n::error::x\r##[error]y\u202e\udcff"


def test_no_text_of_a_kernel_controls_a_terminal():
    finding = KernelFinding(
        kind="out-of-bounds",
        kernel=HOSTILE,
        part="body",
        line=1,
        thread=None,
        message=f"{HOSTILE} is out of bounds.",
        excerpt=f"{HOSTILE};",
        launched_at=(HOSTILE, 3),
    )
    diagnostic = CompilerError("error", "body", 1, 2, HOSTILE, f"\t{HOSTILE}")
    error = CompileError(HOSTILE, [diagnostic], f"void f() {{\n{HOSTILE}")
    for text in (report(finding), str(error)):
        lines = text.split("\n")
        assert all(c.isprintable() or c == "\t" for line in lines for c in line)
        assert not [line for line in lines if line.lstrip().startswith("::") or "##[" in line]
        assert "\\x1b[31m" in text
