"""``embercoach shapes``: a program with the shapes of its arrays."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.cli.conftest import Ran

Cli = Callable[..., Ran]
SCHEMA = Draft202012Validator(
    json.loads(files("embercoach.cli").joinpath("shapes.schema.json").read_text("utf-8"))
)
PROGRAM = """\
import mlx.core as mx


def attend(x: mx.array, n: mx.array, *, heads: int) -> mx.array:
    B, S, D = x.shape
    q = mx.zeros((B, heads, S, 64), mx.bfloat16)
    é, k = x[:, : n.item()], mx.zeros((*n.shape, 4))
    flat = mx.concatenate([x, x])
    return mx.softmax(
        q, axis=-1
    )
"""
SHOWN = """\
import mlx.core as mx


def attend(x: mx.array, n: mx.array, *, heads: int) -> mx.array:
    B, S, D = x.shape
    q = mx.zeros((B, heads, S, 64), mx.bfloat16)      # q: bf16[B, heads, S, 64]
    é, k = x[:, : n.item()], mx.zeros((*n.shape, 4))  # é: [B, ?, D], k: f32[*n, 4]
    flat = mx.concatenate([x, x])                     # flat: [2 * B, S, D]
    return mx.softmax(                                # return: bf16[B, heads, S, 64]
        q, axis=-1
    )
"""


@pytest.fixture
def file(project: Path) -> Path:
    path = project / "model.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def test_each_line_has_its_arrays_in_an_aligned_comment(embercoach: Cli, file: Path) -> None:
    assert embercoach("shapes", "model.py") == Ran(0, SHOWN, "")


def test_a_line_comes_with_what_makes_its_arrays(embercoach: Cli, file: Path) -> None:
    q = "bf16[B, heads, S, 64]"
    made = "`q = mx.zeros((B, heads, S, 64), mx.bfloat16)`"
    line = PROGRAM.splitlines()[5]
    ran = embercoach("shapes", "model.py:6")
    assert ran.out == f"{line}  # q: {q}\nq: {q}, made at line 6: {made}\n"
    explained = embercoach("explain", "model.py:6").out.splitlines()
    assert explained == [
        "No findings at model.py:6.",
        "",
        "Shapes of the arrays that the line assigns or returns:",
        f"    q: {q}, made at line 6: {made}",
    ]
    assert embercoach("shapes", "model.py:5").out == "No arrays are known in model.py:5.\n"


def test_the_line_of_another_file_is_not_named(embercoach: Cli, file: Path) -> None:
    (file.parent / "made.py").write_text(
        "import mlx.core as mx\n\n\ndef made():\n    return mx.ones((3, 4))\n", encoding="utf-8"
    )
    file.write_text("import mlx\nfrom made import made\n\nx = made()\n", encoding="utf-8")
    out = embercoach("shapes", "model.py:4").out
    assert out == "x = made()  # x: f32[3, 4]\nx: f32[3, 4]\n"


def test_json_has_sizes_names_and_what_is_unknown(embercoach: Cli, file: Path) -> None:
    reported = json.loads(embercoach("shapes", "model.py:7", "--format", "json").out)
    SCHEMA.validate(reported)
    assert (reported["path"], reported["line"]) == ("model.py", 7)
    first, second = reported["arrays"]
    assert first == {
        "line": 7,
        "column": 5,
        "end_column": 6,
        "name": "é",
        "shape": ["B", None, "D"],
        "dtype": None,
        "text": "[B, ?, D]",
        "made_at": 7,
    }
    assert (second["column"], second["shape"], second["dtype"]) == (8, ["...", 4], "float32")
    whole = json.loads(embercoach("shapes", "model.py", "--output-format", "json").out)
    assert [one["line"] for one in whole["arrays"]] == [6, 7, 7, 8, 9]
    of_line = json.loads(embercoach("explain", "model.py:7", "--output-format", "json").out)
    assert of_line["shapes"] == reported["arrays"]


@pytest.mark.parametrize(
    ("argument", "source", "words"),
    [
        ("model.py", "x = = 1\n", "model.py:1:5: invalid syntax"),
        pytest.param(
            "model.py",
            "import mlx\ntype A = int\n",
            "model.py:2:6: the running Python can't read this",
            marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python 3.12 reads it"),
        ),
        ("model.py", f"x = {'1' * 4_500_000}\n", "max-file-size"),
        ("model.py:9", "x = 1\n", "model.py has 1 line, got line 9"),
        ("model.py:1:2", "x = 1\n", "use FILE or FILE:LINE"),
        ("absent.py", "", "cannot read absent.py: No such file or directory"),
        ("a.metal", "", "FILE must be a Python file, got a.metal"),
        (".", "", "FILE must be a file, got the folder ."),
    ],
)
def test_a_file_without_an_answer_is_an_error(
    embercoach: Cli, file: Path, argument: str, source: str, words: str
) -> None:
    file.write_text(source, encoding="utf-8")
    ran = embercoach("shapes", argument)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_long_lines_are_cut(embercoach: Cli, file: Path) -> None:
    many = "; ".join(f"x{number} = mx.ones(3)" for number in range(500))
    file.write_text(f"import mlx.core as mx\n{many}\n", encoding="utf-8")
    _, line = embercoach("shapes", "model.py").out.splitlines()
    assert len(line) < 700
    assert line.count("…") == 2
