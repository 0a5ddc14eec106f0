"""The tree tells what is in it: known entries at the top, telling names, short modules."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOP = {
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "action.yml",
    "docs",
    "editors",
    "embercoach",
    "examples",
    "pyproject.toml",
    "rules",
    "tests",
    "xlstm_kernels",
}
REQUIRED = TOP - {"docs"}
MODULES = sorted(
    path for package in ("embercoach", "xlstm_kernels") for path in (ROOT / package).rglob("*.py")
)
LONGEST = 800
VAGUE = {"common", "helper", "helpers", "misc", "util", "utils"}


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return listing.stdout.rstrip("\0").split("\0")


def test_the_top_holds_only_what_it_should(tracked: list[str]) -> None:
    top = {name.split("/")[0] for name in tracked}
    assert {name for name in top if not name.startswith(".")} <= TOP
    assert top >= REQUIRED


def test_modules_are_short() -> None:
    assert len(MODULES) > 300
    lengths = {place(path): path.read_text(encoding="utf-8").count("\n") for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_names_say_something(tracked: list[str]) -> None:
    vague = [name for name in tracked if VAGUE & {part.split(".")[0] for part in name.split("/")}]
    assert vague == []


def test_scripts_are_executable(tracked: list[str]) -> None:
    scripts = [name for name in tracked if (ROOT / name).read_bytes().startswith(b"#!")]
    assert ".ci/run" in scripts
    assert [name for name in scripts if not (ROOT / name).stat().st_mode & 0o100] == []
