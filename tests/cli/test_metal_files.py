"""The command line on ``.metal`` and ``.mm`` files: every output, standard input, fixes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
BAD = "kernel void f(\n    device float* x [[buffer(31)]]) {\n  x[0] = 0;\n}\n"
CODE = "KERNEL-UNIT-002"
IDLE = "int n() { return 1; }  // embercoach: ignore[KERNEL-RACE-001]\n"


@pytest.fixture
def metal(project: Path) -> Path:
    path = project / "a.metal"
    path.write_text(BAD)
    return path


def test_text_shows_the_line(embercoach: Cli, metal: Path) -> None:
    ran = embercoach("check", "a.metal")
    assert ran.code == 1
    assert f"a.metal:2:21: {CODE} error buffer index 31" in ran.out
    assert "2 |     device float* x [[buffer(31)]]) {\n" in ran.out
    assert "  |                     ^^^^^^^^^^^^^^\n" in ran.out
    assert "1 file checked" in ran.out


@pytest.mark.parametrize("output", ["concise", "github", "json", "sarif"])
def test_machines_read_the_place(embercoach: Cli, metal: Path, output: str) -> None:
    ran = embercoach("check", "--output-format", output, ".")
    assert ran.code == 1
    if output == "json":
        (finding,) = json.loads(ran.out)["findings"]
        assert (finding["path"], finding["line"], finding["column"]) == ("a.metal", 2, 21)
    elif output == "sarif":
        (result,) = json.loads(ran.out)["runs"][0]["results"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "a.metal"
        assert (place["region"]["startLine"], place["region"]["startColumn"]) == (2, 21)
    else:
        assert CODE in ran.out
        assert "a.metal" in ran.out


@pytest.mark.parametrize(
    ("name", "code"), [("b.metal", 1), ("b.mm", 0), ("b.py", 0)], ids=["metal", "mm", "py"]
)
def test_standard_input_is_what_its_name_says(embercoach: Cli, name: str, code: int) -> None:
    # In the others there is nothing that concerns MLX or Metal.
    ran = embercoach("check", "-", "--stdin-filename", name, stdin=BAD.encode())
    assert ran.code == code
    assert (CODE in ran.out) == bool(code)


def test_suppressions_are_fixed_and_written(embercoach: Cli, metal: Path) -> None:
    ran = embercoach("check", "--add-noqa", "a.metal")
    assert ran.code == 0
    assert metal.read_text() == BAD.replace(") {", f") {{  // embercoach: ignore[{CODE}]")
    metal.write_text(IDLE)
    assert "-int n() { return 1; }  // embercoach" in embercoach("check", "--diff", "a.metal").out
    assert embercoach("check", "--fix", "a.metal").code == 0
    assert metal.read_text() == "int n() { return 1; }\n"


def test_files_are_listed(embercoach: Cli, metal: Path) -> None:
    (metal.parent / "b.mm").write_text("")
    assert embercoach("check", "--show-files").out.split() == ["a.metal", "b.mm"]


def test_selection_and_profiles(embercoach: Cli, metal: Path) -> None:
    assert embercoach("check", "--ignore", "KERNEL-UNIT", "a.metal").code == 0
    assert embercoach("check", "--select", "DTYPE", "a.metal").code == 0
    assert embercoach("check", "--select", CODE, "--profile", "ember", "a.metal").code == 1
