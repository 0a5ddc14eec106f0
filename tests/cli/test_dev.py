"""``embercoach dev facts``: the value of each expression, as rules see it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from embercoach.cli.entry import group

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

PROGRAM = """\
import mlx.core as mx

def loss(x):
    half = mx.array([1.0, 2.0], dtype=mx.float16)
    for _ in range(3):
        scaled = half * 0.5
        print(scaled.item())
    return scaled
"""


def facts(file: Path, *options: str) -> Result:
    return CliRunner().invoke(group, ["dev", "facts", str(file), *options])


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "a.py"
    file.write_text(PROGRAM)
    return file


def test_each_expression_has_its_place_value_and_context(program: Path) -> None:
    lines = facts(program).output.splitlines()
    assert "6:18  half  Array(dtype=float16, literal=True)" in lines
    assert "6:18  half * 0.5  Array(dtype=float16, literal=True)" in lines
    assert "6:25  0.5  Number(kind=float, const=0.5)" in lines
    assert any(line.startswith("7:15  scaled.item()  Number(kind=float") for line in lines)


def test_json_holds_the_same(program: Path) -> None:
    found = json.loads(facts(program, "--format", "json").output)
    (product,) = (one for one in found if one["source"] == "half * 0.5")
    assert product == {
        "line": 6,
        "column": 18,
        "end_line": 6,
        "end_column": 28,
        "source": "half * 0.5",
        "value": {"type": "Array", "dtype": "float16", "literal": True},
    }
    assert len(found) == len(facts(program).output.splitlines())


@pytest.mark.parametrize("form", ["text", "json"])
def test_untrusted_text_is_escaped(tmp_path: Path, form: str) -> None:
    file = tmp_path / "a.py"
    text = f"\x1b[2J##[error]\u202e{'a' * 500}"
    file.write_text(f'import mlx.core as mx\nx = mx.array(len("{text}"))\n')
    output = facts(file, "--format", form).output
    assert output.isascii() or form == "text"
    assert not {"\x1b", "\u202e"} & set(output)
    assert "##[" not in output


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = = 1\n", "a.py:1:5: invalid syntax"),
        (f"x = {'-' * 20_000}1\n", "nested too deeply"),
        ("# coding: no-such\n", "no-such"),
        (f"x = {'1' * 4_500_000}\n", "max-file-size"),
    ],
    ids=["syntax", "depth", "encoding", "size"],
)
def test_a_file_that_cannot_be_analysed(tmp_path: Path, source: str, message: str) -> None:
    file = tmp_path / "a.py"
    file.write_text(source)
    result = facts(file)
    assert result.exit_code == 2
    assert message in result.output


def test_other_files_are_refused(tmp_path: Path) -> None:
    assert "must be a Python file" in facts(tmp_path / "a.metal").output
    assert "cannot read" in facts(tmp_path / "absent.py").output


def test_the_help_page_does_not_list_it() -> None:
    assert "dev" not in CliRunner().invoke(group, ["--help"]).output.split()
    assert "facts" in CliRunner().invoke(group, ["dev", "--help"]).output
