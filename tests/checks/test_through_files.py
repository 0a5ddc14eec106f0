"""Findings that depend on other functions, objects and files, each with its correct twin.

Lines of ``through_files.diff`` that begin with ``-`` are of the faulty program alone, those with
``+`` of the correct one. A comment names the code that a line must have.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from embercoach.checks import Project, check_source

HEAD = "import mlx.core as mx\nimport mlx.nn as nn\nimport mlx.optimizers as optim\n"


def programs_of(file: str) -> dict[str, str]:
    """The programs of a file, by what they are about."""
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    parts = (part.partition("\n") for part in text.removeprefix("@@ ").split("@@ "))
    return {name: body for name, _, body in parts}


PROGRAMS = programs_of("through_files.diff")
STATE = programs_of("lazy_state.diff")
FOLLOWED = programs_of("followed_values.diff")
#: What the programs are about; all other findings are left aside.
CODES = ("API-", "COMPILE-", "INDEX-", "NN-005", "HOST-PULL-002", "HOST-PULL-003", "HOST-PULL-013")


def files_of(program: str, side: str) -> dict[str, str]:
    """The sources of one of the two programs, by the names of the files."""
    files: dict[str, list[str]] = {}
    name = "main.py"
    for line in program.rstrip().split("\n"):
        if line.startswith("=== "):
            name = line.removeprefix("=== ")
        elif line[:1] in ("", " ", side):
            files.setdefault(name, []).append(line[1:])
    return {name: HEAD + "\n".join(lines) + "\n" for name, lines in files.items()}


def flagged(
    folder: Path, files: dict[str, str], codes: tuple[str, ...] = CODES
) -> set[tuple[str, int, str]]:
    """The findings of the files: name, line and code."""
    for name, source in files.items():
        (folder / name).write_text(source)
    return {
        (name, finding.line, finding.code)
        for name, source in files.items()
        for finding in check_source(source, folder / name, Project()).findings
        if finding.code.startswith(codes)
    }


def marked(files: dict[str, str]) -> set[tuple[str, int, str]]:
    """The lines with the comments."""
    return {
        (name, number, line.rpartition("  # ")[2])
        for name, source in files.items()
        for number, line in enumerate(source.split("\n"), 1)
        if "  # " in line
    }


@pytest.mark.parametrize("name", [*STATE, *FOLLOWED])
def test_only_the_program_with_the_fault_is_flagged(name: str, tmp_path: Path) -> None:
    program = {**STATE, **FOLLOWED}[name]
    faulty, correct = files_of(program, "-"), files_of(program, "+")
    codes = tuple({code for _, _, code in marked(faulty)})
    found = flagged(tmp_path, faulty, codes)
    assert {one for one in found if one[0] == "main.py"} == marked(faulty) != set()
    assert not {one for one in flagged(tmp_path, correct, codes) if one[0] == "main.py"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_the_faulty_program_is_flagged(name: str, tmp_path: Path) -> None:
    faulty = files_of(PROGRAMS[name], "-")
    assert marked(faulty)
    assert flagged(tmp_path, faulty) == marked(faulty)
    correct = {n: s.replace("  # ", "  #: ") for n, s in files_of(PROGRAMS[name], "+").items()}
    assert flagged(tmp_path, correct) == set()
