"""The command line on ``.metal`` and ``.mm`` files: every output, standard input, fixes."""

from __future__ import annotations

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


def test_a_body_alone_is_not_called_clear(embercoach: Cli, project: Path) -> None:
    (project / "body.metal").write_text("uint i = thread_position_in_grid.x;\ny[i] = x[i];\n")
    ran = embercoach("check", "body.metal")
    assert ran.out == (
        "Nothing to check in 1 file: no MLX code, or a kernel's body without its kernel.\n"
    )
