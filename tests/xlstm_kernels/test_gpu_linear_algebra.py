"""The times of linear algebra, at tiny sizes without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.gpu import linear_algebra


def test_all_functions_are_measured(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.json"
    arguments = ["--backend", "native", "--size", "tiny", "--json", str(figures)]
    assert linear_algebra.main(arguments) == 0
    printed = capfd.readouterr().out
    rows = json.loads(figures.read_text(encoding="utf-8"))["rows"]
    assert {row["function"] for row in rows} == set(linear_algebra.DECOMPOSITIONS)
    for row in rows:
        assert min(row["milliseconds"].values()) > 0
        assert 0 < row["error"] < 3
        assert f"| {row['function']} |" in printed


@pytest.mark.parametrize("name", linear_algebra.DECOMPOSITIONS)
def test_an_incorrect_result_has_an_error(name: str) -> None:
    one = linear_algebra.DECOMPOSITIONS[name]
    matrices = linear_algebra.draw((2, 4), one.positive)
    exact = getattr(np.linalg, name)
    parts = linear_algebra.as_arrays(exact(matrices.astype(np.float64)))
    assert linear_algebra.backward_error(one, matrices, parts) < 1e-12
    parts[-1] = 1.001 * parts[-1]
    assert linear_algebra.backward_error(one, matrices, parts) > 1e-4


def test_nothing_begins_after_the_time_limit(capfd: pytest.CaptureFixture[str]) -> None:
    linear_algebra.main(["--backend", "native", "--size", "tiny", "--seconds", "0"])
    assert capfd.readouterr().out.count("no time left") == 2 * len(linear_algebra.DECOMPOSITIONS)
