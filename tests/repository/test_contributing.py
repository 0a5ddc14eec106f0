"""CONTRIBUTING.md is correct: its steps add a rule, and it names every package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from embercoach.rulebook import SIMULATED
from tests.examples.readme import blocks
from tests.rules.pages import page_of

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
STEPS = [block for block in blocks(TEXT) if block.heading == "Add a rule"]
FILES = {
    found[1]: block.text
    for block in STEPS
    if (found := re.search(r'title="(.+)"', block.language)) is not None
}
COMMANDS = [block.text for block in STEPS if block.language == "bash"]
((PAGE, PAGE_TEXT),) = (item for item in FILES.items() if item[0].startswith("rules/"))
CODE = Path(PAGE).stem
#: The commands of the document are those of this Python.
SHELL = 'python() { "$PYTHON" "$@"; }; embercoach() { "$PYTHON" -m embercoach "$@"; }; '


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The output of each command of the section, in a copy with its files."""
    copy = tmp_path_factory.mktemp("copy")
    unneeded = shutil.ignore_patterns("__pycache__")
    for name in ("embercoach", "rules", "tests/rules"):
        shutil.copytree(ROOT / name, copy / name, ignore=unneeded)
    for name in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / name, copy / name)
    for name, text in FILES.items():
        (copy / name).write_text(text, encoding="utf-8")
    (bad,) = page_of(PAGE_TEXT, copy / PAGE).blocks_of("Bad")
    (copy / "example.py").write_text(bad.code, encoding="utf-8")
    environment = os.environ | {"PYTHON": sys.executable, "PYTHONPATH": str(copy), "NO_COLOR": "1"}
    return [
        subprocess.run(
            ["bash", "-c", SHELL + command],
            cwd=copy,
            env=environment,
            text=True,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ).stdout
        for command in COMMANDS
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="the commands are for bash")
def test_the_steps_add_a_rule(outputs: list[str]) -> None:
    facts, tests, found = outputs
    assert "Array(dtype=int8" in facts
    assert re.search(r"\b[5-9] passed", tests), tests
    assert " failed" not in tests
    assert re.search(rf"^{CODE} .*int8-square", found, re.MULTILINE)
    assert f"example.py:3:11: {CODE} warning square of an int8 array" in found


def test_the_simulators_pages_are_described() -> None:
    assert f"`rules/{SIMULATED}*.md`" in TEXT


def test_every_room_is_named() -> None:
    named = set(re.findall(r"`embercoach/([a-z_]+)`", TEXT))
    rooms = {path.name for path in (ROOT / "embercoach").iterdir() if path.is_dir()}
    assert named == {room for room in rooms if not room.startswith("__")}
