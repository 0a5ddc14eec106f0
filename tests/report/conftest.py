"""A run's outcome with a finding of every shape that reports have to show."""

from __future__ import annotations

import pytest
from msgspec import Struct

from embercoach.finding import Edit, Finding, Fix, Step
from embercoach.report.outcome import SourceTexts

MODEL = '''\
import mlx.core as mx

KERNEL = mx.fast.metal_kernel(
    name="scale",
    source="""
        uint i = thread_position_in_grid.x;
        out[i] = inp0[i];
    """,
)


def forward(x: mx.array) -> float:
\ttotal = 0.0
\tfor row in x:
\t\ttotal += row.sum().item()
\t日本語, n = x * 0.5, mx.maximum(
\t\tx, 1e-7
\t)
\treturn total
'''
WIDE = "import mlx.core as mx\n" + "y = [" + "1, " * 60 + "x.item(), " + "2, " * 60 + "]"
ODD = "import mlx\x0c; x\x1b[31m = '\u202e\u200bé\u0301\ud800' + y.item()\r\nz = 1\r\n"


class Problem(Struct, frozen=True):
    path: str
    line: int
    column: int
    message: str
    cell: int | None = None
    is_unchecked: bool = False


class Outcome(Struct, frozen=True):
    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...] = ()
    files_checked: int = 3
    files_skipped: int = 2
    suppressed: int = 1


def at(text: str, word: str, start: int = 0) -> tuple[int, int]:
    offset = text.index(word, start)
    return offset, offset + len(word)


FINDINGS = (
    Finding(
        "KERNEL-SIG-005",
        3,
        10,
        9,
        2,
        "the body uses `inp0`, which is neither an input nor declared",
        "name it in input_names,\nor declare it in the body",
        "script",
        path="src/model.py",
        severity="error",
    ),
    Finding(
        "GRAPH-BREAK-001",
        15,
        12,
        15,
        29,
        "`.item()` waits for the array: 100% of the loop, every time",
        "pull once, after the loop",
        "avoidable",
        flow=(
            Step(12, 13, 12, 14, "parameter `x` of `forward`"),
            Step(14, 13, 14, 14, "`row` goes through `x`"),
        ),
        related=(Step(14, 13, 14, 14, "the loop over [`x`]"),),
        path="src/model.py",
        severity="warning",
    ),
    Finding(
        "PYTHON-SCALAR-002",
        16,
        11,
        16,
        18,
        "Python number in array arithmetic",
        "use mx.multiply",
        "minor",
        Fix(
            "Use mx.multiply with an array of the same dtype",
            safe=False,
            edits=(Edit(*at(MODEL, "x * 0.5"), "mx.multiply(x, mx.array(0.5, dtype=x.dtype))"),),
        ),
        path="src/model.py",
        severity="note",
    ),
    Finding(
        "DTYPE-001",
        16,
        20,
        18,
        3,
        "float32 meets half precision",
        "",
        "default",
        Fix(
            "Give the constant the array's dtype",
            safe=True,
            edits=(
                Edit(0, 0, "import mlx.nn as nn\n"),
                Edit(*at(MODEL, "1e-7"), "mx.array(1e-7, dtype=x.dtype)"),
            ),
        ),
        path="src/model.py",
        severity="warning",
    ),
    Finding(
        "GRAPH-BREAK-001",
        1,
        33,
        1,
        41,
        "waits",
        "don't",
        "default",
        path="src/odd, name%.py",
        severity="warning",
    ),
    Finding(
        "GRAPH-BREAK-001",
        2,
        186,
        2,
        194,
        "raises",
        "don't",
        "compiled",
        path="wide.py",
        severity="error",
    ),
)
PROBLEMS = (
    Problem("src/broken.py", 4, 7, "syntax error: invalid syntax"),
    Problem("src/latin.py", 1, 12, "byte 0xe9 cannot be decoded as utf-8"),
)


@pytest.fixture
def outcome() -> Outcome:
    return Outcome(FINDINGS, PROBLEMS)


@pytest.fixture
def clean() -> Outcome:
    return Outcome((), files_checked=1, files_skipped=0, suppressed=0)


@pytest.fixture
def sources() -> SourceTexts:
    return SourceTexts({"src/model.py": MODEL, "wide.py": WIDE, "src/odd, name%.py": ODD})
