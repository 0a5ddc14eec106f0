"""Files that take too much time, memory or room: a problem each, and the run goes on."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from typing import TYPE_CHECKING

import pytest

from embercoach.analysis import work
from embercoach.analysis.dataflow import gradient_roots
from embercoach.config import Settings
from embercoach.engine import budget
from embercoach.engine.budget import Exceeded, TaskWatch, size_problem
from embercoach.engine.check_run import run
from embercoach.engine.workers import spread
from embercoach.metal import work_budget

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

forked = pytest.mark.skipif(sys.platform != "linux", reason="needs forked processes")
PULL = "import mlx.core as mx\nx = mx.ones(3)\nfor i in range(3):\n    float(x)\n"


def looping() -> Callable[[int], int]:
    def do(number: int) -> int:
        while number == 1:
            with contextlib.suppress(Exception):  # as a check might
                sum(range(1000))
        return number

    return do


def computing() -> Callable[[int], int]:
    """In native code, which no exception interrupts."""
    return lambda number: number if number != 1 else len(str(sum(itertools.count())))


def hoarding() -> Callable[[int], int]:
    def do(number: int) -> int:
        kept = []
        while number == 1:
            kept.append(b"x" * 5_000_000)
            time.sleep(0.005)
        return number

    return do


def done(make: Callable[[], Callable[[int], int]], jobs: int) -> dict[int, object]:
    return dict(spread(make, range(4), [10] * 4, [0] * 4, jobs))


@pytest.fixture(autouse=True)
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SECONDS", 0.05)
    monkeypatch.setattr(budget, "GRACE", 0)
    monkeypatch.setattr(budget, "MEMORY", 40_000_000)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=forked)])
def test_a_task_that_does_not_end_is_ended(jobs: int) -> None:
    assert done(looping, jobs) == {0: 0, 1: Exceeded("time"), 2: 2, 3: 3}


@forked
def test_native_code_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests of this process have read files, for which a task is allowed more.
    monkeypatch.setattr(budget, "SECONDS_A_CHARACTER", 0)
    assert done(computing, 2) == {0: 0, 1: Exceeded("time"), 2: 2, 3: 3}


@forked
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_task_that_takes_all_memory_is_ended(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SECONDS", 60)
    assert done(hoarding, jobs) == {0: 0, 1: Exceeded("memory"), 2: 2, 3: 3}


def test_a_file_that_others_are_read_for_has_more_time() -> None:
    watch = TaskWatch()
    watch.run(lambda _: None, None)
    before = watch.seconds()
    work.note_reading("x" * 1_000_000)
    assert watch.seconds() == pytest.approx(before + 200)


def count_work(monkeypatch: pytest.MonkeyPatch, counter: ModuleType, most: int) -> None:
    """Bound the counted work of a file, whatever its size, and leave it time."""
    monkeypatch.setattr(budget, "SECONDS", 60)
    monkeypatch.setattr(counter, "_FILE", most)
    monkeypatch.setattr(counter, "_CHARACTER", 0)


def test_what_exceeds_the_counted_work_is_a_problem_beside_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_work(monkeypatch, work, 30)
    (tmp_path / "good.py").write_text(PULL)
    calls = "".join(f"def f{i}(x): return f{i + 1}(x) + f{i + 1}([x])\n" for i in range(9))
    late = "for i in range(3):\n    x.item()  # embercoach: ignore[X-1]\n"
    (tmp_path / "heavy.py").write_text(f"{PULL}{calls}f0(x)\n{late}")
    settings = Settings(root=tmp_path)
    first = run([str(tmp_path)], settings)
    again = run([str(tmp_path)], settings)  # from the cache, as far as that goes
    spread_out = run([str(tmp_path)], settings, cache=False, jobs=2)
    for result in (first, again, spread_out):
        # What is found up to there is kept; of what comes after it nothing is said.
        found = [(finding.path, finding.line, finding.code) for finding in result.findings]
        assert found == [
            (str(tmp_path / name), 4, "GRAPH-BREAK-002") for name in ("good.py", "heavy.py")
        ]
        (problem,) = result.problems
        assert problem.path == str(tmp_path / "heavy.py")
        assert problem.message.startswith("analysis exceeded its budget: ")


def test_the_differentiated_functions_of_a_file_share_counted_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_work(monkeypatch, work, 100_000)
    monkeypatch.setattr(gradient_roots, "FILE_WORK", -100)
    (tmp_path / "a.py").write_text(f"{PULL}mx.grad(lambda x: {'x + ' * 40}x)(x)\n")
    (problem,) = run([str(tmp_path)], Settings(root=tmp_path), cache=False).problems
    assert problem.message.startswith("analysis exceeded its budget: ")


RACING = """\
kernel void k{0}(device float* x [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {{
    threadgroup float s[64];
    s[i] = x[i];
    x[i] = s[(i + 1) % 64];
}}
"""


def test_findings_of_kernels_within_the_counted_work_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_work(monkeypatch, work_budget, 30_000)
    kernels = "".join(RACING.format(number) for number in range(9))
    ignored = "// embercoach: ignore[KERNEL-BARRIER-001]\n"
    path = tmp_path / "many.metal"
    path.write_text(f"#include <metal_stdlib>\nusing namespace metal;\n{ignored}{kernels}")
    for _ in range(2):  # from the cache the second time
        result = run([str(tmp_path)], Settings(root=tmp_path))
        (problem,) = result.problems
        assert problem.path == str(path)
        assert problem.message == "analysis exceeded its budget: not all kernels were followed"
        # What nothing is found for may be used in a kernel that was not followed.
        assert {finding.code for finding in result.findings} == {"KERNEL-RACE-001"}
        assert 0 < len(result.findings) < 9
    assert result.cached == 1


@pytest.mark.parametrize("named", [True, False])
def test_a_file_above_max_file_size_is_a_problem(tmp_path: Path, *, named: bool) -> None:
    (tmp_path / "small.py").write_text(PULL)
    large = tmp_path / "large.py"
    large.write_text(PULL + "#" * 2000)
    settings = Settings(root=tmp_path, max_file_size=0.001)
    paths = [str(tmp_path / "small.py"), str(large)] if named else [str(tmp_path)]
    result = run(paths, settings, cache=False)
    (problem,) = result.problems
    assert problem.path == str(large)
    assert problem.message == "file exceeds max-file-size: 0.00207 MB, at most 0.001"
    assert {finding.path for finding in result.findings} == {str(tmp_path / "small.py")}


def test_a_large_file_that_concerns_nobody_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text("x = 1\n" * 1000)
    result = run([str(tmp_path)], Settings(root=tmp_path, max_file_size=0.001), cache=False)
    assert (result.problems, result.files_skipped) == ((), 1)


@pytest.mark.parametrize(("outputs", "code", "problems"), [(9000, 1, 0), (1, 9000, 1)])
def test_of_a_notebook_the_code_counts(
    tmp_path: Path, outputs: int, code: int, problems: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "SECONDS", 60)
    cell = {
        "cell_type": "code",
        "metadata": {},
        "execution_count": 1,
        "source": PULL + "#" * code,
        "outputs": [{"output_type": "stream", "name": "stdout", "text": "x" * outputs}],
    }
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    settings = Settings(root=tmp_path, max_file_size=0.005)
    result = run([str(tmp_path)], settings, cache=False)
    assert len(result.problems) == problems
    assert bool(result.findings) == (problems == 0)


def test_limits_differ_by_language() -> None:
    size = 1_500_000
    assert size_problem(size, "python", None) is None
    assert size_problem(4_000_000, "python", None) is None
    assert size_problem(4_000_001, "python", None) is not None
    assert size_problem(size, "metal", None) == "file exceeds max-file-size: 1.5 MB, at most 1"
