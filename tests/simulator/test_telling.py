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
    RawFinding,
    SourceMap,
)
from embercoach.simulator.telling import report, tell

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
        ("x", 16, "x[16] is out of bounds: x has 16 elements, read of 4 bytes. "),
        ("back", -5, "back[-5] is out of bounds: back has 10 elements, -4 to 5, read of 4 bytes. "),
        ("one", 1, "one[1] is out of bounds: one has 1 element, read of 4 bytes. "),
        ("none", 0, "none[0] is out of bounds: none is empty, read of 4 bytes. "),
        ("tile", 40, "tile[40] is out of bounds: read of 4 bytes. "),
        ("", None, "Memory outside of every buffer is out of bounds: read of 4 bytes. "),
    ],
)
def test_bounds_are_told(buffer, element, start):
    detail = "read of 4 bytes"
    message = told("out-of-bounds", buffer=buffer, element=element, detail=detail).message
    assert message.startswith(start)


def test_the_other_access_is_told_with_its_thread_and_line():
    message = told("threadgroup-race", other=OTHER, buffer="tile", element=3).message
    assert message.startswith(
        "tile[3] is accessed by two threads of a threadgroup in no order; the other is by thread "
        "(4, 0, 0) of threadgroup (0, 0, 0) at body line 1: first();, and no barrier lies between "
        "them. "
    )
    assert "threadgroup_barrier(mem_flags::mem_threadgroup)" in message


@pytest.mark.parametrize(
    ("count", "start"),
    [
        (1, "No thread writes x[16]: x has 16 elements. "),
        (2, "No thread writes x[16] and 1 more element: x has 16 elements. "),
        (9, "No thread writes x[16] and 8 more elements: x has 16 elements. "),
    ],
)
def test_how_much_is_unwritten(count, start):
    assert told("unwritten-output", at=NOWHERE, count=count).message.startswith(start)


@pytest.mark.parametrize("kind", CODE_OF_KIND)
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
