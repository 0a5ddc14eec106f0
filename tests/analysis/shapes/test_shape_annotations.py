"""Shapes in annotations and comments: what is read, and what contradicts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.analysis.shapes.annotated_shapes import commented_shape, typed_shape
from embercoach.analysis.shapes.size_integers import ANY_INT, Integer
from tests.checks.findings import codes, findings
from tests.checks.test_through_files import flagged

if TYPE_CHECKING:
    from pathlib import Path

SIZES = {"B": 2, "S": 3, "D": 8}
COMMENTS = [
    ("# (B, S, D)", "(2, 3, 8)"),
    ("#  [B, S*2, D//2] tokens", "(2, 6, 4)"),
    ("# (B,)", "(2,)"),
    ("# [B]", "(2,)"),
    ("# (B, T', -1, 1): padded", "(2, ?, ?, 1)"),
    ("# (..., D + 1)", "(..., 9)"),
    ("# (*batch, n=4)", "(*batch, 4)"),
    ("# (16, 16)", "(16, 16)"),
    ("# (optional)", None),
    ("# [TODO]", None),
    ("# (B, hidden size)", None),
    ("# (B, S) -> (S, B)", None),
    ("# (B, S) or scalar", None),
    ("# (B, S)[0]", None),
    ("# (0, 1)", None),
    ("# [1, 2, 3]", None),
    ("# (a, f(b))", None),
    ("# (B, (S, D))", None),
    ("# (B, S", None),
    ("# the shape is (B, S)", None),
    ("x  # (B, S)", None),
    ("# (" + "B, " * 200 + "S)", None),
]
TYPES = [
    ("B S D", "(2, 3, 8)"),
    ("*batch D//2", "(*batch, 4)"),
    ("B ... #S _ _name", "(2, ..., ?, ?, ?)"),
    ("rows=4 D-1", "(4, 7)"),
    ("B min(S,D) {n}", "(2, ?, ?)"),
    ("", "()"),
    ("*a *b", None),
]


def of_name(name: str) -> Integer:
    return SIZES.get(name, ANY_INT)


@pytest.mark.parametrize(("text", "expected"), COMMENTS)
def test_comments(text: str, expected: str | None) -> None:
    found = commented_shape(text.encode())
    assert (None if found is None else str(found.shape(of_name, {}))) == expected


@pytest.mark.parametrize(("text", "expected"), TYPES)
def test_annotations(text: str, expected: str | None) -> None:
    found = typed_shape(text)
    assert (None if found is None else str(found.shape(of_name, {}))) == expected


IMPORT = "from typing import Optional\nfrom jaxtyping import Bool, Float, Float32\n"
FUNCTION = "def f(x: mx.array, y: mx.array):\n    B, S, D = x.shape\n    "
CALL = "f(mx.zeros((2, 3)), mx.zeros(3))"
#: A program, and the code of its sole finding.
PROGRAMS = [
    # Assignments.
    (FUNCTION + "z = x.swapaxes(1, 2)  # (B, S, D)", "006"),
    (FUNCTION + "z = x.swapaxes(1, 2)  # (B, D, S)", ""),
    (FUNCTION + "z = x.swapaxes(1, 2)  # (N, T, C)", ""),
    (FUNCTION + "z = x.swapaxes(1, 2)  # (b, s, d)", ""),
    (FUNCTION + "z = x.sum(-1)  # (B, S, 1)", "006"),
    (FUNCTION + "z = x.sum(-1)  # (..., B, S, 1)", "006"),
    (FUNCTION + "z = x.sum(\n        -1\n    )  # (B, S, 1)", "006"),
    (FUNCTION + "z = x[:, :, :4]  # (B, S, 5)", ""),
    (FUNCTION + "z = x.reshape(B, -1, 4)  # (B, S * D // 4, 5)", "006"),
    (FUNCTION + "x += y.reshape(B, S, D)  # (B, S)", "006"),
    (FUNCTION + "z, w = x, x  # (B, S)", ""),
    (FUNCTION + "z = x; w = x  # (B, S)", "006"),
    (FUNCTION + "z = x\n    # (B, S)", ""),
    (FUNCTION + "box = x[:, 0, :4]  # (x, y, w, h)", ""),
    (FUNCTION + "z: Float[mx.array, 'B D'] = x", "006"),
    (FUNCTION + "order = S - mx.arange(S)  # (S, S-1, ..., 1)", ""),
    ("x = mx.zeros((2, 3))  # (2, 4)", "006"),
    ("def f(s):\n    x = g(s)  # (B, 4, 8)\n    return x.swapaxes(1, 3)", "001"),
    # Parameters.
    ("def f(\n    x,  # (B, 4)\n):\n    return x + 1\nf(mx.zeros((2, 3)))", "006"),
    ("def f(\n    x,  # (B, 4)\n):\n    return x + 1\nf(mx.zeros((2, 4)))", ""),
    ("def f(x, y):  # (B, 4)\n    return x + 1\nf(mx.zeros(2), 0)", ""),
    ("def f(\n    x,  # (B, S, D)\n):\n    return x @ x", "002"),
    ("def f(\n    size,  # (H, W)\n):\n    h, w = size\n    return mx.zeros((h, w))", ""),
    ("def f(x: Float[mx.array, 'B S']):\n    return x @ x", "002"),
    ("def f(x: 'Optional[Float[mx.array, \"B S\"]]'):\n    return x.sum(2)", "001"),
    ("def f(x: Bool[mx.array, '4 4'] | None):\n    return x.sum(2)", "001"),
    ("def f(x: Float[mx.array, 'B D'], y: Float[mx.array, 'B']):\n    return x, y\n" + CALL, "006"),
    ("def f(\n    x,  # (B, D)\n    y,  # (B,)\n):\n    return x, y\n" + CALL, ""),
    # Results.
    ("def f(x: Float[mx.array, 'B S']) -> Float[mx.array, 'S B']:\n    return x", "006"),
    ("def f(x: Float[mx.array, 'B S']) -> Float[mx.array, 'S B']:\n    return x.T", ""),
]


@pytest.mark.parametrize(("program", "number"), PROGRAMS)
def test_programs(program: str, number: str) -> None:
    expected = [f"SHAPE-{number}"] if number else []
    assert codes(f"{IMPORT}{program}\n", "SHAPE") == expected


#: The docstring of a function that adds x and y, and whether that broadcasts silently.
DESCRIPTIONS = [
    ("Add x (B, S) and y (B,).", True),
    ("Add x (B, S) and y (B).", False),
    ("Add x (B, S, D) and y (B, D).", True),
    ("Add.\n\n    x: of shape (B, S, D).\n    y: (B, D)\n    ", True),
    ("Add.\n\n    x (mx.array): [B, S, D]\n    y (array): [B, D], floats\n    ", True),
    ("Add.\n\n    x: (B, S, D)\n    y: (B, 1, D)\n    ", False),
    ("Add.\n\n    x: (B, S, D)\n    n, y: (B, D)\n    ", True),
    ("Add to x, y (B, S, D).", False),
    ("Add.\n\n    x: (B, S, D) or (B, D)\n    y: (B, D)\n    ", False),
    ("Add.\n\n    n: as x (B, S, D)\n    y: (B, D)\n    ", False),
    ("Add.\n\n    x: pairs (B, S, D)\n    y: (B, D)\n    ", False),
]
ADDS = "(x: mx.array, y: mx.array):\n        "


@pytest.mark.parametrize(("text", "expected"), DESCRIPTIONS)
def test_descriptions_of_parameters(text: str, expected: bool) -> None:
    program = f'def f{ADDS}"""{text}"""\n        return x + y\n'
    assert codes(program, "SHAPE") == ["SHAPE-003"] * expected


def test_comments_and_methods_that_share_a_description() -> None:
    comment = f"def f{ADDS}# x: (B, S, D), y: (B, D)\n        return x + y\n"
    assert codes(comment, "SHAPE") == ["SHAPE-003"]
    method = ADDS.replace("(x", "(self, x")
    base = f'class A:\n    def f{method}"""Add x (B, S, D) and y (B, D)."""\n'
    derived = f"class B(A):\n    def f{method}return x + y\n"
    assert codes(base + derived, "SHAPE") == ["SHAPE-003"]


def test_a_description_alone_makes_no_error() -> None:
    program = 'def f(x: mx.array):\n    """Sum x (B, S)."""\n    return x.sum(2)\n'
    assert codes(program, "SHAPE") == []


def test_the_message_names_the_call() -> None:
    program = "def f(\n    x,  # (B, 4)\n):\n    return x\n\nf(mx.zeros((2, 3)))\n"
    (found,) = findings(program, "SHAPE")
    assert found.message == f"x is annotated (B, 4), and line {found.line + 4} passes (2, 3)"
    assert [step.line - found.line for step in found.related] == [4]


def test_a_call_of_another_file(tmp_path: Path) -> None:
    files = {
        "model.py": "import mlx.core as mx\ndef f(\n    x: mx.array,  # (B, 4)\n): return x.T\n",
        "main.py": "import mlx.core as mx\nfrom model import f\n\nf(mx.zeros((2, 3)))\n",
    }
    assert [(name, line) for name, line, _ in flagged(tmp_path, files, ("SHAPE",))] == [
        ("main.py", 4)
    ]
