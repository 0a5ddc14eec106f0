"""CONTRIBUTING.md and the page on the architecture are correct: the steps add a rule."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embercoach.rulebook import SIMULATED
from embercoach.testing.rule_pages import page_of
from tests.examples.readme import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    for name in ("conftest", "precompiled", "rows", "sampling", "processes"):
        shutil.copy(ROOT / "tests" / f"{name}.py", copy / "tests")
    shutil.copy(ROOT / "pyproject.toml", copy)
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


@pytest.mark.sampled(0)
@pytest.mark.skipif(shutil.which("bash") is None, reason="the commands are for bash")
def test_the_steps_add_a_rule(outputs: list[str]) -> None:
    facts, tests, found = outputs
    assert "Array(dtype=int8" in facts
    assert re.search(r"\b[1-9]\d* passed", tests), tests
    assert " failed" not in tests
    assert re.search(rf"^{CODE} .*int8-square", found, re.MULTILINE)
    assert f"example.py:3:11: {CODE} warning square of an int8 array" in found


def test_the_simulators_pages_are_described() -> None:
    assert f"`rules/{SIMULATED}*.md`" in TEXT


def test_every_package_is_named() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`embercoach/[^|]+) \|", page, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`embercoach/([a-z_]+)`", row)}
    packages = {path.name for path in (ROOT / "embercoach").iterdir() if path.is_dir()}
    assert named == {name for name in packages if not name.startswith("__")}


def test_modules_and_names_of_the_architecture_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z_/]+\.py`.*?) \| (`.+?`) \| .+ \|$", page, re.MULTILINE)
    assert len(rows) > 40
    assert len(page.splitlines()) <= 150
    for modules, names in rows:
        paths = [ROOT / "embercoach" / name for name in re.findall(r"`(.+?)`", modules)]
        assert [path for path in paths if not path.is_file()] == []
        defined = {name for path in paths for name in names_in(path)}
        assert set(re.findall(r"`(.+?)`", names)) <= defined, modules
    for folder, module in re.findall(r"`((?:[a-z_]+/)+)([a-z_]+\.py)?`", page):
        assert (ROOT / "embercoach" / folder / module).exists() or (ROOT / folder / module).exists()


def names_in(module: Path) -> Iterator[str]:
    """The functions and classes of a module, and the methods as ``Class.method``."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{one.name}" for one in node.body if hasattr(one, "name"))
