"""Real code: the standard library with its tests, and what is installed, checked file by file.

The default suite takes a sample, each file as if it stood alone; ``pytest -m sweep`` takes every
file where it is, imports followed, and those of further folders that ``EMBERCOACH_SWEEP`` names.
"""

from __future__ import annotations

import os
import random
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from embercoach.checks import Project
from tests.robustness.outcome import outcome_of_file

STANDARD = Path(sysconfig.get_path("stdlib"))
INSTALLED = Path(sysconfig.get_path("purelib"))
FURTHER = [Path(name) for name in os.environ.get("EMBERCOACH_SWEEP", "").split(os.pathsep) if name]
ALONE = Path("/nowhere")
SAMPLE = 40
LARGEST = 60_000  # bytes, of a sampled file


def python_files(root: Path) -> Iterator[Path]:
    """The Python files of a folder in order; of the standard library without what is installed."""
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if root != STANDARD or name != "site-packages")
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".py"))


def sampled(root: Path) -> list[Path]:
    files = [path for path in python_files(root) if path.stat().st_size < LARGEST]
    return random.Random(20).sample(files, min(SAMPLE, len(files)))


@pytest.mark.sampled(0)
@pytest.mark.parametrize("root", [STANDARD, INSTALLED], ids=["standard library", "installed"])
def test_a_sample(root: Path) -> None:
    project = Project()
    outcomes = Counter(outcome_of_file(path, project, ALONE / path.name) for path in sampled(root))
    # Libraries hold a few broken files, for their tests; most must have been checked.
    assert outcomes["checked"] > 0.9 * outcomes.total()


@pytest.mark.sweep
@pytest.mark.parametrize("root", [STANDARD, INSTALLED, *FURTHER], ids=str)
def test_every_file(root: Path) -> None:
    project = Project()
    outcomes = {path: _outcome_or_failure(path, project) for path in python_files(root)}
    assert "checked" in outcomes.values()
    assert not {p: o for p, o in outcomes.items() if o not in ("checked", "refused")}


def _outcome_or_failure(path: Path, project: Project) -> str:
    try:
        return outcome_of_file(path, project)
    except Exception as error:  # noqa: BLE001  (all failures are told at once)
        return repr(error)
