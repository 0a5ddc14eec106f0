"""Work in processes that may die, hang on the user's wish, or never be started."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from embercoach.engine import workers
from embercoach.engine.workers import Crash, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# A test module's functions can't be imported by a spawned child.
forked = pytest.mark.skipif(sys.platform != "linux", reason="needs forked processes")


def doubler() -> Callable[[int], tuple[int, int]]:
    return lambda number: (2 * number, os.getpid())


def dying() -> Callable[[int], int]:
    def work(number: int) -> int:
        if number == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 17:
            os._exit(3)
        return number

    return work


def results(
    make: Callable[[], Callable[[int], object]],
    tasks: Sequence[int],
    size: int = 10,
    jobs: int | None = None,
) -> dict[int, object]:
    found: dict[int, object] = {}
    for number, result in spread(make, tasks, [size] * len(tasks), [0] * len(tasks), jobs):
        assert number not in found
        found[number] = result
    assert sorted(found) == list(range(len(tasks)))
    return found


def test_few_tasks_stay_in_this_process() -> None:
    found = results(doubler, range(5))
    assert found == {n: (2 * n, os.getpid()) for n in range(5)}
    assert results(doubler, []) == {}


def test_one_job_stays_in_this_process() -> None:
    assert {pid for _, pid in results(doubler, range(50), jobs=1).values()} == {os.getpid()}  # type: ignore[misc]


@forked
def test_many_tasks_go_to_other_processes() -> None:
    found = results(doubler, range(100), jobs=3)
    assert [found[n][0] for n in range(100)] == [2 * n for n in range(100)]  # type: ignore[index]
    pids = {pid for _, pid in found.values()}  # type: ignore[misc]
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 3


@forked
def test_a_large_task_never_runs_in_this_process() -> None:
    found = results(doubler, range(2), size=workers.LARGE, jobs=1)
    pids = {pid for _, pid in found.values()}  # type: ignore[misc]
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_a_new_process_imports_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That folder is linted; an interpreter started with `-c` looks for modules there first."""
    if sys.version_info < (3, 11):
        pytest.skip("Python 3.10 has no switch for it")
    (tmp_path / "multiprocessing.py").write_text("open('owned', 'w')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "platform", "darwin")  # spawns, where others fork
    before = os.environ.get("PYTHONSAFEPATH")
    assert results(partial(partial, int), range(1), size=workers.LARGE) == {0: 0}
    assert os.environ.get("PYTHONSAFEPATH") == before
    assert not (tmp_path / "owned").exists()


@forked
def test_big_tasks_come_first() -> None:
    sizes = [1, workers.LARGE, 3, workers.LARGE + 1]
    order = [n for n, _ in spread(doubler, range(4), sizes, [0] * 4, 1)]
    assert order == [3, 1, 2, 0]


@forked
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_crash_costs_one_task(jobs: int) -> None:
    found = results(dying, range(60), size=workers.LARGE if jobs == 1 else 10, jobs=jobs)
    crashes = {n: str(r) for n, r in found.items() if isinstance(r, Crash)}
    assert crashes == {13: "the process was ended by SIGKILL", 17: "the process ended with code 3"}
    assert all(found[n] == n for n in range(60) if n not in crashes)


@forked
def test_stopping_early_ends_the_processes() -> None:
    pids = set()
    for count, (_, result) in enumerate(spread(doubler, range(500), [10] * 500, [0] * 500, 2)):
        pids.add(result[1])  # type: ignore[index]
        if count == 20:
            break
    del result
    gc.collect()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def deep() -> Callable[[int], int]:
    return lambda _: threading.stack_size()


def test_the_stack_is_deep_and_the_collector_back() -> None:
    assert gc.isenabled()
    before = threading.stack_size()
    results(deep, range(3))
    assert threading.stack_size() == before
    assert gc.isenabled()


def test_little_memory_means_a_smaller_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Thread(threading.Thread):
        def start(self) -> None:
            started.append(threading.stack_size())
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(workers.threading, "Thread", Thread)
    assert results(doubler, range(1)) == {0: (0, os.getpid())}
    assert len(started) > 2
    assert all(size == before // 4 for before, size in itertools.pairwise(started))
    assert started[-1] >= 1 << 20


def nester(depth: int) -> Callable[[int], str]:
    def work(_: int) -> str:
        import libcst

        code = f"x = {'(' * depth}1{')' * depth}\n"
        return type(libcst.parse_module(code).body[0]).__name__

    return work


@pytest.mark.sampled(0)
@forked
def test_nesting_that_overflows_a_usual_stack() -> None:
    """1215 levels of brackets are libcst's end at 8 MB."""
    assert results(partial(nester, 3000), range(1), jobs=1) == {0: "SimpleStatementLine"}


@forked
def test_garbage_without_the_collector_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    collected = []
    monkeypatch.setattr(workers, "UNCOLLECTED", 1000)
    monkeypatch.setattr(workers.gc, "collect", lambda: collected.append(1))

    def leaking() -> Callable[[int], int]:
        kept: list[list[int]] = []

        def work(number: int) -> int:
            kept.extend([number] for _ in range(2000))
            return number

        return work

    results(leaking, range(3))
    assert len(collected) == 3


INTERRUPTED = """
import os, signal, sys, time
# A shell starts background jobs with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, os.getcwd())
from embercoach.engine.workers import spread

def slow():
    def work(number):
        if number == 0:
            print("started", flush=True)
        time.sleep(60)
    return work

if __name__ == "__main__":
    try:
        list(spread(slow, range(30), [10] * 30, [0] * 30, 2))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def _is_gone(group: int) -> bool:
    """Whether no process of a group is left, or soon so: who reaps them is init."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@forked
def test_an_interrupt_ends_all_processes_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process
    out, err = process.communicate(timeout=20)
    assert (out, err, process.returncode) == ("interrupted\n", "", 0)
    assert _is_gone(process.pid)


@forked
def test_children_do_not_outlive_a_killed_parent() -> None:
    script = INTERRUPTED.replace("time.sleep(60)", "time.sleep(0.2)")
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.kill()
    process.wait()
    # The pipe closes when the last child that holds it is gone.
    process.stdout.read()
    process.stdout.close()
