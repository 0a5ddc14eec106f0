"""The seeded sample of the gate: its order, its end, and what repeats a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run_python

ROOT = Path(__file__).parents[2]
TESTS = """
import time
import pytest
from hypothesis import given, strategies as st

@pytest.mark.parametrize("case", range(30))
def test_case(case, tmp_path):
    time.sleep(0.01)

@given(st.integers())
def test_drawn(number):
    print("drew", number)
    assert number < 0
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "tests"
    folder.mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    (folder / "test_a.py").write_text(TESTS, encoding="utf-8")
    for name in ("conftest", "precompiled", "rows", "sampling"):
        text = (ROOT / "tests" / f"{name}.py").read_text(encoding="utf-8")
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def output(suite: Path, *options: str) -> list[str]:
    done = run_python("-m", "pytest", "-v", "-p", "no:cacheprovider", *options, cwd=suite)
    return done.stdout.splitlines()


def test_a_seed_chooses_the_order_and_the_examples(suite: Path) -> None:
    lines = output(suite, "--sample-seconds=60", "--sample-seed=1")
    order = [line for line in lines if line.startswith("tests/test_a.py::test_case")]
    assert len(order) == 30
    assert order != sorted(order, key=lambda line: int(line.split("[")[1].split("]")[0]))
    assert "seeded sample: 31 of 31 tests in 60 s, --sample-seed 1" in lines
    command = "python -m pytest -m '' --hypothesis-seed=1 tests/test_a.py::test_drawn"
    assert f"repeat: {command}" in lines
    drawn = [line for line in lines if line.startswith("drew")]
    again = output(suite, "-m", "", "--hypothesis-seed=1", "tests/test_a.py::test_drawn")
    assert drawn == [line for line in again if line.startswith("drew")] != []


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.exhaustive)])
def test_no_test_starts_after_the_time(suite: Path, workers: str) -> None:
    lines = output(suite, "--sample-seconds=0.05", "-n", workers, "-k", "case")
    (told,) = (line for line in lines if line.startswith("seeded sample: "))
    ran, total = told.split()[2:5:2]
    assert 0 < int(ran) < int(total) == 30
