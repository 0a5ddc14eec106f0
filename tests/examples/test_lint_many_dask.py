"""Checkouts on a Dask cluster: what is found is what one process finds, byte by byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.programs import ROOT

SCRIPT = ROOT / "examples" / "lint_many_dask.py"
PULL = """\
import mlx.core as mx


def total(x: mx.array) -> float:
    return x.sum().item()
"""


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.sampled(0)
def test_results_are_those_of_one_process(tmp_path: Path) -> None:
    """And a checkout that cannot be checked does not lose the others."""
    checkouts = {"a": 'profile = "ember"\n', "c d": "", "wrong": 'ignore = ["NOPE"]\n'}
    for name, configuration in checkouts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "embercoach.toml").write_text(configuration)
        for number in range(3):
            (tmp_path / name / f"m{number}.py").write_text(PULL * (number + 1))
    (tmp_path / "c d" / "broken.py").write_text("import mlx\ndef (:\n")
    whole = python(tmp_path, "-m", "embercoach", "check", "--output-format", "json", "a", "c d")
    ran = python(tmp_path, str(SCRIPT), "--shards", "2", "-o", "findings.json", *checkouts)
    assert (tmp_path / "findings.json").read_text(encoding="utf-8") == whole.stdout
    assert '"GRAPH-BREAK-001"' in whole.stdout
    assert (ran.returncode, whole.returncode) == (2, 2)
    message = "wrong: Error: ignore: unknown rule 'NOPE'"
    place = "(wrong/embercoach.toml:1)"
    lines = ran.stderr.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [message, message]
    assert all(place in line for line in lines)
