"""Messages: what, where, which thread, which element of how many, the other access, and the fix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from embercoach.simulator.model import (
    CODE_OF_KIND,
    Access,
    Buffer,
    BuiltKernel,
    Finding,
    RawFinding,
    SourceMap,
)
from embercoach.simulator.reporting.compiler_errors import CompileError, Diagnostic
from embercoach.simulator.reporting.messages import TOLD, report, tell

SOURCE = "// header\n[[kernel]] void f() {\n  first();\n  second();\n}\n"
KERNEL = BuiltKernel("twice", Path("none"), (), SOURCE, SourceMap(1, 3, 2), True)
BUFFERS = (
    Buffer("x", 0, "input", np.zeros(64, np.uint8), 4),
    Buffer("back", 1, "input", np.zeros(40, np.uint8), 4, offset=16),
    Buffer("one", 2, "input", np.zeros(4, np.uint8), 4),
    Buffer("none", 3, "input", np.zeros(0, np.uint8), 4),
)
AT = Access(4, (5, 0, 0), (1, 0, 0))
OTHER = Access(3, (4, 0, 0), (0, 0, 0))
NOWHERE = Access(None, None, None)


def told(kind, at=AT, other=None, buffer="x", element=16, detail="", count=1):
    raw = RawFinding(kind, at, other, buffer, element, detail, count)
    return tell(raw, KERNEL, BUFFERS, ("train.py", 12))


def test_a_finding_has_its_place():
    finding = told("out-of-bounds", count=3)
    assert (finding.kind, finding.code) == ("out-of-bounds", "SIM-BOUNDS-001")
    assert (finding.kernel, finding.part, finding.line) == ("twice", "body", 2)
    assert (finding.thread, finding.excerpt) == ((5, 0, 0), "second();")
    assert (finding.launched_at, finding.count) == (("train.py", 12), 3)


@pytest.mark.parametrize(
    ("line", "place"), [(1, ("header", 1)), (2, ("generated", 2)), (None, ("generated", None))]
)
def test_lines_are_those_of_the_users_texts(line, place):
    finding = told("out-of-bounds", at=Access(line, None, None))
    assert (finding.part, finding.line) == place


@pytest.mark.parametrize(
    ("buffer", "element", "start"),
    [
        ("x", 16, "A read of x[16] is out of bounds: x has 16 elements. "),
        ("back", -5, "A read of back[-5] is out of bounds: back has 10 elements, -4 to 5. "),
        ("one", 1, "A read of one[1] is out of bounds: one has 1 element. "),
        ("none", 0, "A read of none[0] is out of bounds: none is empty. "),
        ("tile", 40, "A read of tile[40] is out of bounds. "),
        ("a", 1, "A read of a[1] is out of bounds. "),
        ("", None, "A read of memory outside of every buffer is out of bounds. "),
    ],
)
def test_bounds_are_told(buffer, element, start):
    message = told("out-of-bounds", buffer=buffer, element=element, detail="a read").message
    assert message.startswith(start)


def test_bounds_that_the_compiler_saw_are_told():
    message = told("out-of-bounds", buffer="acc", element=4, detail="index 4 of float[4]").message
    assert message.startswith("acc[4] is out of bounds: index 4 of float[4]. ")


def test_the_other_access_is_told_with_its_thread_and_line():
    detail = "a write here, a read there"
    race = told("threadgroup-race", other=OTHER, buffer="tile", element=3, detail=detail).message
    assert race.startswith(
        "tile[3] is accessed by two threads of a threadgroup in no order: a write here, a read "
        "there. Here it is thread (5, 0, 0) of threadgroup (1, 0, 0), there thread (4, 0, 0) of "
        "threadgroup (0, 0, 0), body line 1: `first();`. "
    )
    assert "threadgroup_barrier(mem_flags::mem_threadgroup)" in race
    someone = told("device-race", other=Access(3, None, None)).message
    assert "there another thread, body line 1: `first();`. " in someone
    no_line = told("device-race", at=Access(4, None, None), other=Access(None, (1, 2, 3), None))
    assert " The other is thread (1, 2, 3). " in no_line.message


@pytest.mark.parametrize(
    ("other", "where"),
    [
        (OTHER, "of threadgroup (0, 0, 0) is at body line 1: `first();`."),
        (Access(None, (4, 0, 0), (0, 0, 0)), "of threadgroup (0, 0, 0) does not come here."),
    ],
)
def test_who_is_missing_at_a_barrier(other, where):
    message = told("divergent-barrier", other=other, detail="1 thread waits here").message
    assert f"For one, thread (4, 0, 0) {where} A GPU hangs here" in message


def test_values_that_memory_decides():
    detail = "a variable without a value decides on it"
    message = told("uninitialized-read", at=Access(4, None, None), detail=detail).message
    assert message.startswith(f"x[16] differs from run to run: {detail}. ")


@pytest.mark.parametrize(
    ("count", "start"),
    [
        (1, "No thread writes x[16]: x has 16 elements. "),
        (2, "No thread writes x[16] and 1 more element: x has 16 elements. "),
        (9, "No thread writes x[16] and 8 more elements: x has 16 elements. "),
    ],
)
def test_how_much_is_unwritten(count, start):
    finding = told("unwritten-output", at=NOWHERE, count=count)
    assert finding.message.startswith(start)
    assert "times" not in report(finding)


def test_reports_break_no_positions_and_no_code():
    for width in range(60):
        finding = told("threadgroup-race", other=OTHER, buffer="x" * width, element=3)
        text = report(finding)
        assert "(5, 0, 0) of" in " ".join(text.split())
        for line in text.split("\n"):
            assert len(line) <= 100
            assert line.count("(") == line.count(")")
            assert line.count("`") % 2 == 0


def test_all_kinds_of_a_run_are_told():
    assert set(CODE_OF_KIND) - TOLD == {"does-not-compile", "variant-does-not-compile"}


@pytest.mark.parametrize("kind", sorted(TOLD))
@pytest.mark.parametrize("at", [AT, NOWHERE])
@pytest.mark.parametrize("other", [None, OTHER, NOWHERE])
@pytest.mark.parametrize("buffer", ["x", ""])
def test_every_kind_is_told_in_whole_sentences(kind, at, other, buffer):
    finding = told(kind, at=at, other=other, buffer=buffer, detail="both write 4 bytes")
    assert finding.message.count("both write 4 bytes") == 1
    assert "None" not in finding.message
    assert "{" not in finding.message
    assert finding.message.endswith(".") or finding.message.endswith(").")
    assert ".." not in finding.message.replace("...", "")
    assert "  " not in finding.message
    text = report(finding)
    assert f"{kind} ({CODE_OF_KIND[kind]}) in kernel 'twice'" in text
    assert "launched at train.py:12" in text
    assert "None" not in text


HOSTILE = "k\x1b[31m\n::error::x\r##[error]y\u202e\udcff"


def test_no_text_of_a_kernel_controls_a_terminal():
    finding = Finding(
        kind="out-of-bounds",
        kernel=HOSTILE,
        part="body",
        line=1,
        thread=None,
        message=f"{HOSTILE} is out of bounds.",
        excerpt=f"{HOSTILE};",
        launched_at=(HOSTILE, 3),
    )
    diagnostic = Diagnostic("error", "body", 1, 2, HOSTILE, f"\t{HOSTILE}")
    error = CompileError(HOSTILE, [diagnostic], f"void f() {{\n{HOSTILE}")
    for text in (report(finding), str(error)):
        lines = text.split("\n")
        assert all(c.isprintable() or c == "\t" for line in lines for c in line)
        assert not [line for line in lines if line.lstrip().startswith("::") or "##[" in line]
        assert "\\x1b[31m" in text
