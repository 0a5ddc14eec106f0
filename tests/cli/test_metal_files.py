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


@pytest.mark.parametrize("reader", ["k.py", "../k.py"])
def test_a_named_body_is_checked_with_the_file_that_reads_it(
    embercoach: Cli, project: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    folder = project / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "body.metal").write_text("y[0] = thread_position_in_grid.x;\n")
    alone = embercoach("check", "body.metal")
    assert alone.out.startswith(
        "Nothing to check in 1 file: no MLX code, `skip-file`, or a kernel's body"
    )
    place = f"{Path('folder' if '..' in reader else '', 'body.metal').as_posix()}"
    (folder / reader).write_text(
        "import mlx.core as mx\nfrom pathlib import Path\nwrong = mx.arrange(3)\n"
        f'text = (Path(__file__).parent / "{place}").read_text()\n'
        'k = mx.fast.metal_kernel("k", [], ["y"], text)\n'
        "k(inputs=[], output_shapes=[(1,)], output_dtypes=[mx.uint32], grid=(9, 1, 1),\n"
        "  threadgroup=(9, 1, 1))\n"
    )
    found = json.loads(embercoach("check", "body.metal", "--output-format", "json").out)["findings"]
    assert [(one["path"], one["line"], one["code"]) for one in found] == [
        ("body.metal", 1, "KERNEL-RACE-002")
    ]
    assert found[0]["help"].endswith(f"{Path(reader)}:5 reads this file")
    again = embercoach("check", "body.metal").out
    assert "KERNEL-RACE-002" in again
    assert again.endswith("Found 1 error; 2 files checked.\n")
    if ".." in reader:
        (project / "pyproject.toml").touch()
        assert "body.metal:1:1: KERNEL-RACE-002" in embercoach("check", ".").out
    assert "KERNEL-RACE-002" in embercoach("explain", "body.metal:1").out


def test_a_body_that_two_files_read_through_another_has_its_findings_once(
    embercoach: Cli, project: Path
) -> None:
    (project / "body.metal").write_text("y[0] = threadIdx.x;\n")
    (project / "loader.py").write_text(
        "from pathlib import Path\n\ndef load(name: str) -> str:\n"
        '    return (Path(__file__).parent / f"{name}.metal").read_text()\n'
    )
    for name in ("a.py", "b.py"):
        (project / name).write_text(
            "import mlx.core as mx\nfrom loader import load\n"
            'k = mx.fast.metal_kernel("k", [], ["y"], load("body"))\n'
        )
    found = json.loads(embercoach("check", ".", "--output-format", "json").out)["findings"]
    assert [(one["path"], one["code"]) for one in found] == [("body.metal", "KERNEL-SIG-005")]
    assert found[0]["help"].endswith("a.py:3 reads this file")
